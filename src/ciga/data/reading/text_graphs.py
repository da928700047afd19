"""Graphs as text files of numbers, one line an edge, a node or a graph: the layouts of TU and DIG."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ciga.errors import CigaError
from ciga.graphs.store import GraphStore

Array = np.ndarray[Any, np.dtype[Any]]


def read_numbers(path: Path, columns: int = 1, separator: str | None = ",") -> Array:
    """Whole numbers, [lines] or [lines, columns]; `separator=None` is any white space."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty file is an error below, not a warning
            table = np.loadtxt(path, dtype=np.int64, delimiter=separator, ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        row = re.search(r"at row (\d+)", str(error))
        # NumPy counts from 0 where a word is not a number, and from 1 where a line has another length.
        line = int(row[1]) + ("could not convert" in str(error)) if row else None
        where = f"line {line} " if line else ""
        raise CigaError(f"{path} {where}is not {columns} whole number(s): get the file again.") from error
    if not table.size:
        raise CigaError(f"{path} is empty: get the file again.")
    if table.shape[1] != columns:
        raise CigaError(f"{path} has {table.shape[1]} columns instead of {columns}: get the file again.")
    return table[:, 0] if columns == 1 else table


def store_of(edges: Array, graph: Array, x: torch.Tensor, y: Array, where: Path) -> GraphStore:
    """Pack text files' numbers: self-loops and repeated edges dropped, edges sorted, as PyG's readers do.

    `edges` [E, 2] and `graph` [N] (the graph of each node) count from 0 over all graphs; `x` [N, F]; `y` [G].

    Args:
        edges: The two ends of each edge, [E, 2].
        graph: The graph of each node, [N], ascending.
        x: Node features, [N, F].
        y: Labels, [G].
        where: The files, for errors.
    """
    nodes, graphs = len(graph), len(y)
    if (np.diff(graph) < 0).any() or graph[0] < 0 or graph[-1] >= graphs:
        raise CigaError(
            f"The node indicator in {where} does not count {graphs} graphs in order: get it again."
        )
    if x.size(0) != nodes:
        raise CigaError(
            f"The files in {where} disagree: {x.size(0)} nodes with features, {nodes} in the indicator."
        )
    outside = ((edges < 0) | (edges >= nodes)).any(1)
    if outside.any():
        line = int(outside.argmax())
        u, v = edges[line].tolist()
        raise CigaError(f"Edge {line + 1} in {where} joins nodes {u} and {v}, but there are {nodes} nodes.")
    across = graph[edges[:, 0]] != graph[edges[:, 1]]
    if across.any():
        line = int(across.argmax())
        a, b = graph[edges[line]].tolist()
        raise CigaError(f"Edge {line + 1} in {where} joins two graphs ({a} and {b}): get the files again.")
    edges = edges[edges[:, 0] != edges[:, 1]]
    source, target = np.divmod(np.unique(edges[:, 0] * nodes + edges[:, 1]), nodes)
    node_ptr = np.searchsorted(graph, np.arange(graphs + 1))
    owner = graph[source]
    return GraphStore(
        x,
        torch.from_numpy(np.stack([source, target]) - node_ptr[owner]),
        torch.from_numpy(node_ptr),
        torch.from_numpy(np.searchsorted(owner, np.arange(graphs + 1))),
        torch.from_numpy(y),
    )


def digest_of(arrays: Mapping[str, Array]) -> str:
    """A hash of arrays of whole numbers: what files hold, however their lines are spaced."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()


def whole(store: GraphStore) -> dict[str, str]:
    """Notes on all graphs of the files, which the paper's table describes, before some are left out."""
    stats = store.stats()
    return {
        "all.graphs": str(stats["graphs"]),
        "all.nodes_mean": f"{stats['nodes_mean']:.2f}",
        "all.edges_mean": f"{stats['edges_mean']:.2f}",
    }
