"""Where to draw the nodes: stress majorisation, fast, and the same for the same graph every time.

From one start it may end in a knot: a house whose roof is turned over, a ring that crosses itself. A picture
that is looked at for long is worth several starts, and has the layout with the least stress.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

ROUNDS = 60
#: Starts of a picture that is looked at for long.
CAREFUL = 12
#: Up to this many nodes, near pairs weigh more (as in Kamada and Kawai's energy, and a little more so, that
#: small parts keep their shape beside large ones); beyond, all weigh the same.
WEIGHTED = 400
POWER = 3.0
#: How far apart nodes are pushed that stand too close; an edge is about 1 long. Without it, nodes with
#: the same neighbours fall into one.
GAP = 0.5

Points = NDArray[np.float64]


def stress_layout(edge_index: Tensor, nodes: int, starts: int = 1) -> Points:
    """Positions [N, 2] whose distances are those along the edges, as nearly as a plane allows.

    De Leeuw's majorisation from classical scaling as a first start, and from fixed points as further ones, so
    there is no chance in it. The components of a graph are set side by side.
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
        far = shortest_path(block, directed=False, unweighted=True)
        own = _majorise(far, starts) if len(members) > 1 else _dot()
        own -= own.min(0)
        own[:, 0] += right
        place[members] = own
        right = float(own[:, 0].max()) + 1.0
    return place


def _dot() -> Points:
    return np.zeros((1, 2))


def _majorise(distance: Points, starts: int) -> Points:
    n = len(distance)
    off = ~np.eye(n, dtype=bool)
    weight = np.zeros_like(distance)
    weight[off] = distance[off] ** -POWER if n <= WEIGHTED else 1.0
    pull = weight * distance
    inverse = np.zeros((0, 0))
    if n <= WEIGHTED:
        laplacian = np.diag(weight.sum(1)) - weight
        inverse = np.linalg.inv(laplacian + np.ones((n, n)) / n) - np.ones((n, n)) / n

    def settled(x: Points) -> tuple[float, Points]:
        for _ in range(ROUNDS):
            apart = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
            np.fill_diagonal(apart, 1.0)
            b = -pull / np.maximum(apart, 1e-9)
            np.fill_diagonal(b, 0.0)
            np.fill_diagonal(b, -b.sum(1))
            x = inverse @ (b @ x) if n <= WEIGHTED else b @ x / n
        apart = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
        return float((weight * (apart - distance) ** 2).sum()), x

    scale = distance.max() / 3
    drawn = (np.random.default_rng(seed).normal(size=(n, 2)) * scale for seed in range(1, starts))
    best = min(map(settled, (_classical(distance), *drawn)), key=lambda found: found[0])[1]
    return _upright(_spread(best) if n <= WEIGHTED else best)


def _spread(x: Points) -> Points:
    """Nodes that stand too close, pushed apart."""
    for _ in range(ROUNDS):
        way = x[:, None] - x[None]
        apart = np.maximum(np.sqrt((way**2).sum(-1)), 1e-9)
        short = np.maximum(GAP - apart, 0.0)
        np.fill_diagonal(short, 0.0)
        x = x + 0.25 * (way * (short / apart)[..., None]).sum(1)
    return x


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
