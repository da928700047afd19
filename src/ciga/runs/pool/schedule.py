"""Doing what is missing: the loop that hands runs to an executor and survives whatever happens to them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ciga.bench.estimate import Estimate
from ciga.bench.grid import Job, Records
from ciga.runs.pool.executors import Event, Executor

#: A run whose worker dies so often (out of memory, perhaps) counts as failed.
DEATHS = 3
#: How often a run that another process is at is looked at again, in seconds.
REVISIT = 2.0


@dataclass
class Progress:
    """Where a bench stands."""

    total: int = 0
    recorded: int = 0  # before we began
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # run -> error
    waiting: int = 0  # for another process that is at the same run
    not_started: int = 0  # when the time was up
    running: dict[str, str] = field(default_factory=dict)  # run -> where it stands
    seconds_left: float | None = None


Watch = Callable[[Progress, str], None]


def quiet(progress: Progress, news: str) -> None:
    """A watcher that shows nothing."""


class Bench:
    """Runs jobs, each at most once at a time on this runs folder, whoever else works on it."""

    def __init__(
        self,
        jobs: Sequence[Job],
        records: Records,
        executor: Executor,
        *,
        device: str = "auto",
        threads: int = 1,
        retry: bool = False,
        limit_hours: float | None = None,
        watch: Watch = quiet,
    ) -> None:
        self.records, self.executor, self.watch = records, executor, watch
        self.root: Path = records.runs[0].root
        self.common = {"runs_dir": str(self.root.resolve()), "device": device, "threads": threads}
        self.deadline = None if limit_hours is None else time.monotonic() + 3600 * limit_hours
        self.estimate = Estimate(records)
        self.state = Progress(total=len(jobs))
        self.jobs = {job.hash: job for job in jobs}
        self.pending: deque[str] = deque()
        self.busy: dict[str, float] = {}  # run -> when to look again
        self.deaths: dict[str, int] = {}
        self.data: dict[str, str] = {}  # dataset -> "wanted", "building", "ready", or an error
        self.users: dict[str, str] = {}  # run -> its dataset
        for job in jobs:
            self._file(job, retry)

    def _file(self, job: Job, retry: bool) -> None:
        """Sort a job into recorded, failed before, or pending."""
        if self.records.find(job.config) is not None:
            self.state.recorded += 1
            return
        failure = None if retry else self.records.failure(job.config)
        if failure is not None:
            self.state.failed[job.hash] = f"{failure['error']} (failed before: --retry tries again)"
            return
        self.pending.append(job.hash)
        if self.executor.prepares:
            key = dataset_key(job)
            self.users[job.hash] = key
            self.data.setdefault(key, "wanted" if needs_files(job) else "ready")

    def run(self) -> Progress:
        """Until all is done, or the time is up and what is under way has ended."""
        try:
            while True:
                self._revisit()
                self._start()
                self.state.waiting = len(self.busy)
                self.state.seconds_left = self._left()
                if not self.state.running and not self.busy:
                    break
                event = self.executor.wait(0.5)
                if event is not None:
                    self._take(event)
        finally:
            self.executor.close()
        self.state.not_started = len(self.pending)
        return self.state

    # ---------------------------------------------------------------- starting

    def _time_is_up(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _revisit(self) -> None:
        """Runs another process was at: recorded by now, or free again?"""
        now = time.monotonic()
        for name, when in list(self.busy.items()):
            if self._time_is_up():
                del self.busy[name]
                self.pending.append(name)
            elif when <= now:
                del self.busy[name]
                if self.records.find(self.jobs[name].config) is not None:
                    self._finish(name, "recorded by another process")
                else:
                    self.pending.append(name)

    def _start(self) -> None:
        for _ in range(len(self.pending)):
            if self._time_is_up() or len(self.state.running) >= self.executor.slots():
                return
            name = self.pending.popleft()
            job = self.jobs[name]
            key = self.users.get(name)
            stage = "ready" if key is None else self.data[key]
            if stage == "wanted":
                assert key is not None
                self.data[key] = "building"
                self.state.running[f"data:{key}"] = f"preparing {job.cell.dataset}"
                spec = {**job.spec, **self.common, "kind": "prepare"}
                self.executor.start(f"data:{key}", spec)
                self.pending.append(name)
            elif stage == "building":
                self.pending.append(name)
            elif stage != "ready":
                self._fail(name, stage)
            elif self.records.find(job.config) is not None:
                self._finish(name, "recorded by another process")
            else:
                self.state.running[name] = "starting"
                self.executor.start(name, {**job.spec, **self.common})

    # ---------------------------------------------------------------- what comes back

    def _take(self, event: Event) -> None:
        if event.kind == "epoch":
            self.state.running[event.task] = f"epoch {event.message['epoch']}/{event.message['epochs']}"
            self.watch(self.state, "")
            return
        self.state.running.pop(event.task, None)
        if event.kind == "died":
            self._died(event.task, str(event.message["error"]))
            return
        status, said = event.message["status"], str(event.message.get("error", ""))
        if event.task.startswith("data:"):
            key = event.task.removeprefix("data:")
            self.data[key] = "ready" if status == "done" else said
        elif status == "done":
            record = self.records.find(self.jobs[event.task].config)
            if record is not None:
                self.estimate.learn(record)
            self._finish(event.task, _score(record))
        elif status == "busy":
            self.busy[event.task] = time.monotonic() + REVISIT
        else:
            self._fail(event.task, said)

    def _died(self, task: str, said: str) -> None:
        """A lost worker only means another try; but not for ever."""
        self.deaths[task] = self.deaths.get(task, 0) + 1
        self.watch(self.state, f"{said}; its run is tried again")
        if task.startswith("data:"):
            key = task.removeprefix("data:")
            self.data[key] = "wanted" if self.deaths[task] < DEATHS else said
        elif self.deaths[task] < DEATHS:
            self.pending.appendleft(task)
        else:
            text = f"Its worker died {DEATHS} times, perhaps for want of memory: {said}."
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.records.runs[0].write_failure(self.jobs[task].config, {"error": text, "time": stamp})
            self._fail(task, text)

    def _finish(self, name: str, result: str) -> None:
        self.state.done += 1
        self.state.seconds_left = self._left()
        self.watch(self.state, f"{self.jobs[name]}: {result}")

    def _fail(self, name: str, error: str) -> None:
        self.state.failed[name] = error
        self.state.seconds_left = self._left()
        self.watch(self.state, f"{self.jobs[name]}: FAILED: {error}")

    def _left(self) -> float | None:
        """Seconds until the end, if the estimate holds."""
        names = [*self.pending, *self.busy, *(n for n in self.state.running if n in self.jobs)]
        return self.estimate.total([self.jobs[n] for n in names]) / max(self.executor.slots(), 1)


def dataset_key(job: Job) -> str:
    """Jobs with the same key use the same data."""
    return f"{job.cell.dataset} {sorted(job.config.data.items())}"


def needs_files(job: Job) -> bool:
    """Is this dataset read from files and cached, rather than made on the spot?"""
    from ciga.data.dataset import datasets
    from ciga.data.datasets.causal import CausalDataset

    return not issubclass(datasets[job.cell.dataset], CausalDataset)


def _score(record: dict[str, Any] | None) -> str:
    """One run in a few words."""
    if record is None:
        return "done"
    scores = record["selected"].get(record["selection"], {})
    test = scores.get("ood_test") or scores.get("id_test") or {}
    value = test.get(record["metric"])
    shown = "" if value is None else f"{record['metric']} {value:.3f}, "
    return f"{shown}{record['epochs']} epochs, {record['seconds']:.0f} s"
