"""PyG's `Data` to packed tensors, with errors that name the graph, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ciga.errors import CigaError
from ciga.graphs.numbers import real_numbers, whole_numbers

if TYPE_CHECKING:
    from ciga.graphs.store import GraphStore


def pack(graphs: Iterable[Any], y: Sequence[int] | Tensor | None) -> dict[str, Any]:
    """The arguments of `GraphStore` for these graphs; `nodes` and `edges` are counts per graph."""
    graphs = list(graphs)
    if not graphs:
        raise CigaError("There are no graphs: the list is empty.")
    nodes, edges = [], []
    for row, graph in enumerate(graphs):
        if graph.num_nodes is None:
            raise CigaError(f"Graph {row} has neither node features nor num_nodes: set one of them.")
        nodes.append(int(graph.num_nodes))
        edges.append(_edges(graph, row).size(1))
    truth = _stack(graphs, "edge_truth", edges) if any(_has(g, "edge_truth") for g in graphs) else None
    return {
        "x": _stack(graphs, "x", nodes, required=any(_has(g, "x") for g in graphs)),
        "edge_index": torch.cat([_edges(g, row) for row, g in enumerate(graphs)], dim=1),
        "nodes": torch.tensor(nodes),
        "edges": torch.tensor(edges),
        "y": _labels(y) if y is not None else _per_graph(graphs, "y"),
        "edge_attr": _stack(graphs, "edge_attr", edges)
        if any(_has(g, "edge_attr") for g in graphs)
        else None,
        "env": _per_graph(graphs, "env"),
        "edge_truth": None if truth is None else truth.flatten().bool(),
    }


def unpack(store: GraphStore) -> list[Any]:
    """A list of PyG `Data`, one per graph."""
    from torch_geometric.data import Data

    out = []
    for row in range(store.num_graphs):
        n = slice(int(store.node_ptr[row]), int(store.node_ptr[row + 1]))
        e = slice(int(store.edge_ptr[row]), int(store.edge_ptr[row + 1]))
        graph = Data(
            x=store.x[n].clone(), edge_index=store.edge_index[:, e].long(), y=store.y[row : row + 1].clone()
        )
        if store.edge_attr is not None:
            graph.edge_attr = store.edge_attr[e].clone()
        if store.env is not None:
            graph.env = store.env[row : row + 1].clone()
        if store.edge_truth is not None:
            graph.edge_truth = store.edge_truth[e].clone()
        out.append(graph)
    return out


def _has(graph: Any, key: str) -> bool:
    return key in graph and graph[key] is not None


def _edges(graph: Any, row: int) -> Tensor:
    if graph.edge_index is None:
        return torch.zeros(2, 0, dtype=torch.long)
    ends = torch.as_tensor(graph.edge_index).detach()
    if ends.dim() != 2 or ends.size(0) != 2 or ends.is_floating_point():
        raise CigaError(
            f"Graph {row} has a {list(ends.shape)} {ends.dtype} edge_index: it must be [2, E] whole numbers."
        )
    return whole_numbers(ends, f"Graph {row}: edge_index")


def _labels(y: Sequence[int] | Tensor) -> Tensor:
    try:
        labels = torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise CigaError("Labels must be whole numbers: some of these are not.") from None
    return whole_numbers(labels, "The list of labels")


def _stack(graphs: Sequence[Any], key: str, counts: Sequence[int], required: bool = True) -> Tensor:
    """One [sum(counts), F] tensor of a node or edge attribute; F = 0 where no graph has it."""
    rows: list[Tensor] = []
    width: int | None = None
    for i, (graph, count) in enumerate(zip(graphs, counts, strict=True)):
        if not _has(graph, key):
            if count and required:
                raise CigaError(f"Graph {i} has no {key} but others do: give all graphs {key} or none.")
            value = torch.zeros(count, 0)
            if not count:
                continue
        else:
            value = real_numbers(torch.as_tensor(graph[key]).detach(), f"Graph {i}: {key}")
            value = value.unsqueeze(1) if value.dim() == 1 else value
            if value.size(0) != count:
                raise CigaError(f"Graph {i} has {value.size(0)} rows of {key} for {count}.")
            if not bool(value.isfinite().all()):
                raise CigaError(
                    f"Graph {i} has NaN, infinite or too large values in {key}: clean or scale them first."
                )
            if not count:
                width = value.size(1) if width is None else width
                continue
        if width is not None and value.size(1) != width and rows:
            raise CigaError(f"Graph {i} has {value.size(1)} columns of {key}, the first has {width}.")
        width = value.size(1)
        rows.append(value)
    return torch.cat(rows) if rows else torch.zeros(0, width or 0)


def _per_graph(graphs: Sequence[Any], key: str) -> Tensor | None:
    """A whole-number attribute of each graph, [G]; None if no graph has it."""
    if not any(_has(g, key) for g in graphs):
        return None
    out = []
    for i, graph in enumerate(graphs):
        value = torch.as_tensor(graph[key]).detach().flatten() if _has(graph, key) else torch.zeros(0)
        if value.numel() != 1:
            raise CigaError(f"Graph {i} needs one whole number as {key}.")
        out.append(int(whole_numbers(value, f"Graph {i}: {key}")[0]))
    return torch.tensor(out)
