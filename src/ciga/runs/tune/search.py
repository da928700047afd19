"""The search itself: trials go through the pool's workers, and those below the median are ended early."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from ciga.errors import CigaError, UsageError, counted
from ciga.runs.plan import Plan
from ciga.runs.pool.executors import Event, Executor
from ciga.runs.pool.job import Job
from ciga.runs.pool.several import executor_for
from ciga.runs.records import Runs
from ciga.runs.tune.space import Search
from ciga.runs.tune.study import Order, begin, load_optuna, resume, running, study, tried
from ciga.scoring.selection import SELECTORS

Say = Callable[[str], None]


def quiet(news: str) -> None:
    """Tells nobody."""


def tune(
    search: Search,
    storage: str | Path,
    trials: int,
    runs_dir: str | Path = "runs",
    *,
    workers: int = 1,
    device: str = "auto",
    say: Say = quiet,
) -> Any:
    """Search until `trials` settings were tried; returns the study. The same call again continues.

    A grid is never gone through twice: it ends when everything in it was tried.

    Args:
        search: what is searched.
        storage: the journal file; several processes may share it.
        trials: in all, those recorded included.
        runs_dir: where the runs are kept.
        workers: trials at a time.
        device: auto, cpu, cuda or mps.
        say: hears of every run and every trial that ends.
    """
    first = study(search, storage)
    resume(first)
    # Another stream of random numbers for each time a search is continued.
    made = study(search, storage, len(first.get_trials(deepcopy=False)))
    size = search.size()
    goal = trials if size is None else min(trials, size)
    left = goal - tried(made, search)
    if left > 0:
        executor = executor_for(left, device, workers)
        Trials(search, made, goal, executor, Runs(runs_dir), device, say).run()
    return made


def tune_methods(
    tasks: Sequence[Search],
    storage: str | Path,
    trials: int,
    runs_dir: str | Path = "runs",
    *,
    workers: int = 1,
    device: str = "auto",
    say: Say = quiet,
) -> dict[str, Any]:
    """Search for several methods on equal terms: the same number of trials, judged by the same rule.

    Args:
        tasks: a search for each method (`ciga.runs.tune.searches` makes them).
        storage, trials, runs_dir, workers, device, say: as for `tune`.

    Returns:
        method -> its study; each says in its attribute `trials` how many every method was given.
    """
    for task in tasks:
        size = task.size()
        if size is not None and size < trials:
            raise UsageError(
                f"Every method gets {counted(trials, 'trial')}, but {task.method} has only {size} to choose "
                f"from: use --trials {size}, search more settings with --over, or --space ranges."
            )
        made = study(task, storage)  # every mistake of every method, before the first run
        if (before := tried(made, task)) > trials:  # its best would be of more trials than the others'
            raise UsageError(
                f"Every method gets {counted(trials, 'trial')}, but {task.method} has had {before} in "
                f"{storage}: use --trials {before}, or a new file for --storage."
            )
    found = {}
    for task in tasks:
        say(f"{task.method}: {counted(trials, 'trial')}")
        made = tune(task, storage, trials, runs_dir, workers=workers, device=device, say=say)
        made.set_user_attr("trials", trials)
        found[task.method] = made
    return found


def validation_score(record: Mapping[str, Any], same_rule: bool = False) -> float:
    """What the rule that chose the epoch saw, or the rule that all methods have: never a test score."""
    rule = SELECTORS[record["selection"].removesuffix("-rest") if same_rule else record["selection"]]
    if rule.split is None:
        raise CigaError(f"{record['dataset']} has no validation data to tune on.")
    return rule.value(record["selected"][rule.name][rule.split], record["metric"])


@dataclass
class Trial:
    """A trial under way: its runs, one after the other, and what they scored so far."""

    asked: Any  # Optuna's
    plans: list[Plan]
    scores: list[float] = field(default_factory=list)
    epochs: int = 0  # of the runs before this one
    best: float = float("-inf")  # of this run
    pruned: bool = False

    @property
    def run(self) -> Plan:
        return self.plans[len(self.scores)]

    def epoch(self, message: Mapping[str, Any], same_rule: bool) -> bool:
        """Take in an epoch's validation score; True if the trial is not worth going on with."""
        values = list(message["validation"].values())
        method, training = self.run.settings.method, self.run.settings.training
        age = training.age((message["epoch"] - 1) % training.epochs)
        if not values or not method.selectable(age):
            return False
        value = values[-1 if same_rule else 0]
        self.best = max(self.best, value) if value == value else self.best
        self.asked.report(fmean([*self.scores, self.best]), self.epochs + message["epoch"] - 1)
        self.pruned = self.pruned or bool(self.asked.should_prune())
        return self.pruned


