"""The hierarchical 1-2-3-GNN (Morris et al., 2019), in its local form over connected sets.

Level 1 passes messages between nodes. Levels 2 and 3 do so between the connected sets of two and three
nodes, each starting from the embeddings of the sets one smaller inside it and from its own shape. What a
level finds is averaged back onto the nodes of each set, so that the encoder still gives node embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ciga.errors import CigaError
from ciga.graphs.topology import Adjacency, number_rows
from ciga.nn.conv import Edges
from ciga.nn.norm import PartNorm

#: Paths of three nodes in one graph (a star of 200 leaves has them). Memory grows with their number.
LIMIT = 20_000
SET_LAYERS = 2


class GraphConv(nn.Module):
    """k-GNN layer: W_1 f(s) + W_2 sum of f(t) over the neighbours t of s."""

    def __init__(self, inputs: int, outputs: int, edge_inputs: int) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs)
        self.others = nn.Linear(inputs, outputs, bias=False)
        self.edge = nn.Linear(edge_inputs, inputs) if edge_inputs else None

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        messages = x.index_select(0, edges.index[0])
        if self.edge is not None:
            messages = messages + self.edge(edges.attr)
        return self.own(x) + self.others(edges.add(edges.weigh(messages)))


@dataclass
class Sets:
    """Connected k-sets of a batch: members, what they are made of, and who is next to whom."""

    members: Tensor  # [S, k] nodes, ascending; rows ascending by first member
    inside: Tensor  # [S, k] the (k-1)-sets inside; -1 where that set is not connected
    closed: Tensor  # [S, 1] 1 for a triangle
    weight: Tensor | None  # [S, 1] mean weight of its edges: a set is as present as its edges are
    next_to: Tensor  # [2, M] (from, to) sets that share all but one node, the two others adjacent


class SetLevels(nn.Module):
    """Node embeddings [N, d] of level 1 -> node embeddings [N, d] that have seen levels 2 and 3."""

    def __init__(self, width: int, parts: int = 1) -> None:
        super().__init__()
        self.enter = nn.ModuleList(nn.Linear(width + 1, width) for _ in (2, 3))
        self.convs = nn.ModuleList(GraphConv(width, width, 0) for _ in range(2 * SET_LAYERS))
        self.norms = nn.ModuleList(PartNorm(width, parts) for _ in range(2 * SET_LAYERS))
        self.join = nn.Linear(3 * width, width)

    def forward(self, h: Tensor, edges: Edges, graph: Tensor) -> Tensor:
        below, found = h.relu(), [h.relu()]
        for i, sets in enumerate(connected_sets(edges, graph)):
            inner = below[sets.inside.clamp(min=0)] * (sets.inside >= 0).unsqueeze(2)
            f = self.enter[i](torch.cat([inner.sum(1), sets.closed], 1)).relu()
            border = None if edges.border is None else int((sets.members[:, 0] < edges.border).sum())
            links = Edges(sets.next_to, None, None, f.size(0), border)
            for layer in range(i * SET_LAYERS, (i + 1) * SET_LAYERS):
                f = f if sets.weight is None else f * sets.weight
                f = self.norms[layer](self.convs[layer](f, links), border).relu()
            f = f if sets.weight is None else f * sets.weight
            found.append(_onto_nodes(f, sets.members, h.size(0)))
            below = f
        return self.join(torch.cat(found, 1))


def _onto_nodes(f: Tensor, members: Tensor, nodes: int) -> Tensor:
    """Mean over the sets that hold each node, [N, d]; zeros for a node in none."""
    total, count = f.new_zeros(nodes, f.size(1)), f.new_zeros(nodes, 1)
    for column in members.T:
        total = total.index_add(0, column, f)
        count = count.index_add(0, column, f.new_ones(f.size(0), 1))
    return total / count.clamp(min=1)


def connected_sets(edges: Edges, graph: Tensor) -> tuple[Sets, Sets]:
    """Connected 2-sets (edges) and 3-sets (paths and triangles) of a batch; `graph` [N] owns the nodes."""
    adjacency = Adjacency.of(edges.index, edges.nodes)
    _refuse_large(adjacency, graph)
    up = adjacency.source < adjacency.target
    pairs = torch.stack([adjacency.source[up], adjacency.target[up]], 1)
    number = torch.full_like(adjacency.source, -1)
    number[up] = torch.arange(pairs.size(0), device=pairs.device)
    number[adjacency.place(pairs[:, 1], pairs[:, 0])] = number[up]  # [A] 2-set of each directed edge
    weight = None if edges.weight is None else edges.weight[adjacency.edge[up]].unsqueeze(1)
    none = pairs.new_zeros(pairs.size(0), 1, dtype=torch.float)
    two = Sets(pairs, pairs, none, weight, _neighbours(pairs, adjacency))
    triples, inside = _triples(pairs, adjacency, number)
    present = (inside >= 0).unsqueeze(2)
    if weight is not None:
        weight = (weight[inside.clamp(min=0)] * present).sum(1) / present.sum(1)
    return two, Sets(triples, inside, present.all(1).float(), weight, _neighbours(triples, adjacency))


def _triples(pairs: Tensor, adjacency: Adjacency, number: Tensor) -> tuple[Tensor, Tensor]:
    """The connected 3-sets [S, 3], ascending, and their three 2-sets [S, 3] (-1 where not joined)."""
    cell, third = adjacency.neighbours(pairs.flatten())
    grown = torch.cat([pairs[cell // 2], third.unsqueeze(1)], 1)
    grown = grown[(grown[:, 2] != grown[:, 0]) & (grown[:, 2] != grown[:, 1])].sort(1).values
    triples = grown[number_rows(grown, adjacency.nodes)[1]]
    a, b, c = triples.T
    places = torch.stack([adjacency.place(u, v) for u, v in ((a, b), (a, c), (b, c))], 1)
    inside = torch.where(places >= 0, number[places.clamp(min=0)], -1)
    return triples, inside


def _neighbours(sets: Tensor, adjacency: Adjacency) -> Tensor:
    """Local neighbourhood [2, M]: t = s - v + w with v and w adjacent, where t is one of the sets."""
    size = sets.size(1)
    cell, w = adjacency.neighbours(sets.flatten())
    row, column = cell // size, cell % size
    outside = (sets[row] != w.unsqueeze(1)).all(1)
    row, column, w = row[outside], column[outside], w[outside]
    swapped = sets[row].scatter(1, column.unsqueeze(1), w.unsqueeze(1)).sort(1).values
    ids, _ = number_rows(torch.cat([sets, swapped]), adjacency.nodes)
    # `sets` are distinct, so each id belongs to one set, or to none of them.
    owner = ids.new_full((int(ids.max()) + 1 if ids.numel() else 0,), -1)
    owner[ids[: sets.size(0)]] = torch.arange(sets.size(0), device=sets.device)
    there = owner[ids[sets.size(0) :]]
    return torch.stack([there, row])[:, there >= 0]


def _refuse_large(adjacency: Adjacency, graph: Tensor) -> None:
    degree = adjacency.degree
    if not degree.numel():
        return
    paths = torch.bincount(graph, weights=(degree * (degree - 1) // 2).double())
    if float(paths.max()) > LIMIT:
        worst = int(paths.argmax())
        size = int((graph == worst).sum())
        raise CigaError(
            f"conv=k123 takes graphs of at most {LIMIT:,} paths of three nodes, and one of {size:,} "
            f"nodes has {int(paths[worst]):,}: use another conv, or leave the largest graphs out."
        )
