"""Files of graphs: our safetensors, JSON (`.json`, `.jsonl`), and PyG's `.pt`, read without running code.

A JSON graph is an object like this one; only `edges` (or PyG's `edge_index`) and one of `x` and `num_nodes`
are needed, and any further number or text is a column of the dataset:

    {"x": [[0.1], [0.2], [0.3]], "edges": [[0, 1], [1, 2]], "y": "active", "env": "lab 7", "year": 2019}

A `.json` file is a list of them; a `.jsonl` file has one a line. `edges` go both ways unless the object says
`"directed": true`; `edge_index` is taken as it is. A graph that cannot be used becomes a `Rejected` row.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ciga.data.reading.tables import Rejected
from ciga.errors import CigaError, UsageError
from ciga.graphs.store import GraphStore

SUFFIXES = (".safetensors", ".json", ".jsonl", ".json.gz", ".jsonl.gz", ".pt")
#: What belongs to a graph itself; everything else in it is a column.
PARTS = ("x", "edge_index", "edges", "edge_attr", "edge_truth", "num_nodes", "directed")


@dataclass
class GraphFile:
    """What a file holds: graphs without labels, and the other values of each (None where it has none)."""

    store: GraphStore
    values: dict[str, list[Any]]
    rows: list[int]
    rejected: list[Rejected] = field(default_factory=list)


class _BadGraphError(Exception):
    """`(reason, value)` of a graph that cannot be used."""


def is_graph_file(path: Path) -> bool:
    """Whether the name of a file says that it holds graphs."""
    return path.name.lower().endswith(SUFFIXES)


def read_graphs(path: Path, strict: bool = False) -> GraphFile:
    """All graphs of a file; `strict` stops at the first bad one."""
    if not path.is_file():
        raise UsageError(f"There is no file {path}.")
    if not is_graph_file(path):
        raise UsageError(f"{path} is no file of graphs: give one of {', '.join(SUFFIXES)}.")
    if not path.stat().st_size:
        raise CigaError(f"{path} is empty.")
    found = _from_store(path) if path.suffix == ".safetensors" else _from_objects(path, _objects(path))
    if strict and found.rejected:
        raise CigaError(f"{found.rejected[0]}. Mend it, or leave strict off to set such graphs aside.")
    if not found.rows:
        raise CigaError(f"{path} has no usable graph. The first: {found.rejected[0]}.")
    return found


# ---------------------------------------------------------------- our own stores


def _from_store(path: Path) -> GraphFile:
    store = GraphStore.open(path, verify=True)
    owner = torch.arange(store.num_graphs).repeat_interleave(store.num_nodes)
    numbers_bad = torch.zeros(store.num_graphs, dtype=torch.bool)
    numbers_bad[owner[~store.x.isfinite().all(1)]] = True
    if store.edge_attr is not None:
        edge_owner = torch.arange(store.num_graphs).repeat_interleave(store.num_edges)
        numbers_bad[edge_owner[~store.edge_attr.isfinite().all(1)]] = True
    empty = store.num_nodes == 0
    reasons = {"NaN or infinite feature": numbers_bad & ~empty, "no nodes": empty}
    rejected = [
        Rejected(int(row) + 1, reason, file=str(path))
        for reason, mask in reasons.items()
        for row in mask.nonzero().flatten()
    ]
    good = (~(numbers_bad | empty)).nonzero().flatten()
    kept = store.subset(good)
    values: dict[str, list[Any]] = {
        name: column.tolist() if isinstance(column, torch.Tensor) else list(column)
        for name, column in kept.columns.items()
    }
    values["y"] = [None if label < 0 else label for label in kept.y.tolist()]
    if kept.env is not None:
        values["env"] = kept.env.tolist()
    kept.columns, kept.env = {}, None
    return GraphFile(kept, values, (good + 1).tolist(), sorted(rejected, key=lambda r: r.row))


# ---------------------------------------------------------------- one object a graph


def read_graph_chunks(
    path: Path, size: int = 1024, widths: tuple[int, int] | None = None
) -> Iterator[GraphFile]:
    """The graphs of a file, `size` at a time: a .jsonl file larger than memory can be read.

    `widths` are the numbers of node and edge features a graph must have (-1: none at all).
    """
    if path.suffix == ".safetensors":
        yield read_graphs(path)
        return
    objects = _objects(path)
    while some := list(islice(objects, size)):
        yield _from_objects(path, some, widths)


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    return _objects_pt(path) if path.suffix == ".pt" else _objects_json(path)


def _from_objects(
    path: Path, objects: Iterable[tuple[int, Any]], widths: tuple[int, int] | None = None
) -> GraphFile:
    from torch_geometric.data import Data

    graphs: list[Any] = []
    rows, others, rejected = [], [], []
    for row, value in objects:
        try:
            graph = Data(**_tensors(value))
            shape = (_width(graph, "x"), _width(graph, "edge_attr"))
            if widths is not None and shape != widths:
                raise _BadGraphError("wrong number of features", f"{shape} of x and edge_attr, not {widths}")
        except _BadGraphError as error:
            reason, blame = error.args
            rejected.append(Rejected(row, reason, str(blame), file=str(path)))
            continue
        widths = shape
        graphs.append(graph)
        rows.append(row)
        others.append({k: _plain(v) for k, v in value.items() if k not in PARTS})
    names = list(dict.fromkeys(name for other in others for name in other))
    values = {name: [other.get(name) for other in others] for name in names}
    store = GraphStore.from_pyg(graphs) if graphs else _nothing()
    return GraphFile(store, values, rows, rejected)


def _nothing() -> GraphStore:
    zero = torch.zeros(1, dtype=torch.long)
    return GraphStore(torch.zeros(0, 0), torch.zeros(2, 0, dtype=torch.int32), zero, zero)


def _width(graph: Any, key: str) -> int:
    return graph[key].size(1) if key in graph else -1


def _tensors(value: Any) -> dict[str, Any]:
    """The tensors of one graph, checked."""
    if not isinstance(value, dict):
        raise _BadGraphError("unreadable graph", str(value)[:60])
    out: dict[str, Any] = {}
    if value.get("x") is not None:
        out["x"] = _matrix(value["x"], "x")
        nodes = out["x"].size(0)
    elif isinstance(value.get("num_nodes"), int):
        nodes = out["num_nodes"] = value["num_nodes"]
    else:
        raise _BadGraphError("no nodes", "neither x nor num_nodes")
    if nodes < 1:
        raise _BadGraphError("no nodes", "")
    edges = _edges(value)
    outside = ((edges < 0) | (edges >= nodes)).any(0)
    if bool(outside.any()):
        u, v = edges[:, int(outside.nonzero()[0])].tolist()
        raise _BadGraphError("edge to a node that does not exist", f"{u}-{v} with {nodes} nodes")
    for key in ("edge_attr", "edge_truth"):
        if value.get(key) is not None:
            part = _matrix(value[key], key)
            if part.size(0) != edges.size(1):
                raise _BadGraphError(f"{key} does not fit", f"{part.size(0)} rows for {edges.size(1)} edges")
            out[key] = part
    if "edges" in value and not value.get("directed"):
        one_way = ~torch.isin(edges[1] * nodes + edges[0], edges[0] * nodes + edges[1])
        edges = torch.cat([edges, edges[:, one_way].flip(0)], dim=1)
        out |= {
            key: torch.cat([out[key], out[key][one_way]]) for key in ("edge_attr", "edge_truth") if key in out
        }
    return {**out, "edge_index": edges}


def _matrix(value: Any, what: str) -> torch.Tensor:
    try:
        array = (
            value.double().numpy() if isinstance(value, torch.Tensor) else np.array(value, dtype=np.float64)
        )
    except (TypeError, ValueError):
        raise _BadGraphError(f"{what} is no table of numbers", str(value)[:60]) from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise _BadGraphError(f"{what} is no table of numbers", f"shape {array.shape}")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).any(1).argmax())
        raise _BadGraphError("NaN or infinite feature", f"in {what}, row {bad}")
    return torch.from_numpy(array).float()


def _edges(value: dict[str, Any]) -> torch.Tensor:
    """[2, E], from `edges` (pairs) or `edge_index` (two rows)."""
    pairs, rows = value.get("edges"), value.get("edge_index")
    raw = pairs if pairs is not None else rows if rows is not None else []
    try:
        array = np.array(raw.tolist() if isinstance(raw, torch.Tensor) else raw, dtype=np.float64)
        if not array.size:
            return torch.zeros(2, 0, dtype=torch.long)
        array = array.T if pairs is not None else array
        if array.ndim != 2 or len(array) != 2 or (array != np.floor(array)).any():
            raise ValueError
    except (TypeError, ValueError):
        raise _BadGraphError("edges are no pairs of node numbers", str(raw)[:60]) from None
    return torch.from_numpy(array).long()


def _plain(value: Any) -> Any:
    """A number or a text; None for what is neither."""
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 else None
    if isinstance(value, float):
        value = None if value != value else int(value) if value.is_integer() else value
    return value if isinstance(value, (bool, int, float, str)) and value != "" else None


# ---------------------------------------------------------------- readers


def _objects_json(path: Path) -> Iterator[tuple[int, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    lines = ".jsonl" in path.suffixes
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            if lines:
                for row, line in enumerate(file, 1):
                    if line.strip():
                        yield row, _loads(line)
                return
            whole = json.load(file)
    except (ValueError, EOFError, OSError) as error:
        raise CigaError(f"{path} is no JSON, or cut short ({error}): write it again.") from error
    graphs = whole.get("graphs") if isinstance(whole, dict) else whole
    if not isinstance(graphs, list) or not graphs:
        raise CigaError(f"{path} should be a list of graphs (or an object with such a list as 'graphs').")
    yield from enumerate(graphs, 1)


def _loads(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        return f"no JSON: {error}"


def _objects_pt(path: Path) -> Iterator[tuple[int, Any]]:
    """A list of `Data`, or a dataset as PyG collates it: `(data, slices)` or `(dict, slices, class)`."""
    from torch_geometric.data import Data
    from torch_geometric.data.separate import separate

    value = load_pt(path)
    if isinstance(value, Data):
        value = [value]
    if isinstance(value, tuple) and len(value) in (2, 3) and isinstance(value[1], dict):
        data = Data.from_dict(value[0]) if isinstance(value[0], dict) else value[0]
        slices = value[1]
        count = next(len(bounds) for bounds in slices.values()) - 1
        value = [separate(Data, data, i, slices, decrement=False) for i in range(count)]
    if not isinstance(value, (list, tuple)) or not all(isinstance(graph, Data) for graph in value):
        raise CigaError(f"{path} holds neither a list of PyG Data nor a collated PyG dataset.")
    for row, graph in enumerate(value, 1):
        yield row, {**graph.to_dict(), "num_nodes": graph.num_nodes}


def load_pt(path: Path) -> Any:
    """What a `.pt` file holds, if that is made of tensors, plain values and PyG's `Data` only."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    allowed = [Data, DataEdgeAttr, DataTensorAttr, BaseStorage, EdgeStorage, GlobalStorage, NodeStorage]
    try:
        with torch.serialization.safe_globals(allowed):
            return torch.load(path, weights_only=True, map_location="cpu")  # noqa: TID251 - tensors and Data only
    except Exception as error:
        raise CigaError(
            f"{path} is damaged, or holds more than tensors and PyG Data, and loading that could run code: "
            "save the graphs with GraphStore.from_pyg(graphs).save('graphs.safetensors')."
        ) from error
