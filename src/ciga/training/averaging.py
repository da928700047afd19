"""A running mean of a network's weights.

From one epoch to the next the weights of a trained network wander about, and its score on shifted data with
them, by more than methods differ. Their mean stands still, so it is what is scored, chosen and kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """mean <- d * mean + (1 - d) * weights after every step, batch-norm statistics included.

    In its first steps d is smaller, so that the mean forgets the weights the network began with.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        live = {k: v for k, v in network.state_dict().items() if v.is_floating_point()}
        self.names, self.live = list(live), list(live.values())  # not copies: they change with the network
        self.mean = [v.detach().clone() for v in self.live]
        self.decay = decay

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after step `step`, counted from 0 over all epochs."""
        decay = min(self.decay, (step + 1) / (step + 10))
        torch._foreach_lerp_(self.mean, self.live, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The network with the mean for its weights."""
        with torch.no_grad():
            own = [v.clone() for v in self.live]
            torch._foreach_copy_(self.live, self.mean)
            try:
                yield
            finally:
                torch._foreach_copy_(self.live, own)

    def state(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return dict(zip(self.names, self.mean, strict=True))

    def restore(self, state: dict[str, Tensor]) -> None:
        """As `state` had it."""
        torch._foreach_copy_(self.mean, [state[name] for name in self.names])
