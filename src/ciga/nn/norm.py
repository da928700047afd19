"""Batch normalisation that keeps the two parts of a graph apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PartNorm(nn.Module):
    """Batch norm with statistics of its own for each part of a joined batch.

    The spurious part has other statistics than the invariant one; if both shared them, what G_c is
    normalised with at test time would depend on G_s.
    """

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(parts))

    def forward(self, h: Tensor, border: int | None) -> Tensor:
        """h [N, d]; rows before `border` are the invariant part, the others the spurious one."""
        if border is None or border == 0:  # one part alone
            return _norm(self.norms[0 if border is None else 1], h)
        causal, spurious = h.split([border, h.size(0) - border])
        return torch.cat([_norm(self.norms[0], causal), _norm(self.norms[1], spurious)])


def _norm(norm: nn.Module, h: Tensor) -> Tensor:
    # A single row has no variance to normalise with: use the running statistics instead of failing.
    if norm.training and h.size(0) < 2:
        assert isinstance(norm, nn.BatchNorm1d)
        return nn.functional.batch_norm(
            h, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
        )
    out: Tensor = norm(h)
    return out
