"""Runs on many machines: a Dask cluster, started by whatever Dask deploys it with.

Each run happens in a process of its own beside the Dask worker (one per thread of it, kept alive), so that
runs do not share random state or threads, and a run that crashes does not take the worker along.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ciga.errors import CigaError, MissingExtra
from ciga.runs.pool.executors import Event, Spec, WorkerProcess

Files = Mapping[str, bytes]  # name -> content, of a folder that `ciga.data.cache` wrote


class Cluster:
    """Dask as an `Executor`: others take up a lost worker's runs, from its checkpoint if they see it."""

    #: Every machine finds its own files, or is sent what it lacks.
    prepares = False

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise MissingExtra("dask.distributed", "cluster") from None
        try:
            self.client: Any = Client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise CigaError(f"No Dask scheduler answers at {address}: {error}") from None
        self.inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.threads, self.counted = 0, float("-inf")
        self.specs: dict[str, Spec] = {}
        self.sent: dict[str, Any] = {}  # dataset and options -> scattered files

    def slots(self) -> int:
        now = time.monotonic()
        if now - self.counted > 2.0:  # asking the scheduler takes a while; workers come and go
            self.threads, self.counted = sum(self.client.nthreads().values()), time.monotonic()
        return self.threads

    def start(self, task: str, spec: Spec) -> None:
        self.specs[task] = spec
        self._submit(task, None)

    def _submit(self, task: str, files: Any) -> None:
        spec = {**self.specs[task], "want_record": True, "ask_for_data": files is None}
        future = self.client.submit(
            perform_beside, spec, files, key=f"ciga-{task}-{os.urandom(4).hex()}", pure=False
        )
        future.add_done_callback(lambda done: self.inbox.put((task, done)))

    def wait(self, seconds: float) -> Event | None:
        try:
            task, future = self.inbox.get(timeout=seconds)
        except queue.Empty:
            return None
        if future.status != "finished":
            error = future.exception() if future.status == "error" else "cancelled"
            return Event(task, "died", {"error": f"{type(error).__name__}: {error}"})
        outcome = dict(future.result())
        if outcome["status"] == "died":
            return Event(task, "died", outcome)
        if outcome["status"] == "no-data" and self._send(task, outcome):
            return None
        record = outcome.pop("record", None)
        if record is not None:
            _keep(record, Path(self.specs[task]["runs_dir"]))
        return Event(task, "end", outcome)

    def _send(self, task: str, outcome: dict[str, Any]) -> bool:
        """A worker lacks the raw files: build the data here and send it, once for each worker."""
        spec = self.specs[task]
        key = repr((spec["dataset"], sorted(spec["data"].items())))
        if key not in self.sent:
            try:
                files = pack(spec)
            except CigaError as error:
                outcome["error"] = f"{outcome['error']} on the worker, and here: {error}"
                return False
            self.sent[key] = self.client.scatter(files, hash=True)
        self._submit(task, self.sent[key])
        return True

    def close(self) -> None:
        self.client.close()


def _keep(record: Mapping[str, Any], root: Path) -> None:
    """Write down what came back, where the worker's folder is not ours."""
    from ciga.files import write_json

    file = root / str(record["hash"]) / "record.json"
    if not file.is_file():
        write_json(file, record)


# ---------------------------------------------------------------- on the worker

_mine = threading.local()


def perform_beside(spec: Spec, files: Files | None) -> dict[str, Any]:
    """Hand a job to this thread's own process and wait for the outcome."""
    process: WorkerProcess | None = getattr(_mine, "process", None)
    if process is None or process.process.poll() is not None:
        logs = Path(spec["runs_dir"]) / "bench" / "logs"
        log = logs / f"dask-{os.uname().nodename}-{os.getpid()}-{threading.get_ident() % 10_000}.log"
        _mine.inbox = queue.SimpleQueue()
        process = _mine.process = WorkerProcess(log, _mine.inbox)
        atexit.register(process.close)
    process.give("run", {**spec, "splits": str(unpack(files)) if files else None})
    while True:
        _, message = _mine.inbox.get()
        if message is None:
            return {"status": "died", "error": process.obituary()}
        if "status" in message:
            return dict(message)


def pack(spec: Spec) -> dict[str, bytes]:
    """The data of a job as files."""
    from ciga.data.cache import write_splits
    from ciga.data.dataset import make
    from ciga.registry import load_plugin

    for plugin in spec["plugins"]:
        load_plugin(plugin)
    splits = make(spec["dataset"], spec["data"]).build()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "splits"
        write_splits(splits, folder)
        return {f.name: f.read_bytes() for f in sorted(folder.iterdir())}


def unpack(files: Files) -> Path:
    """Put files that were sent on this machine's disk, once; named by their content."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(hashlib.sha256(files[name]).digest())
    from ciga.data.cache import cache_home

    folder = cache_home() / f"sent-{digest.hexdigest()[:20]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".sent-"))
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        try:
            temporary.rename(folder)
        except OSError:  # another thread was faster
            shutil.rmtree(temporary, ignore_errors=True)
    return folder
