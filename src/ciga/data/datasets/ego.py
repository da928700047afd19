"""Nodes as graphs: the k-hop neighbourhood of each node, labelled as the node.

The paper's discussion proposes it: what is invariant for a node is a subgraph of its ego-graph, so a method
for graph classification serves node classification.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from ciga import options
from ciga.data.cache import cached, file_hash
from ciga.data.dataset import Dataset, register
from ciga.data.reading import split_rules
from ciga.data.reading.arrays import read_npz
from ciga.data.reading.graph_files import load_pt
from ciga.errors import CigaError, UsageError
from ciga.files import map_tensors
from ciga.graphs.numbers import real_numbers, whole_numbers
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress, silent

Rows = NDArray[np.int64]
VERSION = 1
#: Neighbourhoods are gathered for this many nodes at a time, which bounds the memory.
CHUNK = 1024


@register("ego")
@dataclass
class EgoGraphs(Dataset):
    """k-hop ego-graphs of one large graph.

    The file holds `x` [N, F], `edge_index` [2, E], `y` [N] (negative: unlabelled) and, if wanted, `env` [N]:
    arrays of an `.npz`, tensors of a `.safetensors`, or a PyG `Data` in a `.pt`.
    """

    path: str = tunable("karate", help="file of the large graph; karate is Zachary's karate club")
    hops: int = tunable(2, low=1, high=10, help="radius of a neighbourhood")
    split: str = tunable("degree", choices=("degree", "size", "random"), help="what to cut along")
    descending: bool = tunable(False, help="train on the large degrees (or sizes) instead")
    fractions: tuple[float, ...] = tunable((0.6, 0.2, 0.2), help="shares of train, validation, test")
    mark_centre: bool = tunable(True, help="one more node feature: 1 at the node in question, else 0")
    most_nodes: int = tunable(
        1000, low=2, help="largest number of nodes of a neighbourhood; the nearest stay"
    )
    seed: int = tunable(0, low=0)

    summary: ClassVar[str] = "node classification: k-hop ego-graphs of one large graph"
    shift: ClassVar[str] = "degree"

    def missing_files(self) -> list[str]:
        return [] if self.path == "karate" or Path(self.path).is_file() else [self.path]

    def identity(self) -> dict[str, str]:
        path = Path(self.path).expanduser()
        return {path.name: file_hash(path)} if self.path != "karate" and path.is_file() else {}

    def build(self, progress: Progress = silent) -> Splits:
        path = Path(self.path).expanduser()
        builtin = self.path == "karate"
        if not builtin and not path.is_file():
            raise UsageError(
                f"There is no file {path}: give path=FILE (.npz, .safetensors or .pt) or path=karate."
            )
        key = {
            "version": VERSION,
            **{k: v for k, v in options.as_dict(self).items() if k != "path" or builtin},
        }
        return cached(self.name, key, [] if builtin else [path], lambda: self._split(path, progress))

    def _split(self, path: Path, progress: Progress) -> Splits:
        graph = karate() if self.path == "karate" else read_node_data(path)
        labelled = torch.nonzero(graph["y"] >= 0).flatten().numpy()
        if not len(labelled):
            raise CigaError(f"{path} has no labelled node: y must be 0 or more where the class is known.")
        store, cut = ego_graphs(graph, labelled, self.hops, self.most_nodes, self.mark_centre, progress)
        degree = store.columns["degree"]
        assert isinstance(degree, torch.Tensor)
        if self.split == "random":
            rows = split_rules.by_random(len(labelled), self.fractions, self.seed, store.y.numpy())
        else:
            values = degree if self.split == "degree" else store.num_nodes
            rows = split_rules.by_order(values.numpy(), self.fractions, self.descending)
        notes = {
            "overlap": "neighbourhoods of different splits share nodes and edges, as in any one graph",
            "cut": f"{cut} neighbourhoods had more than {self.most_nodes} nodes and were cut to the nearest",
        }
        parts = {part: store.subset(torch.from_numpy(index)) for part, index in rows.items()}
        return Splits(parts, Task(int(graph["y"].max()) + 1, self.metric), notes)


def karate() -> dict[str, torch.Tensor]:
    """Zachary's karate club: 34 members in four communities, each with an indicator of itself as features."""
    from torch_geometric.datasets import KarateClub

    data = KarateClub()[0]
    # An indicator of the node would give the answer away to a model that has seen it: all alike instead.
    return {"x": torch.ones(data.num_nodes, 1), "edge_index": data.edge_index, "y": data.y}


