"""Files of graphs: our safetensors, JSON (`.json`, `.jsonl`), and PyG's `.pt`, read without running code.

A JSON graph is an object like this one; only `edges` (or PyG's `edge_index`) and one of `x` and `num_nodes`
are needed, and any further number or text is a column of the dataset:

    {"x": [[0.1], [0.2], [0.3]], "edges": [[0, 1], [1, 2]], "y": "active", "env": "lab 7", "year": 2019}

A `.json` file is a list of them; a `.jsonl` file has one a line. `edges` go both ways unless the object says
`"directed": true`; `edge_index` is taken as it is. A graph that cannot be used becomes a `Rejected` row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ciga.data.reading import limits
from ciga.data.reading.json_graphs import json_objects
from ciga.data.reading.tables import Rejected
from ciga.errors import CigaError, UsageError
from ciga.graphs.numbers import no_complex, whole_numbers
from ciga.graphs.store import GraphStore

SUFFIXES = (".safetensors", ".json", ".jsonl", ".json.gz", ".jsonl.gz", ".pt")
BAD_FEATURE = "NaN, infinite or too large feature"
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


class _Graph(dict[str, Any]):
    """What packing asks of PyG's `Data`, without the seconds that importing PyG takes."""

    @property
    def num_nodes(self) -> int:
        return self["x"].size(0) if "x" in self else int(self["num_nodes"])

    @property
    def edge_index(self) -> torch.Tensor:
        ends: torch.Tensor = self["edge_index"]
        return ends


def is_graph_file(path: Path) -> bool:
    """Whether the name of a file says that it holds graphs."""
    return path.name.lower().endswith(SUFFIXES)


def read_graphs(path: Path, strict: bool = False) -> GraphFile:
    """All graphs of a file; `strict` stops at the first bad one."""
    if not path.is_file():
        raise UsageError(f"There is no file {path}.")
    if not is_graph_file(path):
        raise UsageError(f"{path} is not a graph file: give one of {', '.join(SUFFIXES)}.")
    if not path.stat().st_size:
        raise CigaError(f"{path} is empty.")
    found = _from_store(path) if path.suffix == ".safetensors" else _from_objects(path, _objects(path))
    if strict and found.rejected:
        raise CigaError(f"{found.rejected[0]}. Mend it, or leave strict off to set such graphs aside.")
    if not found.rows:
        first = f" The first: {found.rejected[0]}." if found.rejected else ""
        raise CigaError(f"{path} has no usable graph.{first}")
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
    reasons = {BAD_FEATURE: numbers_bad & ~empty, "no nodes": empty}
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


# ---------------------------------------------------------------- one object per graph


def read_graph_chunks(
    path: Path, size: int = 1024, widths: tuple[int, int] | None = None
) -> Iterator[GraphFile]:
    """The graphs of a file, `size` at a time: a .jsonl file larger than memory can be read.

    `widths` are the numbers of node and edge features that each graph must have (-1: none at all).
    """
    if path.suffix == ".safetensors":
        yield read_graphs(path)
        return
    objects = _objects(path)
    while some := list(islice(objects, size)):
        yield _from_objects(path, some, widths)


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    return _objects_pt(path) if path.suffix == ".pt" else json_objects(path)


def _from_objects(
    path: Path, objects: Iterable[tuple[int, Any]], widths: tuple[int, int] | None = None
) -> GraphFile:
    graphs: list[_Graph] = []
    rows, others, rejected, taken = [], [], [], 0
    room = limits.budget(path) // limits.NODE  # for nodes that the file only counts
    for row, value in objects:
        try:
            graph = _Graph(_tensors(value, room))
            shape = (_width(graph, "x"), _width(graph, "edge_attr"))
            if widths is not None and shape != widths:
                raise _BadGraphError("wrong number of features", f"{shape} of x and edge_attr, not {widths}")
        except _BadGraphError as error:
            reason, blame = error.args
            rejected.append(Rejected(row, reason, str(blame), file=str(path)))
            continue
        widths = shape
        room -= graph.num_nodes if "x" not in graph else 0
        graphs.append(graph)
        rows.append(row)
        others.append({k: _plain(v) for k, v in value.items() if k not in PARTS})
        taken += limits.GRAPH + sum(part.nbytes for part in graph.values() if isinstance(part, torch.Tensor))
        limits.check(path, taken, limits.KEPT)
    names = list(dict.fromkeys(name for other in others for name in other))
    limits.check(path, taken + 8 * len(names) * len(others), limits.KEPT)
    values = {name: [other.get(name) for other in others] for name in names}
    store = GraphStore.from_pyg(graphs) if graphs else _nothing()
    return GraphFile(store, values, rows, rejected)


