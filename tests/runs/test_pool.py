"""A bench that is killed, disturbed or shared gives the table of an undisturbed one."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ciga.bench.exhibit import Own, PaperTable, Row
from ciga.bench.grid import Variation, plans
from ciga.bench.paper import exhibit
from ciga.bench.render import to_csv
from ciga.bench.tables import fill
from ciga.errors import CigaError
from ciga.registry import load_plugin
from ciga.runs.plan import Plan
from ciga.runs.pool.executors import Event, Inline, Processes, Take
from ciga.runs.pool.job import Job
from ciga.runs.pool.schedule import Pool, PoolState
from ciga.runs.pool.several import run_all
from ciga.runs.pool.worker import perform
from ciga.runs.records import Records
from tests.bench.conftest import TINY
from tests.processes import is_running, wait_for

#: An ERM that writes down when it starts, and after its first epoch waits while it is told to, so that it can
#: be killed in the middle.
PLUGIN = """
import os, time
from dataclasses import dataclass
from pathlib import Path
from ciga.methods.erm import ERM
from ciga.methods.base import register

@register("slow-erm")
@dataclass
class SlowERM(ERM):
    def prepare(self, context):
        with (Path(os.environ["SLOW_PLACE"]) / "starts").open("a") as file:
            file.write(f"{context.seed}\\n")
        return super().prepare(context)

    def loss(self, network, batch, step):
        while step.epoch and (Path(os.environ["SLOW_PLACE"]) / "hold").exists():
            time.sleep(0.05)
        return super().loss(network, batch, step)

@register("broken-erm")
@dataclass
class BrokenERM(ERM):
    def loss(self, network, batch, step):
        raise RuntimeError("a bug of the method's")
"""
SEEDS = (1, 2, 3)
ROWS = [Row("slow", "Slow", "slow-erm", group="ours", extra=True)]
COLUMN = "spmotif-struc-0.60"
EPOCHS = {**TINY.settings, "epochs": "5"}


class Place:
    """A folder with the plugin, the tiny grid, and its table."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plugin = root / "slow.py"
        self.plugin.write_text(PLUGIN)
        load_plugin(self.plugin)
        self.variation = Variation(TINY.data, EPOCHS, plugins=(str(self.plugin),))
        table = exhibit("table-spmotif")
        assert isinstance(table, PaperTable)
        self.table = table

    def plans(self, *methods: str) -> list[Plan]:
        columns = self.table.select((), [COLUMN])[1]
        rows = [Row(m, m, m, extra=True) for m in methods] or ROWS
        cells = [c for r in rows if (c := self.table.cell(r, columns[0])) is not None]
        return plans(self.variation.apply(cells), self.variation, SEEDS)

    def csv(self, runs: Path) -> str:
        return to_csv(
            fill(
                self.table,
                Records([runs]),
                self.variation,
                select="all",
                methods=["erm"],
                datasets=[COLUMN],
                seeds=SEEDS,
                own=Own(ROWS),
            )
        )

    def hold(self) -> None:
        """From now on, runs wait after their first epoch."""
        (self.root / "hold").touch()

    def release(self) -> None:
        (self.root / "hold").unlink()

    def starts(self) -> list[str]:
        file = self.root / "starts"
        return sorted(file.read_text().split()) if file.exists() else []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: object) -> Place:
    # `plugin` makes the registries forget after the test what the file registers
    monkeypatch.setenv("SLOW_PLACE", str(tmp_path))
    return Place(tmp_path)


_UNDISTURBED: list[str] = []


def undisturbed(place: Place) -> str:
    """The table of a bench that nothing happens to; the same wherever it is made, so made once."""
    if _UNDISTURBED:
        return _UNDISTURBED[0]
    runs = place.root / "undisturbed"
    state = Pool(place.plans(), Records([runs]), Inline()).run()
    assert (state.done, state.failed) == (3, {})
    (place.root / "starts").unlink()
    text = place.csv(runs)
    assert ",slow,last,accuracy," in text
    _UNDISTURBED.append(text)
    return text


def command(place: Place, runs: Path, *more: str) -> list[str]:
    pairs = [f"--data={k}={v}" for k, v in place.variation.data.items()]
    pairs += [f"--set={k}={v}" for k, v in place.variation.settings.items()]
    return [
        sys.executable, "-c", "from ciga.cli import main; main()", "bench", "table-spmotif", *pairs,
        "--methods=none", "--datasets", COLUMN, "--row", "Slow=slow-erm", "--seeds", "1-3",
        "--runs-dir", str(runs), "--plugin", str(place.plugin), *more,
    ]  # fmt: skip