def read_node_data(path: Path) -> dict[str, torch.Tensor]:
    """`x`, `edge_index`, `y` and perhaps `env` of one large graph, checked."""
    if path.suffix == ".npz":
        found: dict[str, Any] = {name: torch.from_numpy(array) for name, array in read_npz(path).items()}
    elif path.suffix == ".safetensors":
        found = dict(map_tensors(path)[0])
    elif path.suffix == ".pt":
        value = load_pt(path)
        found = value if isinstance(value, dict) else value.to_dict() if hasattr(value, "to_dict") else {}
    else:
        raise UsageError(f"{path} is not the file of a large graph: give .npz, .safetensors or .pt.")
    found = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
    for name in ("edge_index", "y"):
        if name not in found:
            raise CigaError(
                f"{path} has no '{name}': it needs edge_index [2, E] and y [N], and x [N, F] if any."
            )
    edges = whole_numbers(found["edge_index"].detach(), f"{path}: edge_index")
    y = whole_numbers(found["y"].detach().flatten(), f"{path}: y")
    x = real_numbers(found["x"].detach(), f"{path}: x") if "x" in found else torch.ones(len(y), 1)
    if edges.dim() != 2 or edges.size(0) != 2 or x.dim() != 2 or x.size(0) != len(y):
        raise CigaError(
            f"{path}: edge_index is {tuple(edges.shape)}, x {tuple(x.shape)}, y {tuple(y.shape)}; "
            "they must be [2, E], [N, F] and [N]."
        )
    if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= len(y)):
        raise CigaError(
            f"{path} has an edge to node {int(edges.max())}, but only {len(y)} nodes (0 … {len(y) - 1})."
        )
    if not bool(x.isfinite().all()):
        bad = int((~x.isfinite().all(1)).nonzero()[0])
        raise CigaError(f"{path}: node {bad} has NaN or infinite features: clean or impute them first.")
    out = {"x": x, "edge_index": edges, "y": y}
    if "env" in found:
        out["env"] = whole_numbers(found["env"].detach().flatten(), f"{path}: env")
    return out


def ego_graphs(
    graph: dict[str, torch.Tensor],
    centres: Rows,
    hops: int,
    most_nodes: int,
    mark_centre: bool,
    progress: Progress = silent,
) -> tuple[GraphStore, int]:
    """The neighbourhoods of `centres` as a store, and how many of them were cut to `most_nodes`.

    Neighbours are followed against and along the edges; a neighbourhood has all edges between its nodes.
    Columns: `node`, and the centre's `degree` in the large graph. Where `motif` says which motif each node
    belongs to (negative: none), the edges within the centre's own are the true invariant subgraph.

    Args:
        graph: The large graph: `x`, `edge_index`, `y` and perhaps `env` and `motif`.
        centres: The nodes whose neighbourhoods are wanted.
        hops: Their radius.
        most_nodes: The largest number of nodes that is kept.
        mark_centre: Add a feature that is 1 at the centre.
        progress: Told how far it is.
    """
    from scipy.sparse import csr_matrix

    count = graph["x"].size(0)
    source, target = graph["edge_index"].numpy()
    off = source != target
    directed = csr_matrix((np.ones(off.sum(), bool), (source[off], target[off])), (count, count))
    both = (directed + directed.T).astype(bool).tocsr()
    pieces, cut = [], 0
    progress(0, len(centres), "ego-graphs")
    for start in range(0, len(centres), CHUNK):
        some = centres[start : start + CHUNK]
        ego, member, too_large = _members(both, some, hops, most_nodes)
        pieces.append((np.bincount(ego, minlength=len(some)), member, *_induced(directed, ego, member)))
        cut += too_large
        progress(start + len(some), len(centres), "ego-graphs")
    sizes, members, edge_counts, edges = (list(part) for part in zip(*pieces, strict=True))
    member = np.concatenate(members)
    x = graph["x"][torch.from_numpy(member)]
    node_ptr, edge_ptr = _pointer(np.concatenate(sizes)), _pointer(np.concatenate(edge_counts))
    edge_index = torch.from_numpy(np.concatenate(edges, axis=1))
    if mark_centre:
        mark = torch.zeros(len(member), 1)
        mark[node_ptr[:-1]] = 1  # `_members` puts the centre first
        x = torch.cat([x, mark], dim=1)
    rows = torch.from_numpy(centres)
    store = GraphStore(
        x,
        edge_index,
        node_ptr,
        edge_ptr,
        graph["y"][rows],
        env=graph["env"][rows] if "env" in graph else None,
        edge_truth=_within_centre(graph["motif"][torch.from_numpy(member)], edge_index, node_ptr, edge_ptr)
        if "motif" in graph
        else None,
        columns={
            "node": rows,
            "degree": torch.from_numpy(both.indptr[centres + 1] - both.indptr[centres]).long(),
        },
    )
    return store, cut


