"""Who does the runs: processes of this machine, or (`ciga.runs.pool.cluster`) a Dask cluster."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Event:
    """Something happened to a task: an epoch passed, it ended with an outcome, or its worker died."""

    task: str
    kind: str  # "epoch", "end" or "died"
    message: Mapping[str, Any]


class Executor(Protocol):
    """What the schedule needs of whoever does the runs."""

    #: May datasets be built here once, for all runs?
    prepares: bool

    def slots(self) -> int:
        """How many tasks may run at the same time, now."""
        ...

    def start(self, task: str, spec: Spec) -> None:
        """Begin a task; only called while fewer than `slots()` are under way."""
        ...

    def wait(self, seconds: float) -> Event | None:
        """The next event, or None if nothing happens in this time."""
        ...

    def close(self) -> None:
        """Stop everything, also what is under way: checkpoints are on disk."""
        ...


class WorkerProcess:
    """A `ciga.runs.pool.worker` of ours, and a thread that passes on what it says."""

    def __init__(self, log: Path | None, inbox: queue.SimpleQueue[tuple[WorkerProcess, Any]]) -> None:
        self.task: str | None = None
        self.log = log
        package = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        single = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "PYTHONPATH": path}
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
        # The child keeps its own copy of the log's handle.
        with open(log or os.devnull, "a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ciga.runs.pool.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                env={**os.environ, **single},
            )
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def _listen(self, inbox: queue.SimpleQueue[tuple[WorkerProcess, Any]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                inbox.put((self, json.loads(line)))
            except ValueError:  # the last words of a killed process
                break
        inbox.put((self, None))

    def give(self, task: str, spec: Spec) -> None:
        assert self.process.stdin is not None
        self.task = task
        with suppress(OSError):  # if it is dead, its end of file says so to `_listen`
            self.process.stdin.write(json.dumps(dict(spec)) + "\n")
            self.process.stdin.flush()

    def obituary(self) -> str:
        """How it ended, for the one who asks why a task died."""
        code = self.process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        where = f" (its log: {self.log})" if self.log else ""
        return f"worker process {self.process.pid} ended with {how}{where}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class Processes:
    """Worker processes of this machine, one thread each; a dead one is replaced."""

    prepares = True

    def __init__(self, workers: int, logs: Path | None = None) -> None:
        self.workers, self.logs = workers, logs
        self.inbox: queue.SimpleQueue[tuple[WorkerProcess, Any]] = queue.SimpleQueue()
        self.pool: list[WorkerProcess] = []
        self.started = 0

    def slots(self) -> int:
        return self.workers

    def start(self, task: str, spec: Spec) -> None:
        idle = next((w for w in self.pool if w.task is None), None)
        if idle is None:
            self.started += 1
            log = self.logs / f"worker-{os.getpid()}-{self.started}.log" if self.logs else None
            idle = WorkerProcess(log, self.inbox)
            self.pool.append(idle)
        idle.give(task, spec)

    def wait(self, seconds: float) -> Event | None:
        try:
            worker, message = self.inbox.get(timeout=seconds)
        except queue.Empty:
            return None
        task = worker.task
        if message is None:
            if worker in self.pool:
                self.pool.remove(worker)
            said = worker.obituary()
            worker.close()
            return Event(task, "died", {"error": said}) if task is not None else None
        if task is None:
            return None
        if "status" not in message:
            return Event(task, "epoch", message)
        worker.task = None
        return Event(task, "end", message)

    def close(self) -> None:
        for worker in self.pool:
            worker.close()
        self.pool.clear()
