"""What must hold for the parts of a store, or its batches would silently be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ciga.errors import CigaError

if TYPE_CHECKING:
    from ciga.graphs.store import GraphStore


def check_store(store: GraphStore) -> None:
    """Refuse what would silently give wrong batches."""
    graphs = store.num_graphs
    if store.edge_ptr.numel() != graphs + 1 or store.y.numel() != graphs:
        by_edges, labels = store.edge_ptr.numel() - 1, store.y.numel()
        raise CigaError(f"{graphs} graphs by their nodes, but {by_edges} by their edges and {labels} labels.")
    if int(store.node_ptr[-1]) != store.x.size(0) or int(store.edge_ptr[-1]) != store.edge_index.size(1):
        raise CigaError("The pointers do not end where the nodes and edges do.")
    if any(int(p[0]) != 0 or bool((p.diff() < 0).any()) for p in (store.node_ptr, store.edge_ptr)):
        raise CigaError("The pointers must begin at 0 and never decrease.")
    check_lengths(store)
    if store.edge_index.numel():
        limit = store.num_nodes.repeat_interleave(store.num_edges)
        bad = ((store.edge_index < 0) | (store.edge_index >= limit)).any(0)
        if bool(bad.any()):
            edge = int(bad.nonzero()[0])
            row = int(torch.searchsorted(store.edge_ptr, edge, right=True)) - 1
            u, v = store.edge_index[:, edge].tolist()
            raise CigaError(f"Graph {row} has an edge {u}-{v} but only {int(store.num_nodes[row])} nodes.")


def check_lengths(store: GraphStore) -> None:
    """Refuse a part or a column with too few or too many rows."""
    graphs, edges = store.num_graphs, store.edge_index.size(1)
    per_graph = {"y": store.y, "env": store.env, **{f"column '{k}'": c for k, c in store.columns.items()}}
    per_edge = {"edge_attr": store.edge_attr, "edge_truth": store.edge_truth}
    for what, rows, parts in (("graphs", graphs, per_graph), ("edges", edges, per_edge)):
        for name, part in parts.items():
            if part is not None and len(part) != rows:
                raise CigaError(f"There are {rows} {what}, but {len(part)} rows of {name}.")