def _nothing() -> GraphStore:
    zero = torch.zeros(1, dtype=torch.long)
    return GraphStore(torch.zeros(0, 0), torch.zeros(2, 0, dtype=torch.int32), zero, zero)


def _width(graph: _Graph, key: str) -> int:
    return graph[key].size(1) if key in graph else -1


def _tensors(value: Any, room: int) -> dict[str, Any]:
    """The tensors of one graph, checked; it may have `room` nodes without features."""
    if not isinstance(value, dict):
        raise _BadGraphError("unreadable graph", _shown(value))
    out: dict[str, Any] = {}
    if value.get("x") is not None:
        out["x"] = _matrix(value["x"], "x")
        nodes = out["x"].size(0)
    elif type(value.get("num_nodes")) is int:
        nodes = out["num_nodes"] = value["num_nodes"]
        if nodes > room:
            raise _BadGraphError("too many nodes", f"num_nodes={nodes}"[:60])
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
    """[n, F] numbers that are finite as the 32-bit floats they become."""
    try:
        if isinstance(value, torch.Tensor):
            table = no_complex(value.detach(), what).to_dense().float()
        else:
            table = torch.from_numpy(np.array(value, dtype=np.float64)).float()
    except (TypeError, ValueError, RuntimeError, OverflowError, RecursionError):
        raise _BadGraphError(f"{what} is not a table of numbers", _shown(value)) from None
    except CigaError as error:
        raise _BadGraphError(f"{what} is not a table of numbers", str(error)) from None
    if table.dim() == 1:
        table = table[:, None]
    if table.dim() != 2:
        raise _BadGraphError(f"{what} is not a table of numbers", f"shape {tuple(table.shape)}")
    bad = (~table.isfinite()).any(1)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        raise _BadGraphError(BAD_FEATURE, f"in {what}, row {row}")
    return table


def _shown(value: Any) -> str:
    """The beginning of a value, for a message; a nested list may be too deep to be written out."""
    try:
        return str(value)[:60]
    except RecursionError:
        return "a deeply nested list"


def _edges(value: dict[str, Any]) -> torch.Tensor:
    """[2, E], from `edges` (pairs) or `edge_index` (two rows)."""
    pairs, rows = value.get("edges"), value.get("edge_index")
    raw = pairs if pairs is not None else rows if rows is not None else []
    try:
        if isinstance(raw, torch.Tensor):
            ends = raw.detach().to_dense()
        else:
            ends = torch.from_numpy(np.array(raw, dtype=np.float64))  # no number is too large for a float
        if not ends.numel():
            return torch.zeros(2, 0, dtype=torch.long)
        ends = ends.t() if pairs is not None else ends
        if ends.dim() != 2 or ends.size(0) != 2:
            raise ValueError
        return whole_numbers(ends, "edges")
    except (TypeError, ValueError, RuntimeError, OverflowError, RecursionError):
        raise _BadGraphError("edges are not pairs of node numbers", _shown(raw)) from None
    except CigaError as error:
        raise _BadGraphError("edges are not pairs of node numbers", str(error)) from None


def _plain(value: Any) -> Any:
    """A number or a text; None for what is neither."""
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 and not value.is_complex() else None
    if isinstance(value, float):
        value = None if value != value else int(value) if value.is_integer() else value
    return value if isinstance(value, (bool, int, float, str)) and value != "" else None


# ---------------------------------------------------------------- readers


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
        try:
            count = next(len(bounds) for bounds in slices.values()) - 1
            value = [separate(Data, data, i, slices, decrement=False) for i in range(count)]
        except Exception as error:  # whatever PyG makes of slices that do not fit their data
            raise CigaError(
                f"{path} is damaged: its slices do not fit its graphs. Save the dataset again."
            ) from error
    if not isinstance(value, (list, tuple)) or not all(isinstance(graph, Data) for graph in value):
        raise CigaError(f"{path} holds neither a list of PyG Data nor a collated PyG dataset.")
    if not value:
        raise CigaError(f"{path} holds an empty list: save at least one graph.")
    needed = 0  # a few bytes may stand for a large tensor, and one tensor for many graphs
    for row, graph in enumerate(value, 1):
        plain = _plain_data(graph)
        parts = [part for part in (plain or {}).values() if isinstance(part, torch.Tensor)]
        needed += sum(part.numel() * part.element_size() for part in parts)
        limits.check(path, needed)
        yield row, plain


def _plain_data(graph: Any) -> Any:
    """The values of a PyG graph and its number of nodes; None where PyG cannot tell them."""
    try:
        values = graph.to_dict()
        return {**values, "num_nodes": values.get("num_nodes", graph.num_nodes)}
    except Exception:  # forged attributes of any kind
        return None


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
