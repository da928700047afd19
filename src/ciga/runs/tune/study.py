"""The journal of a search: Optuna's study in a file that many processes may share, and what it says."""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from ciga.errors import CigaError, MissingExtra, UsageError, counted
from ciga.files import atomic
from ciga.parallel import alive
from ciga.runs.tune.space import Search

#: Trials before the median of the others may end one.
STARTUP = 5
#: What Optuna raises where a journal does not say what it should.
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError)


def study(search: Search, storage: str | Path, sampler_seed: int = 0) -> Any:
    """The Optuna study of a search; every mistake surfaces here, before any run."""
    optuna = load_optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    search.values()
    plans = [search.plan(name, search.seeds[0], {}) for name in search.datasets]
    if len({planned.dataset.metric for planned in plans}) > 1:
        raise UsageError("These datasets have different metrics: tune them one by one.")
    # No trial is ended before every dataset is seen: one that is bad on the first may be good on the others.
    warmup = sum(p.settings.training.rounds for p in plans[:-1]) + plans[-1].config.settings["warmup"]
    path = Path(storage)
    _check_journal(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    samplers = optuna.samplers
    sampler = samplers.RandomSampler(seed=sampler_seed)  # a grid's choices are named one by one
    if search.size() is None:
        sampler = samplers.TPESampler(seed=sampler_seed, constant_liar=True)
    try:
        made = optuna.create_study(
            study_name=search.name(),
            storage=JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path))),
            sampler=sampler,
            pruner=optuna.pruners.MedianPruner(STARTUP, n_warmup_steps=warmup),
            direction="maximize",
            load_if_exists=True,
        )
        _check_trials(made, search)
    except DAMAGE as error:
        raise CigaError(
            f"{path} is damaged ({type(error).__name__}): delete it to search anew. Finished runs are kept "
            "in the runs folder, and are not run again."
        ) from None
    return made


def _check_trials(made: Any, search: Search) -> None:
    """Read the journal, and raise where a trial that is to go on says what no search writes."""
    states, known = load_optuna().trial.TrialState, search.values()
    for trial in made.get_trials(deepcopy=False, states=(states.WAITING, states.RUNNING)):
        for name, value in trial.system_attrs.get("fixed_params", {}).items():
            if value not in known[name]:
                raise ValueError(f"{name} cannot be {value}")
        if process := trial.user_attrs.get("process", ""):
            int(process.rpartition(" ")[2])


class JournalLock:
    """A lock that the system takes back from a process that is killed (Optuna's own stays behind).

    Whoever gets it finds whole lines: what a killed process or a full disk cut short is taken away.
    """

    def __init__(self, journal: Path) -> None:
        self.journal, self.lock = journal, FileLock(f"{journal}.filelock")

    def acquire(self) -> bool:
        self.lock.acquire()
        try:
            content = self.journal.read_bytes() if self.journal.is_file() else b""
            if not content.endswith(b"\n"):
                os.truncate(self.journal, content.rfind(b"\n") + 1)
        except BaseException:
            self.lock.release()
            raise
        return True

    def release(self) -> None:
        self.lock.release()


