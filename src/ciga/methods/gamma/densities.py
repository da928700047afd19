"""Connected induced subgraphs of k nodes: all of them, or a weighted sample.

The density of a shape in a graph is its share among the graph's connected induced k-node subgraphs. A
component of fewer than k nodes counts as one subgraph of its own size, so no graph is left without any.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.topology import Adjacency, number_rows
from ciga.methods.gamma.shapes import Shapes, pairs_of


@dataclass
class Subgraphs:
    """S subgraphs, each with the part it has in its graph's densities."""

    nodes: Tensor  # [S, k] members in the canonical order of their shape, -1 beyond the size
    graph: Tensor  # [S]
    shape: Tensor  # [S] which connected graph it is
    density: Tensor  # [S] weights; those of one graph sum to 1


def subgraphs(
    adjacency: Adjacency, graph: Tensor, graphs: int, tables: Shapes, exact: int, uniform: Tensor
) -> Subgraphs:
    """Every connected subgraph of the graphs that have at most `exact` of them, a sample of the others'.

    Args:
        adjacency: the neighbours of each node.
        graph: owner of each node, [N], ascending.
        graphs: the number of graphs.
        tables: of the shapes of up to k nodes.
        exact: a graph with more subgraphs than this is sampled.
        uniform: random numbers in [0, 1), [m, k] (the same for every graph) or [G, m, k]: m draws per graph.
    """
    sets, large = enumerate_sets(adjacency, graph, graphs, tables.k, exact)
    owner = graph[sets[:, 0]]
    shape, order, _ = classify(sets, adjacency, tables)
    weight = 1.0 / torch.bincount(owner, minlength=graphs).clamp(min=1)[owner].float()
    if bool(large.any()):
        rows = large.nonzero().flatten()
        drawn, log_chance = draw_sets(adjacency, graph, rows, graphs, tables.k, uniform)
        drawn_shape, drawn_order, growths = classify(drawn, adjacency, tables)
        # Drawn with the chance of one order of its nodes; `growths` orders lead to the same set.
        logit = -log_chance - growths.log()
        shares = logit.view(rows.numel(), -1).softmax(1).flatten().float()
        sets, order = torch.cat([sets, drawn]), torch.cat([order, drawn_order])
        owner = torch.cat([owner, graph[drawn[:, 0]]])
        shape, weight = torch.cat([shape, drawn_shape]), torch.cat([weight, shares])
    return Subgraphs(sets.gather(1, order), owner, shape, weight)


def classify(sets: Tensor, adjacency: Adjacency, tables: Shapes) -> tuple[Tensor, Tensor, Tensor]:
    """Shape [S], canonical order [S, k] and growth orders [S] of each set [S, k]."""
    first, second = pairs_of(tables.k).to(sets.device)
    joined = adjacency.place(sets[:, first], sets[:, second]) >= 0
    bits = torch.arange(first.numel(), device=sets.device)
    row = tables.offset.to(sets.device)[(sets >= 0).sum(1)] + (joined.long() << bits).sum(1)
    table = (tables.shape, tables.canonical, tables.growths.double())
    shape, order, growths = (t.to(sets.device)[row] for t in table)
    return shape, order, growths