class Trials:
    """Asks Optuna for settings, has them run, and says how they ended."""

    def __init__(
        self,
        search: Search,
        made: Any,
        goal: int,
        executor: Executor,
        runs: Runs,
        device: str = "auto",
        say: Say = quiet,
    ) -> None:
        self.search, self.made, self.goal, self.executor = search, made, goal, executor
        self.runs, self.device, self.say = runs, device, say
        self.states = load_optuna().trial.TrialState
        self.order = Order(search)
        self.under_way: dict[str, Trial] = {}

    def run(self) -> None:
        """Until the goal is reached; trials that other processes are at count as theirs."""
        try:
            while True:
                while len(self.under_way) < self.executor.slots() and self._wanted():
                    self._begin()
                if not self.under_way:
                    break
                self.executor.wait(0.5, self._take)
        finally:
            self.executor.close()
            with suppress(OSError):  # a full disk: the next search closes them
                for trial in self.under_way.values():  # interrupted: the next search tries them again
                    self.made.tell(trial.asked, state=self.states.FAIL)

    def _wanted(self) -> bool:
        return tried(self.made, self.search) + running(self.made) < self.goal

    def _begin(self) -> None:
        asked = begin(self.made, self.order)
        chosen = self.search.suggest(asked)
        pairs = itertools.product(self.search.seeds, self.search.datasets)
        try:
            plans = [self.search.plan(name, seed, chosen) for seed, name in pairs]
        except CigaError as error:  # values that are legal one by one, but not together
            self._end(Trial(asked, []), self.states.FAIL, error=str(error))
            return
        name = str(asked.number)
        self.under_way[name] = Trial(asked, plans)
        self._start(name)

    def _start(self, name: str) -> None:
        spec = self.under_way[name].run.spec
        self.executor.start(name, Job(spec, str(self.runs.root.resolve()), self.device))

    def _take(self, event: Event) -> None:
        trial = self.under_way[event.task]
        if event.kind == "epoch":
            if trial.epoch(event.message, self.search.same_rule):
                self.executor.stop(event.task)
            return
        if event.kind == "died":
            raise CigaError(f"The {event.message['error']}: run the same command again to go on searching.")
        status = event.message["status"]
        if event.message.get("machine"):  # tells nothing about the settings: no trial
            raise CigaError(str(event.message["error"]))
        if trial.pruned or status in ("busy", "stopped"):
            # Busy: another process tries the same settings, and this trial would tell nothing new.
            self._end(trial, self.states.PRUNED)
        elif status == "done":
            self._score(event.task, trial)
        else:
            self._end(trial, self.states.FAIL, error=str(event.message["error"]))

    def _score(self, name: str, trial: Trial) -> None:
        """A run of the trial has ended; on to the next one."""
        record = self.runs.find(trial.run.config)
        if record is None:
            raise CigaError(f"{self.runs.folder(trial.run.config)} has gone: run the same command again.")
        planned = trial.run
        trial.scores.append(validation_score(record, self.search.same_rule))
        self.say(
            f"trial {trial.asked.number}, {record['dataset']}, seed {record['seed']}: "
            f"{trial.scores[-1]:.4f}, {record['seconds']:.0f} s"
        )
        if len(trial.scores) == len(trial.plans):
            trial.asked.set_user_attr("scores", trial.scores)
            self._end(trial, self.states.COMPLETE, fmean(trial.scores))
            return
        trial.epochs += planned.settings.training.rounds
        trial.best = float("-inf")
        self._start(name)

    def _end(self, trial: Trial, state: Any, value: float | None = None, error: str = "") -> None:
        self.under_way.pop(str(trial.asked.number), None)
        if error:
            trial.asked.set_user_attr("error", error)
        if value is not None and value != value:
            state, value = self.states.FAIL, None
            trial.asked.set_user_attr("error", "Its validation score is not a number.")
        self.made.tell(trial.asked, value, state=state)
        chosen = " ".join(f"{k}={v}" for k, v in trial.asked.params.items())
        said = error or ("" if value is None else f"{value:.4f}")
        number = tried(self.made, self.search)
        self.say(f"[{number}/{self.goal}] {chosen}: {state.name.lower()} {said}".rstrip())
