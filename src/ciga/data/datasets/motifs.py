"""Motifs planted on base graphs: the shapes, and how many thousand are put together at once.

Nothing here loops over graphs. A shape (a house, a ladder of width 9) is a short list of edges, a graph is
two numbers (which base, which motif), and all graphs are gathered from the shapes by index arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from ciga.data.datasets.mechanism import Ints
from ciga.graphs.store import GraphStore


@dataclass(frozen=True)
class Shape:
    """A small graph: its number of nodes and each of its edges once, [2, E] with u < v."""

    nodes: int
    edges: Ints


Parameters = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Base:
    """A family of base graphs: how to make one, and the parameters of its small and its large members."""

    make: Callable[..., Shape]
    small: Parameters
    large: Parameters
    within: Callable[[int, int], Parameters]  # the parameters of the members with low … high nodes


def _shape(nodes: int, edges: Sequence[tuple[int, int]]) -> Shape:
    ends = np.asarray(edges, dtype=np.int64).reshape(-1, 2).T
    return Shape(nodes, np.sort(ends, axis=0))


def ring(nodes: int) -> Shape:
    """A cycle."""
    return _shape(nodes, [(i, (i + 1) % nodes) for i in range(nodes)])


def path(nodes: int) -> Shape:
    """A line."""
    return _shape(nodes, [(i, i + 1) for i in range(nodes - 1)])


def tree(branching: int, height: int) -> Shape:
    """A balanced tree, numbered level by level."""
    nodes = sum(branching**level for level in range(height + 1))
    return _shape(nodes, [((i - 1) // branching, i) for i in range(1, nodes)])


def ladder(width: int) -> Shape:
    """Two lines of `width` nodes, joined by rungs."""
    rails = [(i + side, i + side + 1) for side in (0, width) for i in range(width - 1)]
    return _shape(2 * width, rails + [(i, i + width) for i in range(width)])


def wheel(nodes: int) -> Shape:
    """A hub (node 0) joined to every node of a cycle."""
    rim = [(1 + i, 1 + (i + 1) % (nodes - 1)) for i in range(nodes - 1)]
    return _shape(nodes, [(0, i) for i in range(1, nodes)] + rim)


def _widths(first: int, last: int) -> Parameters:
    return tuple((w,) for w in range(first, last + 1))


def _trees_within(low: int, high: int) -> Parameters:
    every = ((r, h) for r in (2, 3) for h in range(high.bit_length()))
    return tuple((r, h) for r, h in every if low <= (r ** (h + 1) - 1) // (r - 1) <= high)


def _lines_within(least: int) -> Callable[[int, int], Parameters]:
    return lambda low, high: _widths(max(low, least), high)


#: Node 0 of a motif is the one joined to the base: the tip of the house's roof, a node of the crane with two
#: edges. Numbers and edges are the released data's: where edges are stored once, they decide which way
#: messages flow.
MOTIFS: dict[str, Shape] = {
    "cycle": ring(5),
    "house": _shape(5, [(0, 1), (0, 4), (1, 2), (1, 4), (2, 3), (3, 4)]),
    "crane": _shape(5, [(0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4)]),
    "hexagon": ring(6),
    "star": _shape(5, [(0, 1), (0, 2), (0, 3), (0, 4)]),
    "clique": _shape(5, [(i, j) for i in range(5) for j in range(i)]),
}

BASES: dict[str, Base] = {
    "tree": Base(tree, ((2, 3), (3, 3)), tuple((r, h) for r in (2, 3) for h in (3, 4, 5)), _trees_within),
    "ladder": Base(
        ladder, _widths(8, 11), _widths(30, 49), lambda low, high: _widths(max(-(-low // 2), 2), high // 2)
    ),
    "wheel": Base(wheel, _widths(15, 19), _widths(60, 79), _lines_within(4)),
    "path": Base(path, _widths(15, 19), _widths(60, 79), _lines_within(2)),
    "ring": Base(ring, _widths(15, 19), _widths(60, 79), _lines_within(3)),
}

#: The released data has trees this short under every motif but the cycle, in training only.
SHORT_TREES = tuple((r, h) for r in (2, 3) for h in (0, 1, 2))


def shapes(base: str, parameters: Sequence[tuple[int, ...]]) -> list[Shape]:
    """The members of a family with these parameters, from the smallest to the largest."""
    return sorted((_member(base, p) for p in parameters), key=lambda s: s.nodes)


@cache
def _member(base: str, parameter: tuple[int, ...]) -> Shape:
    """Kept: a dataset looks at all its bases whenever its options are checked."""
    return BASES[base].make(*parameter)


@dataclass(frozen=True)
class Planted:
    """Graphs with one motif each, packed: the arguments of `GraphStore`, as arrays."""

    edge_index: Ints  # [2, E]
    edge_truth: NDArray[np.bool_]  # [E] True on the motif's own edges
    node_ptr: Ints  # [G + 1]
    edge_ptr: Ints  # [G + 1]

    def store(self, x: NDArray[np.float32], y: Ints, columns: dict[str, Ints]) -> GraphStore:
        """The graphs with node features [N, F], labels and further columns [G]."""
        return GraphStore(
            torch.from_numpy(x),
            torch.from_numpy(self.edge_index.astype(np.int32)),
            torch.from_numpy(self.node_ptr),
            torch.from_numpy(self.edge_ptr),
            torch.from_numpy(y),
            edge_truth=torch.from_numpy(self.edge_truth),
            columns={name: torch.from_numpy(values) for name, values in columns.items()},
        )


def plant(
    bases: Sequence[Shape],
    motifs: Sequence[Shape],
    base: Ints,
    motif: Ints,
    rng: np.random.Generator,
    *,
    extra: float,
    both_ways: bool,
) -> Planted:
    """Graph i is `bases[base[i]]` with `motifs[motif[i]]` joined to a random node of it.

    Each graph gets `int(extra * edges)` random edges, as far as it has room for them. One that falls between
    two nodes of the motif is dropped, as in the released data. Edges are stored in a random order, so that
    their order says nothing.

    Args:
        bases: The base graphs to choose from.
        motifs: The motifs to choose from; node 0 of a motif is joined to the base.
        base: Which base each graph has, [G].
        motif: Which motif each graph has, [G].
        rng: The source of randomness.
        extra: The number of random edges, as a share of a graph's edges.
        both_ways: Store each edge in both directions, instead of once with u < v.
    """
    graphs = base.size
    base_nodes = np.array([s.nodes for s in bases])[base]
    nodes = base_nodes + np.array([s.nodes for s in motifs])[motif]
    on_base, of_base = _gather(bases, base)
    on_motif, of_motif = _gather(motifs, motif)
    join = np.stack([(rng.random(graphs) * base_nodes).astype(np.int64), base_nodes])
    edges = np.concatenate([on_base, on_motif + base_nodes[of_motif], join], axis=1)
    owner = np.concatenate([of_base, of_motif, np.arange(graphs)])
    added, of_added = _random_edges(edges, owner, nodes, base_nodes, extra, rng)

    truth = np.zeros(owner.size + of_added.size, dtype=bool)
    truth[of_base.size : of_base.size + of_motif.size] = True
    edges, owner = np.concatenate([edges, added], axis=1), np.concatenate([owner, of_added])
    order = np.lexsort((rng.random(owner.size), owner))
    edges, owner, truth = edges[:, order], owner[order], truth[order]
    if both_ways:
        edges, owner, truth = (np.repeat(a, 2, axis=-1) for a in (edges, owner, truth))
        edges[:, 1::2] = edges[::-1, 1::2]
    return Planted(edges, truth, _pointer(nodes), _pointer(np.bincount(owner, minlength=graphs)))


def _gather(kinds: Sequence[Shape], which: Ints) -> tuple[Ints, Ints]:
    """The edges of the shapes `which` [G], one after the other: [2, E], and the graph of each edge [E]."""
    flat = np.concatenate([s.edges for s in kinds], axis=1)
    start = _pointer(np.array([s.edges.shape[1] for s in kinds]))
    count = np.diff(start)[which]
    owner = np.repeat(np.arange(which.size), count)
    first = np.repeat(start[which] - _pointer(count)[:-1], count)
    return flat[:, first + np.arange(owner.size)], owner


def _random_edges(
    edges: Ints, owner: Ints, nodes: Ints, base_nodes: Ints, extra: float, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """New edges [2, A] (u < v) and their graphs [A]: no loop, no duplicate, none inside a motif.

    Every open place draws a pair until it finds a free one, and stays empty if that lies inside the motif.
    """
    present = np.bincount(owner, minlength=nodes.size)
    motif_nodes = nodes - base_nodes
    inside = np.bincount(owner, weights=edges.min(0) >= base_nodes[owner], minlength=nodes.size).astype(
        np.int64
    )
    room = _pairs(nodes) - _pairs(motif_nodes) - (present - inside)
    wanted = np.minimum((extra * present).astype(np.int64), room)
    place = np.repeat(np.arange(nodes.size), wanted)
    stride = int(nodes.max(initial=1))

    def key(ends: Ints, graph: Ints) -> Ints:
        out: Ints = (graph * stride + ends[0]) * stride + ends[1]
        return out

    taken, found, where = np.sort(key(edges, owner)), [np.zeros((2, 0), dtype=np.int64)], [place[:0]]
    while place.size:
        ends = np.sort((rng.random((2, place.size)) * nodes[place]).astype(np.int64), axis=0)
        keys = key(ends, place)
        free = (ends[0] < ends[1]) & ~_within(keys, taken)
        first = np.zeros(place.size, dtype=bool)
        first[np.unique(keys, return_index=True)[1]] = True
        free &= first
        new = free & (ends[0] < base_nodes[place])
        found.append(ends[:, new])
        where.append(place[new])
        taken = np.sort(np.concatenate([taken, keys[new]]))
        place = place[~free]
    return np.concatenate(found, axis=1), np.concatenate(where)


def _within(keys: Ints, taken: Ints) -> NDArray[np.bool_]:
    """Which of `keys` stand in the sorted, non-empty `taken`."""
    at = np.minimum(np.searchsorted(taken, keys), taken.size - 1)
    found: NDArray[np.bool_] = taken[at] == keys
    return found


def _pairs(count: Ints) -> Ints:
    return count * (count - 1) // 2


def _pointer(counts: Ints) -> Ints:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
