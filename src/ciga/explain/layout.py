"""Where to draw the nodes: stress majorisation, fast, and the same for the same graph every time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

ROUNDS = 60
#: Up to this many nodes, near pairs weigh more (as in Kamada and Kawai's energy); beyond, all weigh the same.
WEIGHTED = 400

Points = NDArray[np.float64]


def stress_layout(edge_index: Tensor, nodes: int) -> Points:
    """Positions [N, 2] whose distances are those along the edges, as nearly as a plane allows.

    De Leeuw's majorisation from classical scaling as a start, so there is no chance in it. The components
    of a graph are set side by side.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components, shortest_path

    u, v = edge_index.numpy().astype(np.int64)
    links = coo_matrix((np.ones(len(u)), (u, v)), shape=(nodes, nodes)).tocsr()
    _, part = connected_components(links, directed=False)
    place = np.zeros((nodes, 2))
    right = 0.0
    for label in np.argsort(-np.bincount(part), kind="stable"):
        members = np.flatnonzero(part == label)
        block = links[members][:, members]
        own = _majorise(shortest_path(block, directed=False, unweighted=True)) if len(members) > 1 else _dot()
        own -= own.min(0)
        own[:, 0] += right
        place[members] = own
        right = float(own[:, 0].max()) + 1.0
    return place


def _dot() -> Points:
    return np.zeros((1, 2))


def _majorise(distance: Points) -> Points:
    n = len(distance)
    x = _classical(distance)
    off = ~np.eye(n, dtype=bool)
    weight = np.zeros_like(distance)
    weight[off] = distance[off] ** -2 if n <= WEIGHTED else 1.0
    pull = weight * distance
    if n <= WEIGHTED:
        laplacian = np.diag(weight.sum(1)) - weight
        inverse = np.linalg.inv(laplacian + np.ones((n, n)) / n) - np.ones((n, n)) / n
    for _ in range(ROUNDS):
        apart = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
        np.fill_diagonal(apart, 1.0)
        b = -pull / np.maximum(apart, 1e-9)
        np.fill_diagonal(b, 0.0)
        np.fill_diagonal(b, -b.sum(1))
        x = inverse @ (b @ x) if n <= WEIGHTED else b @ x / n
    return _upright(x)


def _classical(distance: Points) -> Points:
    """Classical scaling; a little slant keeps nodes that coincide in it apart."""
    n = len(distance)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    x: Points = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 1e-6))
    turn = np.arange(n) * 2.399963  # the golden angle
    slant: Any = 0.05 * np.column_stack([np.cos(turn), np.sin(turn)])
    x += slant
    return x


def _upright(x: Points) -> Points:
    """Turned so that the longer side lies flat."""
    x = x - x.mean(0)
    _, _, axes = np.linalg.svd(x, full_matrices=False)
    turned: Points = x @ axes.T
    return turned
