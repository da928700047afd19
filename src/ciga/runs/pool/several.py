"""The records of several runs: what `ciga fit` and `ciga demo` ask of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ciga.errors import CigaError
from ciga.parallel import cores
from ciga.progress import Progress, silent
from ciga.runs.plan import Plan
from ciga.runs.pool.executors import Executor, Inline, Processes
from ciga.runs.pool.schedule import Pool, PoolState
from ciga.runs.records import Records
from ciga.runs.types import Record
from ciga.training.device import pick_device


def run_all(
    plans: Sequence[Plan],
    runs_dir: str | Path = "runs",
    *,
    device: str = "auto",
    workers: int | None = None,
    on_epochs: Progress = silent,
) -> list[Record]:
    """The records of all these runs, as many at a time as there are cores; the first failure ends them all.

    Args:
        plans: the runs.
        runs_dir: where records are kept; what is recorded there is not run again.
        device: auto, cpu, cuda or mps.
        workers: runs at a time; with one, they happen in this process.
        on_epochs: hears of epochs done over all runs, of the most there may be, and the latest news.
    """
    records = Records([runs_dir])
    missing = sum(records.runs[0].find(planned.config) is None for planned in plans)
    if missing:
        _run(plans, records, device, executor_for(missing, device, workers), on_epochs)
    found = [records.runs[0].find(planned.config) for planned in plans]
    return [record for record in found if record is not None]


def executor_for(runs: int, device: str = "auto", workers: int | None = None) -> Executor:
    """Who does this number of runs: worker processes, or this process where one at a time is enough."""
    at_once = workers or (1 if pick_device(device).type != "cpu" else cores())
    at_once = min(at_once, runs)
    return Inline() if at_once == 1 else Processes(at_once, prepares=False)


def _run(
    plans: Sequence[Plan], records: Records, device: str, executor: Executor, on_epochs: Progress
) -> None:
    most = {planned.hash: _epochs(planned) for planned in plans}
    named = {p.hash: f"{p.config.method} seed {p.config.seed}" for p in plans}
    total = sum(most.values())

    def watch(state: PoolState, news: str) -> None:
        done = sum(most[name] for name in state.ended)
        done += sum(min(s.epoch, most[name]) for name, s in state.running.items())
        latest = [(s.epoch, name, s) for name, s in state.running.items() if s.epoch]
        if news or not latest:
            text = news
        else:
            _, name, standing = max(latest, key=lambda item: item[0])
            scores = " ".join(f"{k} {v:.3f}" for k, v in standing.scores.items())
            text = f"{named[name]}: epoch {standing.epoch} {scores}"
        on_epochs(done, total, text)

    pool = Pool(plans, records, executor, device=device, retry=True, strict=True, watch=watch)
    state = pool.run()
    for name, error in state.failed.items():
        raise CigaError(f"{named[name]} failed: {error}")


def _epochs(planned: Plan) -> int:
    return 1 if planned.settings.method.closed_form else planned.settings.training.epochs
