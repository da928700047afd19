"""Training several networks of one method on the same data, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ciga.graphs.splits import Splits
from ciga.methods.base import Method
from ciga.training.device import pick_device, quiet_machine
from ciga.training.ensemble import pack
from ciga.training.evaluation import evaluate
from ciga.training.fitted import Fitted
from ciga.training.loop import fit
from ciga.training.schedule import Training

#: Seeds of the members of one run are this far apart: runs with seeds below it share no network.
APART = 1000


def fit_members(
    method: Method[Any],
    splits: Splits,
    *,
    training: Training,
    seed: int = 1,
    folder: Path | None = None,
    device: str = "auto",
    threads: int = 1,
    on_epoch: Callable[[dict[str, Any], int], None] | None = None,
    **how: Any,
) -> Fitted:
    """`fit` for each of `training.members` networks, each with an epoch it ends at and one that is chosen.

    Args:
        method, splits: as in `fit`.
        training: the schedule; its `members` is the number of networks.
        seed: of the first network, which is the one that the same seed has without members.
        folder: where checkpoints go. Each member has a folder within, so a broken run loses none that was
            finished.
        device, threads, how: as in `fit`.
        on_epoch: hears of every epoch, counted over all members.
    """
    every: list[Fitted] = []
    for i in range(training.members):

        def count_on(row: dict[str, Any], epochs: int, before: int = i) -> None:
            if on_epoch is not None:
                place = before * training.epochs + row["epoch"]
                on_epoch({**row, "epoch": place}, epochs * training.members)

        own = folder if folder is None or training.members == 1 else folder / f"member-{i + 1}"
        if own is not None:
            own.mkdir(parents=True, exist_ok=True)
        every.append(
            fit(
                method,
                splits,
                training=training,
                seed=seed + APART * i,
                folder=own,
                device=device,
                threads=threads,
                on_epoch=count_on,
                **how,
            )
        )
    if len(every) == 1:
        return every[0]
    with quiet_machine(threads):
        return _collect(every, splits, device)


def _collect(every: Sequence[Fitted], splits: Splits, device: str) -> Fitted:
    """What several made of the same data, as one."""
    history = [{**row, "member": i} for i, one in enumerate(every, 1) for row in one.history]
    seconds = sum(one.seconds for one in every)
    whole = replace(every[0], members=len(every), history=history, seconds=seconds, states={}, selected={})
    rest = {whole.selector.split: splits.task.metric}
    scored: dict[tuple[int, ...], dict[str, Any]] = {}
    for rule in every[0].selected:
        whole.states[rule] = pack([one.states[rule] for one in every])
        epochs = tuple(one.selected[rule]["epoch"] for one in every)
        if epochs not in scored:
            networks = [network.to(pick_device(device)) for network in whole.networks(rule)]
            found = {s: evaluate(whole.method, networks, splits[s], rest=rest.get(s)) for s in splits}
            scored[epochs] = {"epoch": list(epochs), **found}
        whole.selected[rule] = scored[epochs]
    return whole
