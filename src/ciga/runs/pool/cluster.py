"""Runs on many machines: a Dask cluster, started by whatever Dask deploys it with.

Each run happens in a process of its own beside the Dask worker (one per thread of it, kept alive), so that
runs do not share random state or threads, and a run that crashes does not take the worker along.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import platform
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ciga.errors import CigaError, MissingExtra
from ciga.runs.plan import plan
from ciga.runs.pool.executors import Event, Take, WorkerProcess
from ciga.runs.pool.job import Job
from ciga.runs.spec import RunSpec

Files = Mapping[str, bytes]  # name -> content, of a folder that `ciga.data.cache` wrote

#: Dask's tracebacks about a lost scheduler: we say it in one sentence.
NOISY = ("distributed", "distributed.client", "distributed.core", "distributed.utils", "tornado", "asyncio")

#: Seconds to wait for the first worker.
PATIENCE = 60.0
#: Seconds in which a scheduler that was there must answer: it may be busy for a while.
ANSWER = 30.0


class Cluster:
    """Dask as an `Executor`: others take up a lost worker's runs, from its checkpoint if they see it."""

    #: Every machine finds its own files, or is sent what it lacks.
    prepares = False

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
            from distributed.security import Security
        except ImportError:
            raise MissingExtra("dask.distributed", "cluster") from None
        for name in NOISY:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self.address = address
        if address.startswith("tls:") and not Security().get_connection_args("client").get("ssl_context"):
            raise CigaError(
                f"{address} needs a certificate: set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT "
                "and …__CLIENT__KEY, as the page On a cluster shows."
            )
        try:
            self.client: Any = Client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError, TypeError, TimeoutError) as error:
            raise CigaError(f"No Dask scheduler answers at {address}: {error}") from None
        self.client.rpc.timeout = ANSWER
        self.inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.threads, self.counted = 0, float("-inf")
        self.jobs: dict[str, Job] = {}
        self.sent: dict[str, Any] = {}  # dataset and options -> scattered files

    def slots(self) -> int:
        now = time.monotonic()
        if now - self.counted > 2.0:  # asking the scheduler takes a while; workers come and go
            self.threads, self.counted = self._count(), time.monotonic()
        until = now + PATIENCE
        while not self.threads:  # with nobody to do them, runs would count as not started
            if time.monotonic() > until:
                raise CigaError(
                    f"The scheduler at {self.address} has no workers: start some, then try again."
                )
            time.sleep(0.5)
            self.threads, self.counted = self._count(), time.monotonic()
        return self.threads

    def _count(self) -> int:
        with self._answering():
            return sum(self.client.nthreads().values())

    def start(self, task: str, job: Job) -> None:
        self.jobs[task] = job
        self._submit(task, None)

    def _submit(self, task: str, files: Any) -> None:
        job = replace(self.jobs[task], want_record=True, ask_for_data=files is None)
        with self._answering():
            future = self.client.submit(
                perform_beside, job.as_dict(), files, key=f"ciga-{task}-{os.urandom(4).hex()}", pure=False
            )
        future.add_done_callback(lambda done: self.inbox.put((task, done)))

    def wait(self, seconds: float, take: Take) -> None:
        try:
            task, future = self.inbox.get(timeout=seconds)
        except queue.Empty:
            return
        with self._answering():
            if future.status != "finished":
                error = future.exception() if future.status == "error" else "cancelled"
                take(Event(task, "died", {"error": f"{type(error).__name__}: {error}"}))
                return
            outcome = dict(future.result())
        if outcome["status"] == "died":
            take(Event(task, "died", outcome))
        elif outcome["status"] != "no-data" or not self._send(task, outcome):
            record = outcome.pop("record", None)
            if record is not None and record["hash"] != plan(self.jobs[task].spec).hash:
                said = "its worker has another version of ciga: install the same one everywhere"
                outcome = {"status": "failed", "error": said}
            elif record is not None:
                _keep(record, Path(self.jobs[task].runs_dir))
            take(Event(task, "end", outcome))

    def stop(self, task: str) -> None:
        """A worker elsewhere does not hear of it: its run goes on to its end."""

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A scheduler that has gone away is one sentence: what is finished is recorded."""
        try:
            yield
        except OSError as error:  # Dask's CommClosedError and TimeoutError are such
            raise self._gone() from error

    def _gone(self) -> CigaError:
        return CigaError(
            f"The Dask scheduler at {self.address} no longer answers. Finished runs are recorded: start the "
            "scheduler and run the same command again to do the rest."
        )

    def _send(self, task: str, outcome: dict[str, Any]) -> bool:
        """A worker lacks the raw files: build the data here and send it, once for each worker."""
        spec = self.jobs[task].spec
        key = repr((spec.dataset, sorted(spec.data.items())))
        if key not in self.sent:
            try:
                files = pack(spec)
            except CigaError as error:
                outcome["error"] = f"{outcome['error']} on the worker, and here: {error}"
                return False
            with self._answering():
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


def perform_beside(said: Mapping[str, Any], files: Files | None) -> dict[str, Any]:
    """Hand a job to this thread's own process and wait for the outcome."""
    job = Job.from_dict(said)
    process: WorkerProcess | None = getattr(_mine, "process", None)
    if process is None or process.process.poll() is not None:
        logs = Path(job.runs_dir) / "bench" / "logs"
        log = logs / f"dask-{platform.node()}-{os.getpid()}-{threading.get_ident() % 10_000}.log"
        _mine.inbox = queue.SimpleQueue()
        process = _mine.process = WorkerProcess(log, _mine.inbox)
        atexit.register(process.close)
    process.give("run", replace(job, splits=str(unpack(files)) if files else None))
    while True:
        _, message = _mine.inbox.get()
        if message is None:
            return {"status": "died", "error": process.obituary()}
        if "status" in message:
            return dict(message)


def pack(spec: RunSpec) -> dict[str, bytes]:
    """The data of a run as files."""
    from ciga.data.cache import write_splits
    from ciga.data.dataset import make
    from ciga.registry import load_plugin

    for plugin in spec.plugins:
        load_plugin(plugin)
    splits = make(spec.dataset, spec.data).build()
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
