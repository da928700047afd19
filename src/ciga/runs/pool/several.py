"""The records of several runs: what `ciga fit` and `ciga demo` ask of the pool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from ciga.errors import CigaError
from ciga.parallel import cores
from ciga.progress import AtMost, Progress, silent
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
        on_epochs: hears of epochs done over all runs, of all that are expected, and the latest news.
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
    outlook = Outlook(plans, records)
    named = {p.hash: f"{p.config.method} seed {p.config.seed}" for p in plans}

    def watch(state: PoolState, news: str) -> None:
        done, total = outlook(state)
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


class Outlook:
    """Epochs of several runs, done and in all.

    Early stopping ends runs: one that goes on is taken to end where finished runs of its method did, on the
    average. Before one has finished, the total is `AtMost`.
    """

    def __init__(self, plans: Sequence[Plan], records: Records) -> None:
        self.plans, self.records = {planned.hash: planned for planned in plans}, records
        self.took: dict[str, int] = {}  # run -> its epochs, once it has ended

    def __call__(self, state: PoolState) -> tuple[int, int]:
        """Where the runs stand, and where they end."""
        for name in state.ended - self.took.keys():
            self.took[name] = self._recorded(self.plans[name])
        ended: dict[str, list[int]] = defaultdict(list)
        for name, epochs in self.took.items():
            ended[self.plans[name].config.method].append(epochs)
        done = total = sum(self.took.values())
        sure = True
        for name in self.plans.keys() - self.took.keys():
            planned = self.plans[name]
            most, known = _most(planned), ended.get(planned.config.method)
            at = min(state.running[name].epoch, most) if name in state.running else 0
            done += at
            total += max(at, round(mean(known))) if known else most
            sure &= bool(known) or not _may_stop(planned)
        return done, total if sure else AtMost(total)

    def _recorded(self, planned: Plan) -> int:
        record = self.records.runs[0].find(planned.config)
        if record is None:
            return _most(planned)
        return round(record["epochs"] / planned.settings.training.members)


def _most(planned: Plan) -> int:
    return 1 if planned.settings.method.closed_form else planned.settings.training.epochs


def _may_stop(planned: Plan) -> bool:
    """Whether early stopping can end the run before its last epoch."""
    training = planned.settings.training
    return not planned.settings.method.closed_form and training.warmup + training.patience < training.epochs