def enumerate_sets(
    adjacency: Adjacency, graph: Tensor, graphs: int, k: int, limit: int
) -> tuple[Tensor, Tensor]:
    """All connected k-sets [S, k] (-1 pads smaller components), and which graphs [G] have more than `limit`
    connected sets of some size up to k.

    The sets of a graph that is too large are left out. Sets grow by one neighbour at a time.

    Args:
        adjacency: The neighbours of each node.
        graph: The graph of each node [N].
        graphs: The number of graphs.
        k: The size of a set.
        limit: A graph with more sets than this is left out.
    """
    nodes = adjacency.nodes
    sets = torch.arange(nodes, device=graph.device).unsqueeze(1)
    large = torch.zeros(graphs, dtype=torch.bool, device=graph.device)
    whole: list[Tensor] = []  # components smaller than k
    for size in range(2, k + 1):
        # A set of `size` nodes is reached at most size^2 times, and at most size^2 neighbours lie inside.
        effort = adjacency.degree[sets].sum(1)
        large |= torch.bincount(graph[sets[:, 0]], effort, graphs) > 2 * limit * size**2
        sets = sets[~large[graph[sets[:, 0]]]]
        cell, neighbour = adjacency.neighbours(sets.flatten())
        row = cell // (size - 1)
        outside = (sets[row] != neighbour.unsqueeze(1)).all(1)
        row, neighbour = row[outside], neighbour[outside]
        grows = torch.zeros(sets.size(0), dtype=torch.bool, device=sets.device)
        grows[row] = True
        whole.append(_padded(sets[~grows], k))
        grown = torch.cat([sets[row], neighbour.unsqueeze(1)], 1).sort(1).values
        sets = grown[number_rows(grown, nodes)[1]]
        large |= torch.bincount(graph[sets[:, 0]], minlength=graphs) > limit
        sets = sets[~large[graph[sets[:, 0]]]]
    sets = torch.cat([*whole, sets])
    return sets[~large[graph[sets[:, 0]]]], large


def draw_sets(
    adjacency: Adjacency, graph: Tensor, rows: Tensor, graphs: int, k: int, uniform: Tensor
) -> tuple[Tensor, Tensor]:
    """m connected sets [R * m, k] of each graph in `rows` [R], and the log-chance [R * m] of each draw.

    Start at a uniform node; k - 1 times follow a uniform edge that leaves the set.

    Args:
        adjacency: The neighbours of each node.
        graph: The graph of each node [N].
        rows: The graphs to draw from [R].
        graphs: The number of all graphs.
        k: The size of a set.
        uniform: Random numbers in [0, 1), [m, k] or for each graph [G, m, k].
    """
    uniform = uniform[rows] if uniform.dim() == 3 else uniform.expand(rows.numel(), -1, -1)
    u = uniform.reshape(-1, k).double()
    count = torch.bincount(graph, minlength=graphs)
    owner = rows.repeat_interleave(uniform.size(1))
    first, size = (count.cumsum(0) - count)[owner], count[owner]
    start = first + torch.minimum((u[:, 0] * size).long(), size - 1)
    sets = torch.full((start.numel(), k), -1, device=graph.device)
    sets[:, 0] = start
    log_chance = -size.double().log()
    for j in range(1, k):
        members = sets[:, :j]
        inside = adjacency.place(members.unsqueeze(2), members.unsqueeze(1))  # [M, j, j] rows of the edges
        degree = torch.where(members >= 0, adjacency.degree[members.clamp(min=0)], 0)
        leaving = degree - (inside >= 0).sum(2)
        total = leaving.sum(1)
        pick = torch.minimum((u[:, j] * total).long(), (total - 1).clamp(min=0))
        ends = leaving.cumsum(1)
        member = (pick.unsqueeze(1) >= ends).sum(1).clamp(max=j - 1, min=0)
        at = member.unsqueeze(1)
        slot = pick - (ends - leaving).gather(1, at).squeeze(1)
        # The slot counts leaving edges only: step over the neighbours that are in the set already.
        origin = members.gather(1, at).squeeze(1).clamp(min=0)
        taken = inside.gather(1, at.unsqueeze(2).expand(-1, 1, j)).squeeze(1)
        taken = torch.where(
            taken >= 0, taken - adjacency.start[origin].unsqueeze(1), torch.iinfo(taken.dtype).max
        )
        for column in taken.sort(1).values.T:
            slot = slot + (slot >= column)
        stuck = total == 0
        where = torch.where(stuck, 0, adjacency.start[origin] + slot)
        new = adjacency.target[where] if adjacency.target.numel() else torch.zeros_like(where)
        touching = (adjacency.place(members, new.unsqueeze(1)) >= 0).sum(1)
        step = touching.clamp(min=1).double().log() - total.clamp(min=1).double().log()
        log_chance = log_chance + torch.where(stuck, 0.0, step)
        sets[:, j] = torch.where(stuck, -1, new)
    return sets, log_chance


def _padded(sets: Tensor, k: int) -> Tensor:
    return torch.nn.functional.pad(sets, (0, k - sets.size(1)), value=-1)
