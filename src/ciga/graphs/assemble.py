"""Batches out of packed graphs, by index arithmetic: one gather, cut into views."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ciga.graphs.arithmetic import ranges, repeated, starts
from ciga.graphs.batch import Batch

if TYPE_CHECKING:
    from ciga.graphs.store import GraphStore


def assemble(store: GraphStore, rows: Tensor, size: int) -> list[Batch]:
    """The graphs at `rows` in batches of `size`; nodes and undirected edges are counted within each."""
    graphs = rows.numel()
    cuts = [*range(0, graphs, max(size, 1)), graphs] if graphs else [0, 0]
    nodes, edges = store.num_nodes[rows], store.num_edges[rows]
    pairs = store.pair_ptr[rows + 1] - store.pair_ptr[rows]
    place = torch.arange(graphs) % max(size, 1)  # of a graph in its batch
    first = torch.arange(graphs) - place  # the first graph of its batch

    def within(counts: Tensor) -> Tensor:
        start = starts(counts)
        return start - start[first]

    node_rows, edge_rows = ranges(store.node_ptr[rows], nodes), ranges(store.edge_ptr[rows], edges)
    bounds = torch.tensor(cuts)
    by_graph = bounds.diff().tolist()
    by_node, by_edge, by_pair = (
        starts(c, closed=True)[bounds].diff().tolist() for c in (nodes, edges, pairs)
    )

    def split(values: Tensor | None, sizes: list[int], dim: int = 0) -> Iterable[Any]:
        return repeat(None) if values is None else values.split(sizes, dim)

    def taken(values: Tensor | None, which: Tensor) -> Tensor | None:
        return None if values is None else values.index_select(0, which)

    # Row by row: one gather along the second axis takes four times as long.
    ends, shift = torch.empty(2, edge_rows.numel(), dtype=torch.long), repeated(within(nodes), edges)
    for row, out in zip(store.edge_index, ends, strict=True):
        torch.add(row.index_select(0, edge_rows), shift, out=out)
    pair = store.pair.index_select(0, edge_rows) + repeated(within(pairs), edges)
    parts = zip(
        split(store.x.index_select(0, node_rows), by_node),
        split(ends, by_edge, 1),
        split(taken(store.edge_attr, edge_rows), by_edge),
        split(repeated(place, nodes), by_node),
        split(repeated(place, edges), by_edge),
        split(pair, by_edge),
        split(repeated(place, pairs), by_pair),
        split(store.y[rows], by_graph),
        split(taken(store.env, rows), by_graph),
        split(taken(store.edge_truth, edge_rows), by_edge),
        split(rows, by_graph),
        by_graph,
        split(taken(store.walks, node_rows), by_node),
        strict=False,
    )
    return [Batch(*fields) for fields in parts]
