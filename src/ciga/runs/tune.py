"""Settings by search: Optuna over a method's grid or ranges, judged on validation data alone."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean
from typing import Any

from ciga import options
from ciga.errors import CigaError, MissingExtra, UsageError, unknown
from ciga.methods.base import methods
from ciga.nn.encoder import Backbone
from ciga.runs.plan import Plan, execute, plan
from ciga.runs.records import Busy
from ciga.runs.settings import DEFAULT_PRESET
from ciga.scoring.selection import SELECTORS, default_selector
from ciga.training.loop import Training

SPACES = ("grid", "ranges", "paper")
#: Trials before the median of the others may end one.
STARTUP = 5
#: Settings of a grid that are tried at random before the sampler has anything to go by.
RANDOM = 10

_ALPHA, _BETA, _PENALTY = (0.5, 1, 2, 4, 8, 16, 32), (0.5, 1, 2, 4), (0.01, 0.1, 1, 10, 100)
#: What the paper searched (dataset pattern, method pattern, grid); later entries win. The rest is fixed.
PAPER: list[tuple[str, str, dict[str, tuple[float, ...]]]] = [
    ("*", "ciga-*", {"alpha": _ALPHA}),
    ("*", "ciga-v2", {"beta": _BETA}),
    ("cmnist-sp", "ciga-v2", {"beta": (*_BETA, 16, 32)}),
    ("graph-*", "ciga-*", {"alpha": (0.5, 1, 2, 4)}),
    ("*", "cnc", {"alpha": _ALPHA}),
    ("*", "irm", {"penalty": _PENALTY}),
    ("*", "vrex", {"penalty": _PENALTY}),
    ("*", "ib-irm", {"penalty": _PENALTY}),
    ("*", "eiil", {"penalty": _PENALTY}),
    ("*", "dir", {"penalty": (0.01, 0.1, 1, 10)}),
]


@dataclass(frozen=True)
class Task:
    """What is searched, and under which conditions. `over` names settings, or gives them values.

    `dataset` may name several, with commas: then one choice serves them all, judged by the mean of their
    scores. Validation sets are often too small to choose anything on one of them.
    """

    dataset: str
    method: str
    space: str = "grid"
    over: Mapping[str, Sequence[Any] | None] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # fixed
    preset: str = DEFAULT_PRESET
    seeds: tuple[int, ...] = (1,)
    plugins: tuple[str, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.dataset.split(","))

    def name(self) -> str:
        """The study's name: another space, data or fixed setting is another study."""
        parts = [self.space, dict(self.over), dict(self.data), dict(self.settings), self.preset, self.seeds]
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()[:8]
        return f"{self.dataset} {self.method} {digest}"

    def values(self) -> dict[str, tuple[Any, ...]]:
        """Setting -> the values to choose from."""
        kinds = (methods[self.method], Backbone, Training)
        grids = {k: f.metadata.get("grid", ()) for kind in kinds for k, f in options.fields_of(kind).items()}
        for name in self.over:
            if name not in grids:
                raise unknown(f"setting of {self.method}", name, grids)
        if self.over:
            out = {k: tuple(v if v is not None else grids[k]) for k, v in self.over.items()}
            for name, values in out.items():
                if not values:
                    raise UsageError(f"{name} has no grid of its own: say --over {name}=value,value.")
            return out
        if self.space == "paper":
            grids_of = [_papers_grid(name, self.method) for name in self.datasets]
            if any(grid != grids_of[0] for grid in grids_of):
                raise UsageError("The paper did not search the same values on these: tune them one by one.")
            found = grids_of[0]
        else:
            own = options.fields_of(methods[self.method])
            found = {k: tuple(grids[k]) for k in own if grids[k]}
        found = {k: v for k, v in found.items() if k not in self.settings}
        if not found:
            raise UsageError(
                f"{self.method} has nothing to search: name settings with --over, such as --over lr."
            )
        return found


def _papers_grid(dataset: str, method: str) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for datasets, names, grid in PAPER:
        if fnmatchcase(dataset, datasets) and fnmatchcase(method, names):
            found |= grid
    return found