def _within_centre(
    motif: torch.Tensor, edge_index: torch.Tensor, node_ptr: torch.Tensor, edge_ptr: torch.Tensor
) -> torch.Tensor:
    """[E] True on edges with both ends in the motif [N] of their ego-graph's centre, its first node."""
    start = node_ptr[:-1].repeat_interleave(edge_ptr.diff())
    own = motif[start]
    ends = motif[edge_index + start]
    return (own >= 0) & (ends[0] == own) & (ends[1] == own)


def _members(both: Any, centres: Rows, hops: int, most: int) -> tuple[Rows, Rows, int]:
    """Who belongs where: (ego, node) sorted by ego, then distance, then node; and how many egos were cut."""
    count = both.shape[0]
    seen = np.arange(len(centres)) * count + centres
    front, distance = seen, [np.zeros(len(centres), np.int64)]
    levels = [seen]
    for hop in range(1, hops + 1):
        ego, node = np.divmod(front, count)
        near = np.unique(
            np.repeat(ego, np.diff(both.indptr)[node]) * count + both.indices[_ranges(both.indptr, node)]
        )
        front = np.setdiff1d(near, seen, assume_unique=True)
        seen = np.union1d(seen, front)
        levels.append(front)
        distance.append(np.full(len(front), hop))
    pair, far = np.concatenate(levels), np.concatenate(distance)
    ego, node = np.divmod(pair, count)
    order = np.lexsort((node, far, ego))
    ego, node = ego[order], node[order]
    size = np.bincount(ego, minlength=len(centres))
    place = np.arange(len(ego)) - np.repeat(np.cumsum(size) - size, size)
    return ego[place < most], node[place < most], int((size > most).sum())


def _induced(directed: Any, ego: Rows, member: Rows) -> tuple[Rows, Rows]:
    """Edges of each ego-graph: counts [egos] and endpoints [2, E], counted within each ego-graph."""
    count = directed.shape[0]
    egos = int(ego[-1]) + 1
    size = np.bincount(ego, minlength=egos)
    local = np.arange(len(ego)) - np.repeat(np.cumsum(size) - size, size)
    keys = ego * count + member
    by_key = np.argsort(keys)
    # Every edge out of a member; it stays if its other end is a member of the same ego-graph.
    degree = np.diff(directed.indptr)[member]
    left = np.repeat(np.arange(len(ego)), degree)
    wanted = ego[left] * count + directed.indices[_ranges(directed.indptr, member)]
    found = np.searchsorted(keys, wanted, sorter=by_key).clip(max=len(keys) - 1)
    right = by_key[found]
    inside = keys[right] == wanted
    left, right = left[inside], right[inside]
    return np.bincount(ego[left], minlength=egos), np.stack([local[left], local[right]])


def _ranges(indptr: Rows, rows: Rows) -> Rows:
    """Concatenation of indptr[r] … indptr[r + 1] over `rows`."""
    size = (indptr[rows + 1] - indptr[rows]).astype(np.int64)
    shift: Rows = np.repeat(indptr[rows] - (np.cumsum(size) - size), size)
    return shift + np.arange(len(shift))


def _pointer(counts: Rows) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))
