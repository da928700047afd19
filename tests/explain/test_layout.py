"""Layouts: no chance in them, near nodes near, components apart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from ciga.explain.layout import CAREFUL, stress_layout
from tests.helpers import random_graph, undirected


def test_the_same_graph_looks_the_same() -> None:
    graph = random_graph(40, 70, 0)
    one, two = (stress_layout(graph.edge_index, 40) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert np.isfinite(one).all()


def test_a_path_is_a_line_and_a_ring_is_round() -> None:
    path = stress_layout(undirected([(i, i + 1) for i in range(9)]), 10)
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    np.testing.assert_allclose(steps, 1, atol=0.05)
    assert np.linalg.norm(path[0] - path[-1]) > 8.5
    ring = stress_layout(undirected([(i, (i + 1) % 12) for i in range(12)]), 12)
    radius = np.linalg.norm(ring - ring.mean(0), axis=1)
    assert radius.std() < 0.05 * radius.mean()


def test_no_two_nodes_coincide() -> None:
    star = stress_layout(undirected([(0, i) for i in range(1, 12)]), 12)
    gaps = np.linalg.norm(star[:, None] - star[None], axis=-1) + 9 * np.eye(12)
    assert gaps.min() > 0.2


def test_components_stand_side_by_side() -> None:
    edges = undirected([(0, 1), (1, 2), (3, 4)])
    place = stress_layout(edges, 6)  # node 5 stands alone
    parts = [place[[0, 1, 2]], place[[3, 4]], place[[5]]]
    for left, right in pairwise(parts):
        assert left[:, 0].max() < right[:, 0].min()


def test_graphs_without_edges_and_large_ones() -> None:
    none = torch.zeros(2, 0, dtype=torch.long)
    assert stress_layout(none, 1).shape == (1, 2)
    assert len({tuple(p) for p in stress_layout(none, 4).tolist()}) == 4
    graph = random_graph(450, 600, 1)
    assert np.isfinite(stress_layout(graph.edge_index, 450)).all()


def stress(edges: torch.Tensor, nodes: int, starts: int) -> float:
    """What the layout makes small, worked out node by node."""
    import networkx as nx

    at = stress_layout(edges, nodes, starts)
    far = dict(nx.all_pairs_shortest_path_length(nx.Graph(edges.t().tolist())))
    pairs = ((u, v, far[u][v]) for u in range(nodes) for v in range(u))
    return sum((float(np.linalg.norm(at[u] - at[v])) - d) ** 2 / d**3 for u, v, d in pairs)


def test_several_starts_have_less_stress_and_no_chance_in_them() -> None:
    """A ladder that a few further edges bend: from classical scaling alone a knot is left in it."""
    rails = [(i, i + 1) for i in range(19)] + [(20 + i, 21 + i) for i in range(19)]
    edges = undirected(rails + [(i, 20 + i) for i in range(20)] + [(0, 13), (25, 38), (3, 37)])
    assert stress(edges, 40, CAREFUL) < 0.98 * stress(edges, 40, 1)
    one, two = (stress_layout(edges, 40, CAREFUL) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_nodes_with_the_same_neighbours_stand_apart() -> None:
    """The crane of SPMotif: two nodes that both touch the same three."""
    crane = stress_layout(undirected([(a, b) for a in (0, 1) for b in (2, 3, 4)]), 5)
    assert np.linalg.norm(crane[0] - crane[1]) > 0.45
