"""Which scores are the largest of their graph, for all graphs of a batch at once."""

from __future__ import annotations

import torch
from torch import Tensor


def rank_within(score: Tensor, graph: Tensor, count: Tensor) -> Tensor:
    """Rank of each score in its graph, 0 for the largest: [P], from `graph` [P] ascending and `count` [G]."""
    order = _best_first(score, graph)
    start = count.cumsum(0) - count
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel(), device=order.device) - start[graph]
    return rank


def top_within(score: Tensor, graph: Tensor, count: Tensor, quota: Tensor) -> Tensor:
    """Is a score among the `quota` largest of its graph? [P]

    Args:
        score: Of each element [P].
        graph: The graph of each element [P], ascending.
        count: The number of elements of each graph [G].
        quota: The number of elements to choose in each graph [G].
    """
    order = _best_first(score, graph)
    # In this order, too, `graph` is the graph of each row: those before `stop` of their graph are its best.
    stop = count.cumsum(0) - count + quota
    top = torch.arange(order.numel(), device=order.device) < stop.index_select(0, graph)
    return torch.empty_like(top).index_copy_(0, order, top)


def _best_first(score: Tensor, graph: Tensor) -> Tensor:
    """The order by graph and, within a graph, from the largest score down.

    One exact sort does it: the bits of a float, with negative numbers turned around, sort like the float,
    so graph and score fit into one integer key.
    """
    bits = score.float().view(torch.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return torch.sub(graph << 33, ordered).argsort()