def test_killed_and_started_again(place: Place) -> None:
    """`kill -9` of the whole bench in the middle of a run; the next one continues from the checkpoint."""
    expected = undisturbed(place)
    runs = place.root / "runs"
    place.hold()
    bench = subprocess.Popen(command(place, runs, "--workers=1"), stderr=subprocess.PIPE)
    wait_for(lambda: list(runs.glob("*/checkpoint.safetensors")))
    bench.kill()
    bench.communicate()
    assert place.starts() == ["1"]
    place.release()
    state = Pool(place.plans(), Records([runs]), Inline()).run()
    assert (state.done, state.failed) == (3, {})
    assert place.csv(runs) == expected
    # The interrupted run went on where it was: it was not prepared a second time.
    assert place.starts() == ["1", "2", "3"]


TOGETHER = """
import sys
import json
from ciga.runs.plan import plan
from ciga.runs.pool.several import run_all
from ciga.runs.spec import RunSpec

specs = [RunSpec.from_dict(spec) for spec in json.loads(sys.argv[1])]
run_all([plan(spec) for spec in specs], sys.argv[2], device="cpu", workers=2)
"""


def test_workers_end_with_their_parent_in_the_middle_of_a_run(place: Place) -> None:
    """`kill -9`; and the same runs at once go on where they were, not "in progress" for ever."""
    runs = place.root / "runs"
    todo = place.plans()[:2]
    place.hold()
    parent = subprocess.Popen(
        [sys.executable, "-c", TOGETHER, json.dumps([p.spec.as_dict() for p in todo]), str(runs)]
    )
    owners = wait_for(
        lambda: found if len(found := [o.read_text() for o in runs.glob("*/owner")]) == 2 else None
    )
    wait_for(lambda: len(list(runs.glob("*/checkpoint.safetensors"))) == 2)
    workers = [int(owner.split()[1]) for owner in owners]
    assert all(is_running(worker) for worker in workers)
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(is_running(worker) for worker in workers))
    place.release()
    assert len(run_all(todo, runs, device="cpu", workers=1)) == 2
    assert place.starts() == ["1", "2"]  # continued, not begun again


def test_the_first_failure_ends_all_where_all_are_needed(place: Place) -> None:
    """`ciga fit` cannot do with fewer; the error is what the run said."""
    heard: list[tuple[int, int, str]] = []
    todo = place.plans("erm", "broken-erm")
    with pytest.raises(CigaError, match="broken-erm seed 1 failed: RuntimeError: a bug of the method's"):
        run_all(
            todo, place.root / "runs", device="cpu", workers=1, on_epochs=lambda *news: heard.append(news)
        )
    assert any(text.startswith("erm seed 1: epoch 3") for _, _, text in heard)
    assert heard[-1][1] == 30
    assert sorted(done for done, _, _ in heard)[-1] == 5


def test_a_killed_worker_only_means_another_try(place: Place) -> None:
    expected = undisturbed(place)
    runs = place.root / "runs"
    place.hold()
    executor = Processes(2, runs / "bench" / "logs")
    news: list[str] = []

    def kill() -> None:
        wait_for(lambda: list(runs.glob("*/checkpoint.safetensors")))
        os.kill(executor.pool[0].process.pid, signal.SIGKILL)
        place.release()

    killer = threading.Thread(target=kill)
    killer.start()
    state = Pool(place.plans(), Records([runs]), executor, watch=lambda s, n: news.append(n)).run()
    killer.join()
    assert (state.done, state.failed) == (3, {})
    assert place.csv(runs) == expected
    (said,) = [n for n in news if "tried again" in n]
    assert "signal 9" in said
    log = Path(said.split("its log: ")[1].split(")")[0])
    assert "run slow-erm" in log.read_text()


