"""What G_s still tells of the label: a probe that knows nothing of the network that left G_s behind.

A classifier that reads two motifs and takes "neither" for the third is right on every validation graph, and
its G_c is wrong on a third of them. Accuracy cannot see it; what was left behind can.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ciga.graphs.store import Batch
from ciga.graphs.walks import return_probabilities

#: Return probabilities up to this number of steps: cycles up to this length are seen.
STEPS = 8


def describe_rest(batch: Batch, kept: Tensor) -> Tensor:
    """[G, D] of each G_s: mean, largest and least over its nodes of features, walks and degree; its size.

    Args:
        kept: [P] which undirected edges are in G_c; a node is in G_s if one of the others is at it.
    """
    ends = batch.edge_index[:, ~kept[batch.pair]]
    nodes, place = ends.flatten().unique(return_inverse=True)
    walks = return_probabilities(place.view(2, -1), nodes.numel(), STEPS)
    degrees = [(walks[:, :1] - 1 / k).abs() < 1e-4 for k in (1, 2, 3)]
    rows = torch.cat([batch.x[nodes].float(), walks, *(d.float() for d in degrees)], dim=1)
    graph = batch.batch[nodes]
    index = graph[:, None].expand_as(rows)
    empty = rows.new_zeros(batch.num_graphs, rows.size(1))  # a graph that keeps every edge has no G_s

    def over_nodes(how: str) -> Tensor:
        return empty.scatter_reduce(0, index, rows, how, include_self=False)

    size = torch.bincount(graph, minlength=batch.num_graphs).float().log1p()
    return torch.cat([over_nodes("mean"), over_nodes("amax"), over_nodes("amin"), size[:, None]], dim=1)


def probe(description: Tensor, y: Tensor, classes: int) -> Tensor:
    """Class scores [n, C] by ridge regression on one half of the graphs for the other, and back.

    A score of graph i comes from graphs of the other parity only, so it is no memory of its label.
    """
    x = description.double().cpu()
    x = (x - x.mean(0)) / x.std(0, correction=0).clamp(min=1e-9)
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    target = torch.nn.functional.one_hot(y.cpu(), classes).double()
    shrink = x.size(1) * torch.eye(x.size(1), dtype=x.dtype)  # more columns, more doubt
    out = torch.zeros_like(target)
    even = torch.arange(len(x)) % 2 == 0
    for half in (even, ~even):
        known = x[half]
        out[~half] = x[~half] @ torch.linalg.solve(known.T @ known + shrink, known.T @ target[half])
    return out