def study(task: Task, storage: str | Path, sampler_seed: int = 0) -> Any:
    """The Optuna study of a task in a journal file that many processes may share."""
    optuna = _optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    if task.space not in SPACES:
        raise unknown("search space", task.space, SPACES)
    task.values()  # a wrong name surfaces here
    path = Path(storage)
    path.parent.mkdir(parents=True, exist_ok=True)
    plans = [_plan(task, name, task.seeds[0], {}) for name in task.datasets]
    if len({planned.dataset.metric for planned in plans}) > 1:
        raise UsageError("These datasets have different metrics: tune them one by one.")
    # No trial is ended before every dataset is seen: one that is bad on the first may be good on the others.
    warmup = sum(p.settings.training.rounds for p in plans[:-1]) + plans[-1].config.settings["warmup"]
    return optuna.create_study(
        study_name=task.name(),
        storage=JournalStorage(JournalFileBackend(str(path))),
        sampler=optuna.samplers.TPESampler(seed=sampler_seed, constant_liar=True),
        pruner=optuna.pruners.MedianPruner(STARTUP, n_warmup_steps=warmup),
        direction="maximize",
        load_if_exists=True,
    )


def quiet(news: str) -> None:
    """Tells nobody."""


def optimise(
    task: Task,
    storage: str | Path,
    trials: int,
    runs_dir: str | Path,
    device: str = "auto",
    worker: int = 0,
    say: Callable[[str], None] = quiet,
) -> None:
    """Add trials to the study until it has tried `trials` settings, those of other processes counted.

    A grid is never gone through twice: it ends when everything in it was tried.
    """
    grid = list(_grid(task))
    first = study(task, storage)
    # Another stream of random numbers for each process, and for each time a search is continued.
    stream = 1000 * len(first.get_trials(deepcopy=False)) + worker
    rng, made = random.Random(stream), study(task, storage, stream)
    goal = min(trials, len(grid)) if grid else trials
    count = _count(made, grid)
    repeated = False
    while count < goal:
        if grid and (task.space == "paper" or count < RANDOM or repeated):
            made.enqueue_trial(_untried(made, grid, rng))
        ended: list[Any] = []
        made.optimize(
            lambda trial: objective(task, trial, runs_dir, device, say),
            n_trials=1,
            catch=(CigaError,),
            callbacks=[lambda _, trial, kept=ended: kept.append(trial)],
        )
        before, count = count, _count(made, grid)
        repeated = count == before
        for trial in ended:
            chosen = " ".join(f"{k}={v}" for k, v in trial.params.items())
            score = "" if trial.value is None else f" {trial.value:.4f}"
            say(f"[{count}/{goal}] {chosen}: {trial.state.name.lower()}{score}")


def _grid(task: Task) -> Iterator[dict[str, Any]]:
    """Every choice of a finite space; nothing for ranges."""
    if task.space != "ranges":
        values = task.values()
        for chosen in itertools.product(*values.values()):
            yield dict(zip(values, chosen, strict=True))


def _tried(made: Any) -> list[str]:
    """The settings of the trials that came to an end; one that was interrupted did not."""
    states = _optuna().trial.TrialState
    ended = made.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED, states.FAIL))
    return [_name(t.params) for t in ended if t.state != states.FAIL or "error" in t.user_attrs]


def _count(made: Any, grid: Sequence[dict[str, Any]]) -> int:
    """Trials that count: of a grid, each choice once."""
    tried = _tried(made)
    return len(set(tried)) if grid else len(tried)


