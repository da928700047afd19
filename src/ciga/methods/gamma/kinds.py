"""Kinds of subgraphs: shape and node labels, up to isomorphism; and which share of a graph each kind is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.batch import Batch
from ciga.graphs.names import mix, name_rows
from ciga.graphs.topology import number_rows
from ciga.methods.gamma.densities import Subgraphs
from ciga.methods.gamma.shapes import Shapes


def name_shapes(tables: Shapes) -> Tensor:
    """Names [count] of the shapes: the kinds of subgraphs without labels."""
    return mix(torch.arange(1, tables.count + 1))


def name_kinds(found: Subgraphs, label: Tensor | None, tables: Shapes) -> Tensor:
    """Names [S] of the subgraphs: equal if an isomorphism maps one on the other, labels included.

    Nodes stand in an order that shows the shape's own form, of which an automorphism gives another one: the
    name is made from all of them, so that it depends on none.

    Args:
        label: 64-bit name of each node's label [N]; None: all alike.
    """
    device = found.shape.device
    shape_name = name_shapes(tables).to(device)
    if label is None:
        return shape_name[found.shape]
    number = label.unique(return_inverse=True)[1]
    rows = torch.where(found.nodes >= 0, number[found.nodes] + 1, 0)
    rows = torch.cat([found.shape.unsqueeze(1), rows], 1)
    kind, example = number_rows(rows, number.numel() + tables.count + 1)
    nodes, shape = found.nodes[example], found.shape[example]
    labels = torch.where(nodes >= 0, label[nodes], 0)
    count, start = tables.symmetries.to(device)[shape], tables.symmetry_start.to(device)[shape]
    row = torch.arange(shape.numel(), device=device).repeat_interleave(count)
    which = torch.arange(row.numel(), device=device) - (count.cumsum(0) - count)[row]
    order = tables.symmetry.to(device)[start[row] + which]
    forms = name_rows(labels[row].gather(1, order))
    return mix(torch.zeros_like(shape).index_add_(0, row, mix(forms)) + shape_name[shape])[kind]


@dataclass
class Densities:
    """A sparse table: entry i says which share of graph `graph[i]` is subgraphs called `kind[i]`."""

    graph: Tensor  # [M] ascending
    kind: Tensor  # [M] 64-bit names, each once per graph
    share: Tensor  # [M]
    graphs: int
    members: Tensor  # [M, k] nodes of one such subgraph, counted from the graph's first; -1 beyond its size

    @classmethod
    def of(cls, found: Subgraphs, names: Tensor, batch: Batch) -> Densities:
        """Subgraphs of one name in one graph joined."""
        known, number = names.unique(return_inverse=True)
        kinds = max(known.numel(), 1)
        cell, place = (found.graph * kinds + number).unique(return_inverse=True)
        share = found.density.new_zeros(cell.numel()).index_add(0, place, found.density)
        graph = cell // kinds
        nodes = found.nodes[first_of(place, cell.numel())]
        members = torch.where(nodes >= 0, nodes - first_nodes(batch)[graph].unsqueeze(1), -1)
        return cls(graph, known[cell % kinds], share, batch.num_graphs, members)

    def nodes(self, batch: Batch) -> Tensor:
        """The members [M, k] as rows of the batch's nodes."""
        shift = first_nodes(batch)[self.graph].unsqueeze(1)
        return torch.where(self.members >= 0, self.members + shift, -1)


def first_nodes(batch: Batch) -> Tensor:
    """The first node of each graph [G]."""
    count = torch.bincount(batch.batch, minlength=batch.num_graphs)
    return count.cumsum(0) - count


def first_of(number: Tensor, count: int) -> Tensor:
    """For each of the `count` numbers, the first place [count] at which it stands."""
    rows = torch.arange(number.numel(), device=number.device)
    empty = rows.new_full((count,), number.numel())
    return empty.scatter_reduce(0, number, rows, "amin")


def in_rows(found: list[Densities]) -> tuple[Tensor, Tensor, Tensor]:
    """Kinds and shares [n, M] and members [n, M, k] of each graph, from tables of graphs one after the other.

    A graph with fewer entries ends in zeros, and has -1 for members.
    """
    tables: tuple[list[Tensor], ...] = ([], [], [])
    for part in found:
        count = torch.bincount(part.graph, minlength=part.graphs)
        place = torch.arange(part.graph.numel()) - (count.cumsum(0) - count)[part.graph]
        size = (count.numel(), int(count.max()))
        for rows, value, gap in zip(tables, (part.kind, part.share, part.members), (0, 0, -1), strict=True):
            empty = value.new_full((*size, *value.shape[1:]), gap)
            rows.append(empty.index_put((part.graph, place), value))
    width = max(rows.size(1) for rows in tables[0])
    kinds, shares = (
        torch.cat([torch.nn.functional.pad(r, (0, width - r.size(1))) for r in rows]) for rows in tables[:2]
    )
    members = [torch.nn.functional.pad(r, (0, 0, 0, width - r.size(1)), value=-1) for r in tables[2]]
    return kinds, shares, torch.cat(members)


def from_rows(kinds: Tensor, shares: Tensor, members: Tensor) -> Densities:
    """The way back: rows of graphs as a table."""
    graph, place = (shares > 0).nonzero(as_tuple=True)
    table = (kinds[graph, place], shares[graph, place], kinds.size(0), members[graph, place])
    return Densities(graph, *table)
