"""A Dask cluster of real worker processes on loopback, one of which is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ciga.errors import CigaError
from ciga.runs.pool.cluster import Cluster, pack, unpack
from ciga.runs.pool.executors import Inline
from ciga.runs.pool.job import Job
from ciga.runs.pool.schedule import Pool
from ciga.runs.pool.sent import Sent
from ciga.runs.records import Records
from tests.processes import wait_for
from tests.runs.test_pool import Place, undisturbed

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: object) -> Place:
    # `plugin` makes the registries forget after the test what the file registers
    monkeypatch.setenv("SLOW_PLACE", str(tmp_path))
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))
    return Place(tmp_path)


@pytest.fixture
def dask(place: Place) -> Iterator[Any]:
    """Two workers, each a process with one thread."""
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    )
    yield cluster
    cluster.close(timeout=60)


def test_a_killed_dask_worker_loses_nothing(place: Place, dask: Any) -> None:
    expected = undisturbed(place)
    runs = place.root / "runs"
    place.hold()
    executor = Cluster(dask.scheduler_address)
    assert executor.slots() == 2
    killed: list[int] = []

    def kill() -> None:
        wait_for(lambda: len(list(runs.glob("*/checkpoint.safetensors"))) == 2)
        busy = next(address for address, tasks in executor.client.processing().items() if tasks)
        pid = executor.client.run(os.getpid)[busy]
        killed.append(pid)
        os.kill(pid, signal.SIGKILL)
        place.release()

    killer = threading.Thread(target=kill)
    killer.start()
    state = Pool(place.plans(), Records([runs]), executor, device="cpu").run()
    killer.join()
    assert (state.done, state.failed) == (3, {})
    assert place.csv(runs) == expected
    logs = {f.name: f.read_text() for f in (runs / "bench" / "logs").glob("dask-*.log")}
    (log,) = [text for name, text in logs.items() if f"-{killed[0]}-" in name]
    assert "run slow-erm" in log
    # What it was at when it was killed has no end in its log, but a record from another worker.
    assert log.count("run slow-erm") > log.count("done")


CLUSTER = """
from distributed import LocalCluster
if __name__ == "__main__":
    made = LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    print(made.scheduler_address, flush=True)
    input()
"""


def test_a_killed_scheduler_is_one_sentence(place: Place) -> None:
    """What is finished is recorded; the user is told to run the same command again."""
    script = place.root / "cluster.py"
    script.write_text(CLUSTER)
    elsewhere = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert elsewhere.stdout is not None
    runs = place.root / "runs"
    place.hold()

    def kill() -> None:
        wait_for(lambda: list(runs.glob("*/checkpoint.safetensors")))
        elsewhere.kill()
        elsewhere.wait()

    killer = threading.Thread(target=kill)
    executor = Cluster(elsewhere.stdout.readline().strip())
    killer.start()
    with pytest.raises(CigaError, match=r"no longer answers.*run the same command again"):
        Pool(place.plans(), Records([runs]), executor, device="cpu").run()
    killer.join()
    place.release()
    assert Pool(place.plans(), Records([runs]), Inline()).run().done == 3


def test_data_a_worker_has_not_is_sent(place: Place) -> None:
    """Packed here, unpacked there: the same splits, written once."""
    spec = place.plans("erm")[0].spec
    files = pack(spec)
    folder = unpack(files)
    assert unpack(files) == folder
    before = {f.name: f.stat().st_mtime_ns for f in folder.iterdir()}
    unpack(files)
    assert {f.name: f.stat().st_mtime_ns for f in folder.iterdir()} == before
    from ciga.data.dataset import make

    here = make(spec.dataset, spec.data).build()
    assert Sent(folder).build().fingerprint() == here.fingerprint()


class Future:
    def __init__(self, outcome: dict[str, Any]) -> None:
        self.status, self.outcome = "finished", outcome

    def result(self) -> dict[str, Any]:
        return self.outcome

    def add_done_callback(self, call: Any) -> None:
        call(self)


class Client:
    """A client whose worker lacks the files until they are sent, and has a disk of its own."""

    def __init__(self, elsewhere: Path) -> None:
        self.elsewhere, self.scattered, self.calls = elsewhere, 0, 0
        self.rpc = SimpleNamespace()

    def nthreads(self) -> dict[str, int]:
        return {"tcp://worker": 1}

    def submit(self, function: Any, said: dict[str, Any], files: Any, **more: Any) -> Future:
        from ciga.runs.pool.worker import perform

        self.calls += 1
        if said["ask_for_data"]:
            return Future({"status": "no-data", "error": "some.json not here"})
        job = Job.from_dict({**said, "runs_dir": str(self.elsewhere), "splits": str(unpack(files))})
        return Future(perform(job, lambda m: None))

    def scatter(self, files: Any, hash: bool) -> Any:
        self.scattered += 1
        return files

    def close(self) -> None:
        pass


def test_a_worker_of_another_version_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs have other hashes: what comes back is not what was asked for."""

    class Other(Client):
        def submit(self, function: Any, said: dict[str, Any], files: Any, **more: Any) -> Future:
            return Future({"status": "done", "record": {"hash": "0123456789abcdef"}})

    monkeypatch.setattr(distributed, "Client", lambda *args, **kwargs: Other(place.root / "elsewhere"))
    runs = place.root / "runs"
    state = Pool(place.plans("erm"), Records([runs]), Cluster("tcp://nowhere"), device="cpu").run()
    assert state.done == 0
    assert state.failed
    assert all("another version of ciga" in error for error in state.failed.values())
    assert not list(runs.glob("*/record.json"))


def test_a_worker_without_our_folder_or_files(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent the data, once, and its records come home."""
    client = Client(place.root / "elsewhere")
    monkeypatch.setattr(distributed, "Client", lambda *args, **kwargs: client)
    records = Records([place.root / "runs"])
    todo = place.plans("erm")
    state = Pool(todo, records, Cluster("tcp://nowhere:1"), device="cpu").run()
    assert (state.done, state.failed) == (3, {})
    assert (client.scattered, client.calls) == (1, 6)
    assert all(records.find(job.config) is not None for job in todo)
    assert (place.root / "elsewhere" / todo[0].hash / "weights.last.safetensors").is_file()


def test_a_scheduler_without_workers_is_one_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(place.root / "elsewhere")
    monkeypatch.setattr(client, "nthreads", dict)
    monkeypatch.setattr(distributed, "Client", lambda *args, **kwargs: client)
    monkeypatch.setattr("ciga.runs.pool.cluster.PATIENCE", 0.1)
    with pytest.raises(CigaError, match="has no workers: start some"):
        Pool(place.plans("erm"), Records([place.root / "runs"]), Cluster("tcp://nowhere"), device="cpu").run()


def test_no_scheduler() -> None:
    with pytest.raises(CigaError, match="No Dask scheduler answers"):
        Cluster("tcp://127.0.0.1:1")
