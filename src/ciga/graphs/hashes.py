"""Which graphs are the same: a 64-bit hash of every graph of a store, by array arithmetic only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # a store's splits look for equal graphs
    from ciga.graphs.store import GraphStore

Hashes = NDArray[np.uint64]


def exact_hashes(store: GraphStore) -> Hashes:
    """[G], equal for graphs with the same features and edges in the same order (labels do not count)."""
    node_place = _places(store.node_ptr.numpy())
    edge_place = _places(store.edge_ptr.numpy())
    nodes = _mix(_rows(store.x) + _mix(node_place))
    edges = _mix(_edge_rows(store) + _rows(store.edge_index.T) + _mix(edge_place))
    return _pool(store, nodes, edges)


def wl_hashes(store: GraphStore, rounds: int = 3) -> Hashes:
    """[G], equal for graphs that Weisfeiler-Lehman refinement cannot tell apart, in whatever node order."""
    owner = np.repeat(np.arange(store.num_graphs), store.num_edges.numpy())
    source, target = store.edge_index.numpy().astype(np.int64) + store.node_ptr.numpy()[owner]
    order = np.argsort(target, kind="stable")
    source, kind = source[order], _edge_rows(store)[order]
    pointer = np.searchsorted(target[order], np.arange(store.x.size(0) + 1))
    colour = _rows(store.x)
    for _ in range(rounds):
        # A sum does not depend on the order of the neighbours.
        colour = _mix(colour + _segment_sums(_mix(_mix(colour)[source] + kind), pointer))
    return _pool(store, _mix(colour), np.zeros(store.edge_index.size(1), np.uint64))


def _pool(store: GraphStore, nodes: Hashes, edges: Hashes) -> Hashes:
    size = _mix(store.num_nodes.numpy()) + _mix(_mix(store.num_edges.numpy()))
    total = _segment_sums(nodes, store.node_ptr.numpy()) + _segment_sums(edges, store.edge_ptr.numpy())
    out: Hashes = _mix(total + size)
    return out


def _edge_rows(store: GraphStore) -> Hashes:
    if store.edge_attr is None:
        return np.zeros(store.edge_index.size(1), np.uint64)
    return _rows(store.edge_attr)


def _rows(table: Any) -> Hashes:
    """A hash of each row of a tensor [N, F]."""
    out = np.zeros(table.shape[0], np.uint64)
    for column in range(table.shape[1]):
        # + 0.0 makes one zero of two
        values = (table[:, column].double().numpy() + 0.0).view(np.uint64)
        out += _mix(values ^ _mix(np.uint64(column)))
    return out


def _places(pointer: Any) -> Any:
    """The place of each element within its segment, from 0."""
    return np.arange(pointer[-1]) - np.repeat(pointer[:-1], np.diff(pointer))


def _segment_sums(values: Hashes, pointer: Any) -> Hashes:
    """Sums (mod 2^64) of values[pointer[i] : pointer[i + 1]]."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    out: Hashes = running[pointer[1:]] - running[pointer[:-1]]
    return out


def _mix(values: Any) -> Any:
    """Scatter 64-bit values (the finaliser of splitmix64); sums wrap around by intention."""
    with np.errstate(over="ignore"):
        z = np.asarray(values).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
