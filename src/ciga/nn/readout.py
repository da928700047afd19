"""From node embeddings [N, d] to graph embeddings [G, d]. A graph without nodes gets zeros."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def sum_of(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Sum over the nodes of each graph."""
    return h.new_zeros(graphs, h.size(1)).index_add(0, batch, h)


def mean_of(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Mean over the nodes of each graph."""
    count = h.new_zeros(graphs).index_add_(0, batch, h.new_ones(batch.numel()))
    return sum_of(h, batch, graphs) / count.clamp(min=1).unsqueeze(1)


def max_of(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Maximum over the nodes of each graph."""
    index = batch.unsqueeze(1).expand_as(h)
    return h.new_zeros(graphs, h.size(1)).scatter_reduce(0, index, h, "amax", include_self=False)


class Readout(nn.Module):
    """mean, sum, max, or attention (a learned weight per node, softmax within each graph)."""

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
        return {"mean": mean_of, "sum": sum_of, "max": max_of}[self.kind](h, batch, graphs)