def _check_journal(path: Path) -> None:
    """Refuse a file that is something else, before anything is appended to it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: --storage names a file.")
    if path.is_file():
        with path.open("rb") as file:
            first = file.readline(4096)
        if first and not (first.startswith(b"{") and b'"op_code"' in first):
            raise UsageError(f"{path} is not a journal of searches: name another file with --storage.")


class Order:
    """Every choice of a grid once, in a random order that no interruption changes.

    Optuna draws it in a study beside the journal: there, no trial is broken off between two of its settings.
    """

    def __init__(self, search: Search) -> None:
        optuna = load_optuna()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls it experimental
            sampler = optuna.samplers.BruteForceSampler(seed=0)
        # It would stop a loop of Optuna's; there is none here.
        sampler.after_trial = lambda *args, **more: None
        self.search, self.size = search, search.size() or 0
        self.drawn: list[dict[str, Any]] = []
        self.beside = optuna.create_study(sampler=sampler)

    def first(self, taken: set[str]) -> dict[str, Any]:
        """The first choice that is not taken; empty where all are, and in ranges."""
        for place in range(self.size):
            if place == len(self.drawn):
                asked = self.beside.ask()
                self.drawn.append(self.search.suggest(asked))
                self.beside.tell(asked, 0.0)
            if _spelled(self.drawn[place]) not in taken:
                return self.drawn[place]
        return {}


def begin(made: Any, order: Order) -> Any:
    """The next trial. From its first line in the journal on, it says whose it is, and what a grid tries."""
    states = load_optuna().trial.TrialState
    if not made.get_trials(deepcopy=False, states=(states.WAITING,)):
        under_way = made.get_trials(deepcopy=False, states=(states.RUNNING,))
        taken = {_name(t) for t in [*ended(made), *under_way]}
        made.enqueue_trial(order.first(taken), user_attrs={"process": _process()})
    asked = made.ask()
    if asked.user_attrs.get("process") != _process():  # another process was about to begin it
        asked.set_user_attr("process", _process())
    return asked


def ended(made: Any) -> list[Any]:
    """Trials that came to an end, whatever it was; one that was interrupted did not."""
    states = load_optuna().trial.TrialState
    found = made.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED, states.FAIL))
    return [t for t in found if t.state != states.FAIL or "error" in t.user_attrs]


def counts(made: Any) -> dict[str, int]:
    """How many trials ended how: `complete`, `pruned`, `fail`."""
    out: dict[str, int] = {}
    for trial in ended(made):
        out[trial.state.name.lower()] = out.get(trial.state.name.lower(), 0) + 1
    return out


def tried(made: Any, search: Search) -> int:
    """Trials that count: of a grid, each choice once."""
    found = [_name(t) for t in ended(made)]
    return len(found) if search.size() is None else len(set(found))


def resume(made: Any) -> None:
    """Give up the trials of processes that ended meanwhile; of a grid, their choices come up again."""
    states = load_optuna().trial.TrialState
    for trial in made.get_trials(deepcopy=False, states=(states.RUNNING,)):
        host, _, process = trial.user_attrs.get("process", "").rpartition(" ")
        # Nobody's: a process was killed before it signed. Ours: a full disk kept us from closing it.
        ours = not host or int(process) == os.getpid() or not alive(int(process))
        if host in ("", platform.node()) and ours:
            made.tell(trial.number, state=states.FAIL)


def _process() -> str:
    """Which process is at a trial."""
    return f"{platform.node()} {os.getpid()}"


def running(made: Any) -> int:
    """Trials under way, also those of other processes."""
    return len(made.get_trials(deepcopy=False, states=(load_optuna().trial.TrialState.RUNNING,)))


def _name(trial: Any) -> str:
    # What it was given comes first: a trial that is just beginning has only some of its settings.
    return _spelled(trial.system_attrs.get("fixed_params") or trial.params)


def _spelled(params: Mapping[str, Any]) -> str:
    return json.dumps(dict(params), sort_keys=True)


def write_settings(search: Search, found: Any, path: str | Path) -> None:
    """The best settings as a file for `ciga run --settings`: all of them, so that no preset matters.

    Those of several datasets are what was searched or fixed; the rest is each dataset's own.
    """
    best = found.best_trial
    seeds = ", ".join(map(str, search.seeds))
    number = sum(counts(found).values())
    lines = [
        f"# {search.method} on {search.dataset}: the best of {counted(number, 'trial')} by validation score",
        f"# ({best.value:.4f}, seeds {seeds}; searched: {', '.join(best.params)})",
    ]
    if len(search.datasets) == 1:
        written = search.plan(search.datasets[0], search.seeds[0], best.params).config.settings
    else:
        written = {**search.settings, **best.params}
        lines.append(f"# The rest as in preset {search.start}.")
    lines += [f"{key} = {json.dumps('none' if value is None else value)}" for key, value in written.items()]
    with atomic(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def load_optuna() -> Any:
    """Optuna, which is an extra."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "sweep") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
