"""Environments: which graph belongs to which, and what each of them says about the risk.

An environment belongs to a sample, not to a place in a batch: it is fixed once, before training, and
every batch finds the environments of its graphs in `step.side["env"]`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ciga.errors import CigaError, UsageError
from ciga.methods.base import Context, Method, N, methods
from ciga.nn.encoder import Spec
from ciga.options import tunable


@dataclass
class EnvironmentMethod(Method[N]):
    """Base of the methods that compare environments.

    The data's own environments are used where it has any; else, or with `partition=random` as in the
    paper's tables, the graphs are dealt out at random in `environments` equal parts, fixed by the seed of
    the run.
    """

    needs_environments: ClassVar[bool] = True

    environments: int = tunable(2, [2, 3, 5], low=1, help="random environments, where they are random")
    partition: str = tunable(
        "auto", choices=("auto", "random"), help="auto: the data's own environments, random if it has none"
    )

    def count(self, spec: Spec) -> int:
        """How many environments a network must have room for."""
        own = spec.environments > 1 and self.partition == "auto"
        return spec.environments if own else self.environments

    def prepare(self, context: Context) -> dict[str, Tensor]:
        return {
            "env": training_environments(context, self.environments, self.name, self.partition == "random")
        }


def training_environments(context: Context, number: int, name: str, random: bool = False) -> Tensor:
    """The environment of each training graph, [n] numbers from 0.

    Args:
        context: The data and the seed of the run.
        number: The number of environments to deal out at random, where the data has none.
        name: The method that asks, for error messages.
        random: Deal them out even if the data has environments.
    """
    train = context.splits.train
    if random or train.env is None:
        if number < 2:
            raise _too_few(name, "environments=1 was asked for")
        generator = torch.Generator().manual_seed(context.seed)
        return torch.randperm(train.num_graphs, generator=generator) % number
    if int(train.env.min()) < 0:
        raise CigaError("The training graphs have environments below 0: number them from 0.")
    if bool((train.env == train.env[0]).all()):
        raise _too_few(name, "the training data has one")
    return train.env.long()


def _too_few(name: str, why: str) -> UsageError:
    free = ", ".join(n for n in methods if not methods[n].needs_environments)
    return UsageError(
        f"{name} compares at least two environments, but {why}: methods that need none are {free}."
    )


def reference_logits(context: Context, epochs: int = 0) -> Tensor:
    """What an ERM network trained for at most `epochs` (0: as long as the run) says of the training graphs.

    [n, C]. Its epoch is the best on `id_val`, or on a tenth of the training graphs where there is none.
    """
    logits = context.predict(context.reference(epochs))
    if bool((logits.argmax(1) == context.splits.train.y).all()):
        warnings.warn(
            "The ERM reference model classifies every training graph correctly, so its mistakes tell no "
            "groups apart: set reference_epochs to fewer epochs, or use a larger dropout.",
            stacklevel=2,
        )
    return logits


# ---------------------------------------------------------------- what environments say


def environment_means(values: Tensor, env: Tensor) -> Tensor:
    """Mean of `values` [G, ...] over the graphs of each environment of the batch, [K, ...].

    Environments without a graph in the batch have no row; the others stand in ascending order.
    """
    _, place, count = env.unique(return_inverse=True, return_counts=True)
    total = values.new_zeros(count.numel(), *values.shape[1:]).index_add(0, place, values)
    return total / count.view(-1, *[1] * (values.dim() - 1))


def scale_gradient(logits: Tensor, y: Tensor) -> Tensor:
    """Derivative of each sample's risk CE(w * logits, y) by the dummy scale w at w = 1, [G].

    It is sum_c p_c l_c - l_y for logits l and probabilities p, itself differentiable: no second graph
    has to be built for its square.
    """
    expected = (logits.softmax(1) * logits).sum(1)
    return expected - logits.gather(1, y.unsqueeze(1)).squeeze(1)


def irm_penalty(logits: Tensor, y: Tensor, env: Tensor) -> Tensor:
    """Sum over the environments of the batch of || d R_e(w * f) / dw at w = 1 ||^2."""
    return environment_means(scale_gradient(logits, y), env).square().sum()
