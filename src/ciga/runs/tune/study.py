"""The journal of a search: Optuna's study in a file that many processes may share, and what it says."""

from __future__ import annotations

import json
import os
import platform
import warnings
from pathlib import Path
from typing import Any

from filelock import FileLock

from ciga.errors import CigaError, MissingExtra, UsageError
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
    sampler = _sampler(search, sampler_seed)
    try:
        made = optuna.create_study(
            study_name=search.name(),
            storage=JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path))),
            sampler=sampler,
            pruner=optuna.pruners.MedianPruner(STARTUP, n_warmup_steps=warmup),
            direction="maximize",
            load_if_exists=True,
        )
        made.get_trials(deepcopy=False)  # reads what the journal holds
    except DAMAGE as error:
        raise CigaError(
            f"{path} is damaged ({type(error).__name__}): delete it to search anew. Finished runs are kept "
            "in the runs folder, and are not run again."
        ) from None
    return made


class JournalLock:
    """A lock that the system takes back from a process that is killed (Optuna's own stays behind)."""

    def __init__(self, journal: Path) -> None:
        self.lock = FileLock(f"{journal}.filelock")

    def acquire(self) -> bool:
        self.lock.acquire()
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


def _sampler(search: Search, seed: int) -> Any:
    """Every choice of a grid once, in random order; in ranges, where it looks promising."""
    samplers = load_optuna().samplers
    if search.size() is None:
        return samplers.TPESampler(seed=seed, constant_liar=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental
        sampler = samplers.BruteForceSampler(seed=seed)
    # It would stop a loop of Optuna's; ours asks for the number of trials itself.
    sampler.after_trial = lambda *args, **more: None
    return sampler


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


def resume(made: Any, search: Search) -> None:
    """Try again what was interrupted: by Ctrl-C, or because its process was killed."""
    states = load_optuna().trial.TrialState
    for trial in made.get_trials(deepcopy=False, states=(states.RUNNING,)):
        host, _, process = trial.user_attrs.get("process", "").rpartition(" ")
        if host == platform.node() and not alive(int(process)):
            made.tell(trial.number, state=states.FAIL)
    if search.size() is None:
        return
    known = {_name(t) for t in ended(made)}
    known |= {_name(t) for t in made.get_trials(deepcopy=False, states=(states.RUNNING, states.WAITING))}
    names = search.values().keys()
    for trial in made.get_trials(deepcopy=False, states=(states.FAIL,)):
        if trial.params.keys() == names and _name(trial) not in known:
            known.add(_name(trial))
            made.enqueue_trial(trial.params)


def sign(trial: Any) -> None:
    """Write down which process is at a trial."""
    trial.set_user_attr("process", f"{platform.node()} {os.getpid()}")


def running(made: Any) -> int:
    """Trials under way, also those of other processes."""
    return len(made.get_trials(deepcopy=False, states=(load_optuna().trial.TrialState.RUNNING,)))


def _name(trial: Any) -> str:
    params = trial.params or trial.system_attrs.get("fixed_params", {})
    return json.dumps(dict(params), sort_keys=True)


def write_settings(search: Search, found: Any, path: str | Path) -> None:
    """The best settings as a file for `ciga run --settings`: all of them, so that no preset matters.

    Those of several datasets are what was searched or fixed; the rest is each dataset's own.
    """
    best = found.best_trial
    seeds = ", ".join(map(str, search.seeds))
    number = sum(counts(found).values())
    lines = [
        f"# {search.method} on {search.dataset}: the best of {number} trials by validation score",
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
