"""Who does the runs: this process, workers of this machine, or (`ciga.runs.pool.cluster`) a Dask cluster."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ciga.runs.pool.job import Job


@dataclass(frozen=True)
class Event:
    """Something happened to a task: an epoch passed, it ended with an outcome, or its worker died."""

    task: str
    kind: str  # "epoch", "end" or "died"
    message: Mapping[str, Any]


Take = Callable[[Event], None]


class Executor(Protocol):
    """What a pool needs of whoever does the runs."""

    #: Whether datasets are to be built here once, before many runs want them.
    prepares: bool

    def slots(self) -> int:
        """How many tasks may run at the same time, now."""
        ...

    def start(self, task: str, job: Job) -> None:
        """Begin a task; only called while fewer than `slots()` are under way."""
        ...

    def wait(self, seconds: float, take: Take) -> None:
        """Hand the next event to `take`; come back without one if nothing happens in this time."""
        ...

    def stop(self, task: str) -> None:
        """End a task after the epoch it is at."""
        ...

    def close(self) -> None:
        """Stop everything, also what is under way: checkpoints are on disk."""
        ...


class Inline:
    """Runs in this process, one after the other: `wait` comes back when a run has ended."""

    def __init__(self, prepares: bool = False) -> None:
        self.prepares = prepares
        self.waiting: list[tuple[str, Job]] = []
        self.stopped: set[str] = set()

    def slots(self) -> int:
        return 1

    def start(self, task: str, job: Job) -> None:
        self.waiting.append((task, job))

    def wait(self, seconds: float, take: Take) -> None:
        from ciga.runs.pool.worker import perform

        if not self.waiting:
            time.sleep(seconds)
            return
        task, job = self.waiting.pop(0)
        outcome = perform(
            job, lambda news: take(Event(task, "epoch", news)), stopped=lambda: task in self.stopped
        )
        take(Event(task, "end", outcome))

    def stop(self, task: str) -> None:
        self.stopped.add(task)

    def close(self) -> None:
        self.waiting.clear()


class WorkerProcess:
    """A `ciga.runs.pool.worker` of ours, and a thread that passes on what it says."""

    def __init__(self, log: Path | None, inbox: queue.SimpleQueue[tuple[WorkerProcess, Any]]) -> None:
        self.task: str | None = None
        self.log = log
        self.numbers = itertools.count()
        self.number = 0
        package = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        single = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "PYTHONPATH": path}
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
        # The child keeps its own copy of the log's handle.
        with open(log or os.devnull, "a", encoding="utf-8") as errors:
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

    def give(self, task: str, job: Job) -> None:
        self.task, self.number = task, next(self.numbers)
        self._say({"number": self.number, "job": job.as_dict()})

    def stop(self) -> None:
        """End the run it is at; one that comes after it is not meant."""
        self._say({"stop": self.number})

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # if it is dead, its end of file says so to `_listen`
            self.process.stdin.write(json.dumps(message) + "\n")
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

    def __init__(self, workers: int, logs: Path | None = None, prepares: bool = True) -> None:
        self.workers, self.logs, self.prepares = workers, logs, prepares
        self.inbox: queue.SimpleQueue[tuple[WorkerProcess, Any]] = queue.SimpleQueue()
        self.pool: list[WorkerProcess] = []
        self.started = 0

    def slots(self) -> int:
        return self.workers

    def start(self, task: str, job: Job) -> None:
        idle = next((w for w in self.pool if w.task is None), None)
        if idle is None:
            self.started += 1
            log = self.logs / f"worker-{os.getpid()}-{self.started}.log" if self.logs else None
            idle = WorkerProcess(log, self.inbox)
            self.pool.append(idle)
        idle.give(task, job)

    def wait(self, seconds: float, take: Take) -> None:
        try:
            worker, message = self.inbox.get(timeout=seconds)
        except queue.Empty:
            return
        task = worker.task
        if message is None:
            if worker in self.pool:
                self.pool.remove(worker)
            said = worker.obituary()
            worker.close()
            if task is not None:
                take(Event(task, "died", {"error": said}))
        elif task is not None and "status" not in message:
            take(Event(task, "epoch", message))
        elif task is not None:
            worker.task = None
            take(Event(task, "end", message))

    def stop(self, task: str) -> None:
        for worker in self.pool:
            if worker.task == task:
                worker.stop()

    def close(self) -> None:
        for worker in self.pool:
            worker.close()
        self.pool.clear()
