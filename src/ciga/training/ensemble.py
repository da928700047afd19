"""Several networks of one method as one: the mean of what they say.

Where validation sets are small, one network's score on shifted data is as much chance as merit. The mean of
several ranks such graphs better than single ones do, whatever the method (results/NOTEBOOK.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ciga.graphs.splits import Splits
from ciga.graphs.store import Batch
from ciga.methods.base import Method
from ciga.nn.encoder import Backbone, Spec
from ciga.training.evaluation import evaluate
from ciga.training.loop import Fitted, Training, fit, pick_device, quiet_machine

#: Seeds of the members of one run are so far apart: runs with seeds below it share no network.
APART = 1000


class Members(Method):
    """A method whose network is a list of `count` networks of `method`: to be asked, not to be trained."""

    def __init__(self, method: Method, count: int) -> None:
        self.method, self.count = method, count
        for name in ("name", "extracts", "selects_by_rest"):  # true of one, true of several
            setattr(self, name, getattr(method, name))

    def network(self, spec: Spec, backbone: Backbone) -> nn.Module:
        return nn.ModuleList(self.method.network(spec, backbone) for _ in range(self.count))

    def logits(self, network: nn.Module, batch: Batch) -> Tensor:
        return _mean([self.method.logits(member, batch) for member in separate(network)])

    def edge_scores(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        return _majority([self.method.edge_scores(member, batch) for member in separate(network)])

    def infer(self, network: nn.Module, batch: Batch) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        every = [self.method.infer(member, batch) for member in separate(network)]
        edges = [found for _, found in every if found is not None]
        return _mean([logits for logits, _ in every]), _majority(edges) if edges else None


def separate(network: nn.Module) -> list[nn.Module]:
    """The networks of the members; a network that is none of several is its only one."""
    return list(network) if isinstance(network, nn.ModuleList) else [network]


def _mean(logits: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of the members' probabilities, [G, C]."""
    every = torch.stack([one.log_softmax(1) for one in logits])
    return every.logsumexp(0) - math.log(len(logits))


def _majority(edges: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The mean logit of each undirected edge, [P], and whether at least half of the members keep it, [P]."""
    score = torch.stack([score for score, _ in edges]).mean(0)
    return score, torch.stack([kept for _, kept in edges]).float().mean(0) >= 0.5


def fit_members(
    method: Method,
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
    """`fit` for each of `training.members` networks, one after the other: each ends at an epoch of its own.

    The first is the network that the same seed has without members. Each has a folder within `folder`, so a
    broken run loses none that was finished.
    """
    every: list[Fitted] = []
    for i in range(training.members):

        def tell(row: dict[str, Any], epochs: int, before: int = i) -> None:
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
                on_epoch=tell,
                **how,
            )
        )
    if len(every) == 1:
        return every[0]
    with quiet_machine(threads):
        return _gather(every, splits, device)


def _gather(every: Sequence[Fitted], splits: Splits, device: str) -> Fitted:
    """What several made of the same data, as one."""
    first = every[0]
    gathered = Fitted(Members(first.method, len(every)), first.backbone, first.spec, first.splits)
    gathered.seconds = sum(one.seconds for one in every)
    gathered.history = [{**row, "member": i} for i, one in enumerate(every, 1) for row in one.history]
    rest = {gathered.selector.split: splits.task.metric}
    scored: dict[tuple[int, ...], dict[str, Any]] = {}
    for rule in first.selected:
        gathered.states[rule] = {
            f"{i}.{k}": v for i, one in enumerate(every) for k, v in one.states[rule].items()
        }
        epochs = tuple(one.selected[rule]["epoch"] for one in every)
        if epochs not in scored:
            network = gathered.network(rule).to(pick_device(device))
            found = {s: evaluate(gathered.method, network, splits[s], rest=rest.get(s)) for s in splits}
            scored[epochs] = {"epoch": list(epochs), **found}
        gathered.selected[rule] = scored[epochs]
    return gathered