def _untried(made: Any, grid: Sequence[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    """Something left of the grid, what no process is at if there is such."""
    states = _optuna().trial.TrialState
    tried = set(_tried(made))
    left = [chosen for chosen in grid if _name(chosen) not in tried] or list(grid)
    running = {_name(t.params) for t in made.get_trials(deepcopy=False, states=(states.RUNNING,))}
    return rng.choice([chosen for chosen in left if _name(chosen) not in running] or left)


def _name(chosen: Mapping[str, Any]) -> str:
    return json.dumps(dict(chosen), sort_keys=True)


def objective(
    task: Task,
    trial: Any,
    runs_dir: str | Path,
    device: str = "auto",
    say: Callable[[str], None] = quiet,
) -> float:
    """The validation score of one trial: mean over datasets and seeds at the epoch validation chooses."""
    chosen = suggest(task, trial)
    scores: list[float] = []
    epochs = 0
    for seed, name in itertools.product(task.seeds, task.datasets):
        planned = _plan(task, name, seed, chosen)
        watch = _Pruning(trial, planned, epochs, scores)
        epochs += planned.settings.training.rounds
        try:
            record = execute(planned, runs_dir, device=device, on_epoch=watch)
        except Busy:
            # Another process tries the very same settings: this trial would tell nothing new.
            raise _optuna().TrialPruned from None
        except CigaError as error:
            trial.set_user_attr("error", str(error))
            raise
        scores.append(validation_score(record))
        say(f"trial {trial.number}, {name}, seed {seed}: {scores[-1]:.4f}, {record['seconds']:.0f} s")
    trial.set_user_attr("scores", scores)
    return fmean(scores)


def _plan(task: Task, dataset: str, seed: int, chosen: Mapping[str, Any]) -> Plan:
    return plan(
        dataset,
        task.method,
        seed=seed,
        data=task.data,
        settings={**task.settings, **chosen},
        preset=task.preset,
        plugins=task.plugins,
    )


def validation_score(record: Mapping[str, Any]) -> float:
    """What the default rule saw when it chose the epoch: never a test score."""
    rule = SELECTORS[record["selection"]]
    if rule.split is None:
        raise CigaError(f"{record['dataset']} has no validation data to tune on.")
    return rule.value(record["selected"][rule.name][rule.split], record["metric"])


class _Pruning:
    """An epoch hook: reports the best validation score so far, and ends trials below the median."""

    def __init__(self, trial: Any, planned: Plan, offset: int, before: Sequence[float]) -> None:
        self.trial, self.offset, self.before = trial, offset, list(before)
        self.metric, self.rest = planned.dataset.metric, planned.settings.method.selects_by_rest
        self.best = float("-inf")

    def __call__(self, row: dict[str, Any], epochs: int) -> None:
        rule = default_selector(list(row["metrics"]), self.rest)
        if rule.split is None:
            return
        value = rule.value(row["metrics"][rule.split], self.metric)
        self.best = max(self.best, value) if value == value else self.best
        self.trial.report(fmean([*self.before, self.best]), self.offset + row["epoch"])
        if self.trial.should_prune():
            raise _optuna().TrialPruned


def suggest(task: Task, trial: Any) -> dict[str, Any]:
    """The settings of one trial; with `ranges`, numbers are drawn between the ends of their grid."""
    out: dict[str, Any] = {}
    for name, values in task.values().items():
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if task.space != "ranges" or len(numbers) < len(values) or len(set(numbers)) < 2:
            out[name] = trial.suggest_categorical(name, list(values))
        elif all(isinstance(v, int) for v in numbers) and _integral(task.method, name):
            out[name] = trial.suggest_int(name, min(numbers), max(numbers))
        else:
            wide = min(numbers) > 0 and max(numbers) / min(numbers) >= 10
            out[name] = trial.suggest_float(name, min(numbers), max(numbers), log=wide)
    return out


def _integral(method: str, name: str) -> bool:
    """Is this setting a whole number? (A float may have a grid of whole numbers.)"""
    for kind in (methods[method], Backbone, Training):
        if name in options.fields_of(kind):
            try:
                options.convert(kind, name, 1.5)
            except UsageError:
                return True
    return False


def tune(
    task: Task,
    storage: str | Path,
    trials: int,
    runs_dir: str | Path = "runs",
    *,
    workers: int = 1,
    device: str = "auto",
    say: Callable[[str], None] = quiet,
) -> Any:
    """Search with `workers` processes; returns the study. The same call again continues.

    `say` hears of every run and every trial that ends; other processes call it, too.
    """
    study(task, storage)  # every mistake surfaces here, before any process starts
    if workers == 1:
        optimise(task, storage, trials, runs_dir, device, say=say)
    else:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config("loky", inner_max_num_threads=1):
            Parallel(n_jobs=workers)(
                delayed(optimise)(task, storage, trials, runs_dir, device, number, say)
                for number in range(workers)
            )
    return study(task, storage)


def write_settings(task: Task, found: Any, path: str | Path) -> None:
    """The best settings as a file for `ciga run --settings`: all of them, so that no preset matters.

    Those of several datasets are what was searched or fixed; the rest is each dataset's own.
    """
    from ciga.files import atomic

    best = found.best_trial
    seeds = ", ".join(map(str, task.seeds))
    lines = [
        f"# {task.method} on {task.dataset}: the best of {len(found.trials)} trials by validation score",
        f"# ({best.value:.4f}, seeds {seeds}; searched: {', '.join(best.params)})",
    ]
    if len(task.datasets) == 1:
        written = _plan(task, task.datasets[0], task.seeds[0], best.params).config.settings
    else:
        written = {**task.settings, **best.params}
        lines.append(f"# The rest as in preset {task.preset}.")
    lines += [f"{key} = {json.dumps('none' if value is None else value)}" for key, value in written.items()]
    with atomic(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "sweep") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
