"""Probabilities that mean what they say: one temperature for each method (Guo et al., 2017).

A network trained to the end is surer than it is right, above all on shifted data. Dividing all its logits by
one number changes no ranking within a network, and makes its probabilities honest on the rows the number was
chosen on. In a mixture it also lets methods speak with the certainty they have earned.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

#: What may be chosen: from four times as sure to eight times less sure.
LEAST, MOST = 0.25, 8.0
STEPS = 101
#: How many rows speak for leaving the probabilities as they are, in units of (log temperature)^2.
PRIOR = 3.0


def cooled(every: Tensor, temperature: float) -> Tensor:
    """Each network's probabilities [..., C] as if its logits had been divided by the temperature."""
    return every if temperature == 1 else (every.log() / temperature).softmax(-1)


def best_temperature(every: Tensor, y: Tensor) -> float:
    """The temperature under which the mean of the networks [S, n, C] makes the labels [n] likeliest.

    A grid, not a search: the same answer everywhere. Without rows it is 1.
    """
    if not len(y):
        return 1.0

    def cost(temperature: float) -> float:
        mean = cooled(every.double(), temperature).mean(0)
        right = mean.gather(1, y.unsqueeze(1)).clamp(min=1e-12)
        return float(-right.log().sum()) + PRIOR * math.log(temperature) ** 2

    powers = torch.linspace(math.log2(LEAST), math.log2(MOST), STEPS, dtype=torch.double)
    grid: list[float] = (2**powers).tolist()
    best: float = min(grid, key=cost)
    return round(best, 3)
