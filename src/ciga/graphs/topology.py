"""Who is whose neighbour, for code that looks at small subgraphs: simple, undirected, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.store import Batch


@dataclass
class Adjacency:
    """Every edge of a batch in both directions, once, without self-loops, sorted by (source, target).

    `SPMotif` as released stores an edge one way only; shapes are counted on the undirected graph.
    """

    nodes: int
    source: Tensor  # [A]
    target: Tensor  # [A]
    edge: Tensor  # [A] row of the edge in the `edge_index` it came from; its own direction where there is one
    key: Tensor  # [A] source * N + target, ascending
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
        order, key = order[first], key[first]
        source, target = source[order], target[order]
        degree = torch.bincount(source, minlength=nodes)
        edge = number.repeat(2)[proper][order]
        return cls(nodes, source, target, edge, key, degree.cumsum(0) - degree, degree)

    def place(self, u: Tensor, v: Tensor) -> Tensor:
        """Row of the edge u -> v, or -1 where there is none (or a node is negative); shapes broadcast."""
        if not self.source.numel():
            return torch.full_like(u + v, -1)
        wanted = torch.where((u >= 0) & (v >= 0), u * self.nodes + v, -1)
        row = torch.searchsorted(self.key, wanted).clamp(max=self.key.numel() - 1)
        return torch.where(self.key[row] == wanted, row, -1)

    def neighbours(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """All neighbours of each of the nodes [M]: (which of the M, the neighbour), one row per neighbour."""
        return expand(self.start[node], self.degree[node], self.target)


def expand(start: Tensor, count: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The slices values[start[i] : start[i] + count[i]], joined: (i of each, value)."""
    row = torch.arange(count.numel(), device=count.device).repeat_interleave(count)
    shift = start - (count.cumsum(0) - count)
    return row, values[shift[row] + torch.arange(row.numel(), device=row.device)]


def number_rows(rows: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """Number the distinct rows of [M, k] in ascending order: (number of each row, first row of each)."""
    ids = rows[:, 0]
    for column in rows.T[1:]:  # column by column: a key of two numbers fits 64 bits, one of k may not
        ids = (ids * nodes + column).unique(return_inverse=True)[1]
    order = ids.sort(stable=True).indices
    ordered = ids[order]
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ids, order[first]


def ends(batch: Batch) -> Tensor:
    """The two ends [2, P] of every undirected edge, the smaller first."""
    out = batch.edge_index.new_zeros(2, batch.num_pairs)
    out[:, batch.pair] = batch.edge_index.sort(0).values
    return out
