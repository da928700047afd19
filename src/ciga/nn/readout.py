"""From node embeddings [N, d] to graph embeddings [G, d]. A graph without nodes gets zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

READOUTS = ("mean", "sum", "max", "mean-max", "attention")


def sum_of(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Sum over the nodes of each graph."""
    return h.new_zeros(graphs, h.size(1)).index_add(0, batch, h)


def mean_of(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Mean over the nodes of each graph."""
    count = h.new_zeros(graphs).index_add_(0, batch, h.new_ones(batch.numel()))
    return sum_of(h, batch, graphs) / count.clamp(min=1).unsqueeze(1)


def max_of(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Maximum over the nodes of each graph; nodes that share it share its gradient."""
    return _peak(h, batch, graphs) if torch.compiler.is_compiling() else _max(h, batch, graphs)


def _peak(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    index = batch.unsqueeze(1).expand_as(h)
    return h.new_zeros(graphs, h.size(1)).scatter_reduce(0, index, h, "amax", include_self=False)


class _Max(torch.autograd.Function):
    # torch's own gradient scatters numbers one by one, and counts the zeros it began with as winners.
    @staticmethod
    def forward(ctx: Any, h: Tensor, batch: Tensor, graphs: int) -> Tensor:
        peak = _peak(h, batch, graphs)
        ctx.save_for_backward(h, batch, peak)
        return peak

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        h, batch, peak = ctx.saved_tensors
        best = (h == peak.index_select(0, batch)).to(grad.dtype)
        share = grad / sum_of(best, batch, peak.size(0)).clamp(min=1)
        return best * share.index_select(0, batch), None, None


_max: Callable[..., Tensor] = _Max.apply


class Readout(nn.Module):
    """mean, sum, max, mean-max, or attention (a learned weight per node, softmax within each graph).

    `mean-max` averages every other column and takes the maximum of those between: how much of something there
    is, and whether there is any of something else.
    """

    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        self.kind = kind
        self.gate = nn.Linear(width, 1) if kind == "attention" else None

    def forward(self, h: Tensor, batch: Tensor, graphs: int) -> Tensor:
        if self.gate is not None:
            score = self.gate(h)
            peak = max_of(score.detach(), batch, graphs)
            weight = (score - peak[batch]).exp()
            total = sum_of(weight, batch, graphs)
            return sum_of(weight * h, batch, graphs) / total.clamp(min=torch.finfo(h.dtype).tiny)
        if self.kind == "mean-max":
            both = mean_of(h[:, ::2], batch, graphs), max_of(h[:, 1::2], batch, graphs)
            return torch.cat(both, 1)
        return {"mean": mean_of, "sum": sum_of, "max": max_of}[self.kind](h, batch, graphs)