def test_two_benches_at_the_same_time_share_the_work(place: Place) -> None:
    """Real commands on one folder: every run is started once, and both end with everything recorded."""
    expected = undisturbed(place)
    runs = place.root / "runs"
    place.hold()
    both = [
        subprocess.Popen(command(place, runs, "--workers=1"), stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    wait_for(lambda: len(place.starts()) == 2)  # each at its own run, the first of both being taken
    place.release()
    said = [bench.communicate(timeout=1200)[1] for bench in both]
    assert [bench.returncode for bench in both] == [0, 0], said
    assert place.starts() == ["1", "2", "3"]
    assert place.csv(runs) == expected
    for text in said:
        assert "3 runs, " in text
        assert "0 failed, 0 not started" in text


def test_failures_are_recorded_and_retried_only_when_asked(place: Place) -> None:
    records = Records([place.root / "runs"])
    todo = place.plans("broken-erm", "erm")
    state = Pool(todo, records, Inline()).run()
    assert (state.done, len(state.failed)) == (3, 3)
    failure = records.failure(todo[0].config)
    assert failure is not None
    assert "RuntimeError: a bug of the method's" in failure["error"]
    assert "slow.py" in failure["traceback"]
    again = Pool(todo, records, Inline()).run()
    assert (again.recorded, again.done, len(again.failed)) == (3, 0, 3)
    assert "--retry" in next(iter(again.failed.values()))
    place.plugin.write_text(PLUGIN)  # the same file: the same runs
    retried = Pool(todo, records, Inline(), retry=True).run()
    assert len(retried.failed) == 3


def test_a_full_disk_is_no_failure_of_the_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pool again tries it again, without being asked to."""
    records, todo = Records([place.root / "runs"]), place.plans("erm")[:1]

    def full(*args: Any, **more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "weights")

    with monkeypatch.context() as patch:
        patch.setattr("ciga.runs.plan.execute", full)
        (said,) = Pool(todo, records, Inline()).run().failed.values()
    assert said.startswith("weights cannot be written: the disk is full.")
    assert Pool(todo, records, Inline()).run().done == 1


def test_a_success_clears_the_failure(place: Place) -> None:
    records = Records([place.root / "runs"])
    job = place.plans("erm")[0]
    records.runs[0].write_failure(job.config, {"error": "earlier", "time": ""})
    assert Pool([job], records, Inline()).run().done == 0
    assert Pool([job], records, Inline(), retry=True).run().done == 1
    assert records.failure(job.config) is None


class Dying(Inline):
    """An executor whose worker dies at every task."""

    def wait(self, seconds: float, take: Take) -> None:
        task, _ = self.waiting.pop(0)
        take(Event(task, "died", {"error": "worker process 1 ended with signal 9"}))


def test_a_run_that_kills_its_worker_every_time_is_given_up(place: Place) -> None:
    records = Records([place.root / "runs"])
    (job,) = place.plans("erm")[:1]
    state = Pool([job], records, Dying()).run()
    assert "died 3 times" in next(iter(state.failed.values()))
    assert "memory" in records.failure(job.config)["error"]


def test_no_new_runs_when_the_time_is_up(place: Place) -> None:
    state = Pool(place.plans("erm"), Records([place.root / "runs"]), Inline(), limit_hours=0).run()
    assert (state.done, state.not_started) == (0, 3)


def test_data_that_cannot_be_had_fails_its_runs_without_a_mark(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the files have been fetched, the next bench must simply go on."""
    monkeypatch.setenv("CIGA_DATA", str(place.root / "nothing"))
    cells = exhibit("table-single-env").cells(["erm"], ["drugood-ec50-assay-single"])
    todo = plans(cells, Variation(), [1, 2])
    records = Records([place.root / "runs"])
    state = Pool(todo, records, Inline(prepares=True)).run()
    assert len(state.failed) == 2
    assert "lbap_core_ec50_assay.json" in next(iter(state.failed.values()))
    assert records.failure(todo[0].config) is None


def test_what_another_process_recorded_meanwhile_is_not_run(place: Place) -> None:
    """Busy at first; recorded when looked at again."""
    records = Records([place.root / "runs"])
    (job,) = place.plans("erm")[:1]
    news: list[tuple[PoolState, str]] = []
    other = records.runs[0]
    held = threading.Event()
    free = threading.Event()

    def elsewhere() -> None:
        with other.lock(job.config):
            held.set()
            free.wait(60)
            sent = Job(job.spec, str(place.root / "elsewhere"), "cpu")
            record = perform(sent, lambda message: None)["record"]
            other.write(job.config, record)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    held.wait(60)
    executor = Inline()
    plain = executor.wait

    def wait(seconds: float, take: Take) -> None:
        plain(seconds, take)
        free.set()

    executor.wait = wait  # type: ignore[method-assign]
    state = Pool([job], records, executor, watch=lambda s, n: news.append((s, n))).run()
    thread.join()
    assert state.done == 1
    assert any("already in progress" in n and n.endswith("Waiting for it.") for _, n in news)
    assert any("another process" in n for _, n in news)
