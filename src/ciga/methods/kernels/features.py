"""Explicit feature maps of two graph kernels: Weisfeiler-Lehman subtrees and graphlet counts.

Both look at the undirected graph, and at each graph alone: its features never depend on its batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.refinement import refine
from ciga.graphs.topology import Adjacency, expand

# ---------------------------------------------------------------- Weisfeiler-Lehman


@dataclass
class Counts:
    """A sparse table of counts: entry i says how often graph `graph[i]` holds label `label[i]`."""

    graph: Tensor  # [M] ascending
    label: Tensor  # [M] 64-bit names
    count: Tensor  # [M]


def wl_counts(names: Tensor, edge_index: Tensor, graph: Tensor, iterations: int) -> Counts:
    """How often each label of any iteration occurs in each graph; `graph` [N] owns the nodes.

    Args:
        names: The label of each node at first [N].
        edge_index: The edges [2, E].
        graph: The graph of each node [N].
        iterations: The number of refinements.
    """
    adjacency = Adjacency.of(edge_index, names.numel())
    labels = refine(names, adjacency, iterations).flatten()
    known, number = labels.unique(return_inverse=True)
    key, count = (graph.repeat(iterations + 1) * max(known.numel(), 1) + number).unique(return_counts=True)
    return Counts(key // max(known.numel(), 1), known[key % max(known.numel(), 1)], count.float())


# ---------------------------------------------------------------- graphlets

#: Names of the columns of `graphlet_counts`: connected shapes first, of three nodes, then of four.
GRAPHLETS = ("path3", "triangle", "star4", "path4", "paw", "cycle4", "diamond", "k4")
DISCONNECTED = ("edge+1", "empty3", "edge+2", "two edges", "path3+1", "triangle+1", "empty4")


def graphlet_counts(edge_index: Tensor, graph: Tensor, graphs: int) -> Tensor:
    """Exact numbers of induced subgraphs of 3 and 4 nodes by shape, [G, 15] in double precision.

    Columns are `GRAPHLETS` then `DISCONNECTED`. First copies that need not be induced are counted, from
    degrees, triangles and common neighbours; then what each holds of the denser shapes is taken off.
    """
    nodes = graph.numel()
    adjacency = Adjacency.of(edge_index, nodes)
    degree = adjacency.degree.double()

    def total(owner: Tensor, value: Tensor) -> Tensor:
        return torch.bincount(owner, value.double(), graphs)

    u, v = adjacency.source, adjacency.target
    # Paths a - u - b with a < b, and whether a and b are joined.
    left, b = expand(adjacency.start[u], adjacency.degree[u], v)
    centre, a = u[left], v[left]
    once = a < b
    centre, a, b = centre[once], a[once], b[once]
    closed = adjacency.place(a, b)
    is_closed = closed >= 0
    # Each triangle closes three paths; at the row a -> b of one path it stands once for its edge a-b.
    per_edge = torch.bincount(closed[is_closed], minlength=u.numel()).double()  # on rows u < v
    per_node = torch.bincount(centre[is_closed], minlength=nodes).double()
    ends, common = (a * nodes + b).unique(return_counts=True)
    up = u < v

    n = torch.bincount(graph, minlength=graphs).double()
    m = total(graph[u], torch.full_like(u, 1)) / 2
    paths = total(graph, _choose(degree, 2))
    triangles = total(graph, per_node) / 3
    stars = total(graph, _choose(degree, 3))
    long_paths = total(graph[u[up]], (degree[u[up]] - 1) * (degree[v[up]] - 1)) - 3 * triangles
    paws = total(graph, per_node * (degree - 2))
    cycles = total(graph[ends // max(nodes, 1)], _choose(common.double(), 2)) / 2
    diamonds = total(graph[u], _choose(per_edge, 2))
    k4 = _cliques(adjacency, torch.stack([a, b, centre])[:, is_closed & (centre > b)], graph, graphs)

    diamond = diamonds - 6 * k4
    cycle = cycles - diamond - 3 * k4
    paw = paws - 4 * diamond - 12 * k4
    star = stars - paw - 2 * diamond - 4 * k4
    path = long_paths - 4 * cycle - 2 * paw - 6 * diamond - 12 * k4
    wedge = paths - 3 * triangles
    triangle_1 = triangles * (n - 3).clamp(min=0) - paw - 2 * diamond - 4 * k4
    wedge_1 = paths * (n - 3).clamp(min=0) - 3 * triangle_1
    wedge_1 = wedge_1 - 3 * star - 2 * path - 4 * cycle - 5 * paw - 8 * diamond - 12 * k4
    matching = _choose(m, 2) - paths - path - 2 * cycle - paw - 2 * diamond - 3 * k4
    edge_2 = m * _choose((n - 2).clamp(min=0), 2) - 2 * matching - 2 * wedge_1 - 3 * triangle_1
    edge_2 = edge_2 - 3 * star - 3 * path - 4 * cycle - 4 * paw - 5 * diamond - 6 * k4
    edge_1 = m * (n - 2).clamp(min=0) - 2 * wedge - 3 * triangles
    four = [star, path, paw, cycle, diamond, k4]
    loose = [edge_2, matching, wedge_1, triangle_1]
    empty_3 = _choose(n, 3) - wedge - triangles - edge_1
    empty_4 = _choose(n, 4) - sum(four) - sum(loose)
    return torch.stack([wedge, triangles, *four, edge_1, empty_3, *loose, empty_4], 1)


def _choose(n: Tensor, k: int) -> Tensor:
    """Binomial coefficient, 0 where n < k."""
    out = torch.ones_like(n)
    for i in range(k):
        out = out * (n - i) / (i + 1)
    return torch.where(n >= k, out, 0.0)


def _cliques(adjacency: Adjacency, triangles: Tensor, graph: Tensor, graphs: int) -> Tensor:
    """Complete subgraphs of four nodes, [G]: triangles a < b < c [3, T] and a neighbour of c beyond it."""
    a, b, c = triangles
    which, d = adjacency.neighbours(c)
    beyond = d > c[which]
    which, d = which[beyond], d[beyond]
    whole = (adjacency.place(a[which], d) >= 0) & (adjacency.place(b[which], d) >= 0)
    return torch.bincount(graph[d[whole]], minlength=graphs).double()
