"""Who is whose neighbour, for code that looks at small subgraphs: simple, undirected, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.data.store import Batch


@dataclass
class Adjacency:
    """Every edge of a batch in both directions, once, without self-loops, sorted by (source, target).

    `SPMotif` as released stores an edge one way only; shapes are counted on the undirected graph.
    """

    nodes: int
    source: Tensor  # [A]
    target: Tensor  # [A]
    edge: Tensor  # [A] row of the edge in the `edge_index` it came from; its own direction where there is one
    start: Tensor  # [N] where the neighbours of each node begin
    degree: Tensor  # [N]

    @classmethod
    def of(cls, edge_index: Tensor, nodes: int) -> Adjacency:
        """Symmetrise and sort `edge_index` [2, E]."""
        number = torch.arange(edge_index.size(1), device=edge_index.device)
        proper = (edge_index[0] != edge_index[1]).repeat(2)
        source, target = torch.cat([edge_index, edge_index.flip(0)], 1)[:, proper]
        # A stable sort keeps the edge's own direction, which stands in the first half, in front.
        key, order = (source * nodes + target).sort(stable=True)
        first = torch.ones_like(key, dtype=torch.bool)
        first[1:] = key[1:] != key[:-1]
        order = order[first]
        source, target = source[order], target[order]
        degree = torch.bincount(source, minlength=nodes)
        return cls(nodes, source, target, number.repeat(2)[proper][order], degree.cumsum(0) - degree, degree)

    def place(self, u: Tensor, v: Tensor) -> Tensor:
        """Row of the edge u -> v, or -1 where there is none; shapes broadcast. Negative nodes have no edges."""
        if not self.source.numel():
            return torch.full_like(u + v, -1)
        key = self.source * self.nodes + self.target
        wanted = torch.where((u >= 0) & (v >= 0), u * self.nodes + v, -1)
        row = torch.searchsorted(key, wanted).clamp(max=key.numel() - 1)
        return torch.where(key[row] == wanted, row, -1)

    def neighbours(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """All neighbours of each of the nodes [M]: (which of the M, the neighbour), one row per neighbour."""
        return expand(self.start[node], self.degree[node], self.target)


def expand(start: Tensor, count: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The slices values[start[i] : start[i] + count[i]], joined: (i of each, value)."""
    row = torch.arange(count.numel(), device=count.device).repeat_interleave(count)
    shift = start - (count.cumsum(0) - count)
    return row, values[shift[row] + torch.arange(row.numel(), device=row.device)]


def ends(batch: Batch) -> Tensor:
    """The two ends [2, P] of every undirected edge, the smaller first."""
    out = batch.edge_index.new_zeros(2, batch.num_pairs)
    out[:, batch.pair] = batch.edge_index.sort(0).values
    return out
