"""In which order, and how often, training graphs are seen."""

from __future__ import annotations

import torch
from torch import Tensor


def balanced_order(y: Tensor) -> Tensor:
    """As many samples as there are, every class equally often (to one), in random order.

    Where another size or scaffold brings another share of each class, the share in training is not worth
    knowing. A class has all its samples drawn before one is drawn again.
    """
    classes, count = y.unique(return_counts=True)
    turns = y.numel() * torch.arange(classes.numel() + 1) // classes.numel()
    drawn = []
    for one, members, wanted in zip(classes, count.tolist(), turns.diff().tolist(), strict=True):
        rounds = torch.rand(-(-wanted // members), members).argsort(1).flatten()[:wanted]
        drawn.append((y == one).nonzero().flatten()[rounds])
    order = torch.cat(drawn)
    return order[torch.randperm(order.numel())]
