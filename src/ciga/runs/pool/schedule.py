"""The pool: the loop that hands runs to an executor and survives whatever happens to them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ciga.errors import counted
from ciga.runs.estimate import Estimate
from ciga.runs.plan import Plan
from ciga.runs.pool.executors import Event, Executor
from ciga.runs.pool.job import Job
from ciga.runs.pool.worker import now
from ciga.runs.records import Records
from ciga.runs.types import Record

#: A run whose worker dies so often (out of memory, perhaps) counts as failed.
DEATHS = 3
#: How often a run that another process is at is looked at again, in seconds.
REVISIT = 2.0


@dataclass(frozen=True)
class Standing:
    """Where a run that is under way stands."""

    what: str
    epoch: int = 0
    epochs: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)  # of the latest epoch, on validation data

    def __str__(self) -> str:
        return f"epoch {self.epoch}/{self.epochs}" if self.epoch else self.what


@dataclass
class PoolState:
    """Where several runs stand."""

    total: int = 0
    recorded: int = 0  # before we began
    done: int = 0
    ended: set[str] = field(default_factory=set)  # runs that have a record, from before or from now
    failed: dict[str, str] = field(default_factory=dict)  # run -> error
    waiting: int = 0  # for another process that is at the same run
    not_started: int = 0  # when the time was up
    running: dict[str, Standing] = field(default_factory=dict)
    seconds_left: float | None = None


Watch = Callable[[PoolState, str], None]


def quiet(state: PoolState, news: str) -> None:
    """A watcher that shows nothing."""


class Pool:
    """Does runs, each at most once at a time on this runs folder, whoever else works on it.

    Args:
        plans: the runs.
        records: where they are looked up; new ones go to its first folder.
        executor: who does them; it is closed in the end.
        device, threads: of each run.
        retry: try again what failed before.
        limit_hours: start nothing after that time.
        strict: end everything at the first failure.
        estimate: if given, `PoolState.seconds_left` is kept up to date, and it learns from what ends.
        watch: called with the state after every epoch, and with a line of news when something happened.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        records: Records,
        executor: Executor,
        *,
        device: str = "auto",
        threads: int = 1,
        retry: bool = False,
        limit_hours: float | None = None,
        strict: bool = False,
        estimate: Estimate | None = None,
        watch: Watch = quiet,
    ) -> None:
        self.records, self.executor, self.watch = records, executor, watch
        self.root: Path = records.runs[0].root
        self.device, self.threads, self.strict = device, threads, strict
        self.deadline = None if limit_hours is None else time.monotonic() + 3600 * limit_hours
        self.estimate = estimate
        self.state = PoolState(total=len(plans))
        self.plans = {planned.hash: planned for planned in plans}
        self.pending: deque[str] = deque()
        self.busy: dict[str, float] = {}  # run -> when to look again
        self.met: set[str] = set()  # runs that another process was at
        self.deaths: dict[str, int] = {}
        self.data: dict[str, str] = {}  # dataset -> "wanted", "building", "ready", or an error
        self.users: dict[str, str] = {}  # run -> its dataset
        for planned in plans:
            self._file(planned, retry)

    def _file(self, planned: Plan, retry: bool) -> None:
        """Sort a run into recorded, failed before, or pending."""
        if self.records.find(planned.config) is not None:
            self.state.recorded += 1
            self.state.ended.add(planned.hash)
            return
        failure = None if retry else self.records.failure(planned.config)
        if failure is not None:
            self.state.failed[planned.hash] = f"{failure['error']} (failed before: --retry tries again)"
            return
        self.pending.append(planned.hash)
        if self.executor.prepares:
            key = dataset_key(planned)
            self.users[planned.hash] = key
            self.data.setdefault(key, "wanted" if needs_files(planned) else "ready")

    def run(self) -> PoolState:
        """Until all is done, or the time is up and what is under way has ended."""
        try:
            while True:
                self._revisit()
                self._start()
                self.state.waiting = len(self.busy)
                self.state.seconds_left = self._left()
                if (not self.state.running and not self.busy) or (self.strict and self.state.failed):
                    break
                self.executor.wait(0.5, self._take)
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
                if self.records.find(self.plans[name].config) is not None:
                    self._finish(name, "recorded by another process")
                else:
                    self.pending.append(name)

    def _start(self) -> None:
        for _ in range(len(self.pending)):
            if self._time_is_up() or len(self.state.running) >= self.executor.slots():
                return
            name = self.pending.popleft()
            planned = self.plans[name]
            key = self.users.get(name)
            stage = "ready" if key is None else self.data[key]
            if stage == "wanted":
                assert key is not None
                self.data[key] = "building"
                self.state.running[f"data:{key}"] = Standing(f"preparing {planned.spec.dataset}")
                self.executor.start(f"data:{key}", replace(self._job(planned), kind="prepare"))
                self.pending.append(name)
            elif stage == "building":
                self.pending.append(name)
            elif stage != "ready":
                self._fail(name, stage)
            elif self.records.find(planned.config) is not None:
                self._finish(name, "recorded by another process")
            else:
                self.state.running[name] = Standing("starting")
                self.executor.start(name, self._job(planned))

    def _job(self, planned: Plan) -> Job:
        return Job(planned.spec, str(self.root.resolve()), self.device, self.threads)

    # ---------------------------------------------------------------- what comes back

    def _take(self, event: Event) -> None:
        if event.kind == "epoch":
            news = event.message
            self.state.running[event.task] = Standing("", news["epoch"], news["epochs"], news["scores"])
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
            record = self.records.find(self.plans[event.task].config)
            if record is not None and self.estimate is not None:
                self.estimate.learn(record)
            self._finish(event.task, _score(record))
        elif status == "busy":
            if event.task not in self.met:
                self.met.add(event.task)
                self.watch(self.state, f"{said} Waiting for it.")
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
            self.records.runs[0].write_failure(self.plans[task].config, {"error": text, "time": now()})
            self._fail(task, text)

    def _finish(self, name: str, result: str) -> None:
        self.state.done += 1
        self.state.ended.add(name)
        self.state.seconds_left = self._left()
        self.watch(self.state, f"{self.plans[name]}: {result}")

    def _fail(self, name: str, error: str) -> None:
        self.state.failed[name] = error
        self.state.seconds_left = self._left()
        self.watch(self.state, f"{self.plans[name]}: FAILED: {error}")

    def _left(self) -> float | None:
        """Seconds until the end, if the estimate holds."""
        if self.estimate is None:
            return None
        names = [*self.pending, *self.busy, *(n for n in self.state.running if n in self.plans)]
        return self.estimate.total([self.plans[n].config for n in names]) / max(self.executor.slots(), 1)


def dataset_key(planned: Plan) -> str:
    """Runs with the same key use the same data."""
    return f"{planned.spec.dataset} {sorted(planned.config.data.items())}"


def needs_files(planned: Plan) -> bool:
    """Is this dataset read from files and cached, rather than made on the spot?"""
    from ciga.data.dataset import datasets
    from ciga.data.datasets.causal import CausalDataset

    return not issubclass(datasets[planned.spec.dataset], CausalDataset)


def _score(record: Record | None) -> str:
    """One run in a few words."""
    if record is None:
        return "done"
    scores = record["selected"].get(record["selection"], {})
    test = scores.get("ood_test") or scores.get("id_test") or {}
    value = test.get(record["metric"])
    shown = "" if value is None else f"{record['metric']} {value:.3f}, "
    return f"{shown}{counted(record['epochs'], 'epoch')}, {record['seconds']:.0f} s"
