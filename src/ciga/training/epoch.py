"""One pass over the training graphs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ciga.errors import CigaError
from ciga.graphs.store import GraphStore
from ciga.methods.base import Method, Step
from ciga.methods.contract import check_terms
from ciga.nn.gate import gate_cost
from ciga.training.adam import Adam
from ciga.training.averaging import WeightAverage
from ciga.training.sampling import balanced_order
from ciga.training.schedule import Training


def train_epoch(
    method: Method[Any],
    network: nn.Module,
    train: GraphStore,
    training: Training,
    optimizers: tuple[Adam, Adam],
    side: dict[str, Tensor],
    epoch: int,
    average: WeightAverage | None = None,
) -> dict[str, float]:
    """One pass over the training graphs; the mean of every loss term.

    Args:
        method: Gives the loss.
        network: Is trained.
        train: The training graphs.
        training: The schedule.
        optimizers: The outer and the inner one.
        side: What the method's `prepare` found.
        epoch: Its number.
        average: The average of the weights, where one is kept.
    """
    outer, inner = optimizers
    steps = -(-train.num_graphs // training.batch_size)
    place = next(network.parameters()).device
    sums: dict[str, Tensor] = {}
    sound: dict[str, Tensor | int] = {}  # steps in which a term was a number
    since = training.age(epoch)
    network.train()
    order = balanced_order(train.y) if training.balanced else torch.randperm(train.num_graphs)
    turns = order.split(training.batch_size)
    composed = method.compose(order, training.batch_size, side)
    batches = train.batches(training.batch_size, order) if composed is None else map(train.batch, composed)
    for i, batch in enumerate(batches):
        batch = batch.to(place)
        step = Step(
            since,
            since * steps + i,
            training.epochs * steps,
            {k: v[batch.index] for k, v in side.items()},
            own=turns[i].numel(),
        )
        for _ in range(method.critic_steps):
            inner.zero_grad()
            method.critic_loss(network, batch, step).backward()
            inner.step()
        outer.zero_grad()
        try:
            terms = method.loss(network, batch, step)
            if epoch == i == 0:
                check_terms(method, terms)
            terms = {**terms, **gate_cost(network)}
        except (IndexError, RuntimeError, ValueError) as error:
            # Weights that diverged may fail in many ways, all for one reason. (NaN is below nothing.)
            if all(bool(p.abs().max() < 1e10) for p in network.parameters() if p.numel()):
                raise
            raise CigaError(
                f"Training diverged in epoch {epoch}: try a smaller learning rate (--set lr=…)."
            ) from error
        torch.stack(list(terms.values())).sum().backward()
        outer.step()
        if average is not None:
            average.update(step.number)
        # Summed as tensors and read once an epoch: reading a number at every step would wait for the device.
        for name, value in terms.items():
            total = value.detach() * turns[i].numel()
            sums[name] = sums[name] + total if name in sums else total
            sound[name] = sound.get(name, 0) + total.isfinite()
    means = {name: float(total) / train.num_graphs for name, total in sums.items()}
    # One broken term breaks the weights, and with them every other term: name the one that broke first.
    for name in sorted((n for n in means if not math.isfinite(means[n])), key=lambda n: int(sound[n])):
        raise CigaError(
            f"The loss term '{name}' became {means[name]} in epoch {epoch}: "
            "try a smaller learning rate (--set lr=…) or a smaller weight of that term."
        )
    return means
