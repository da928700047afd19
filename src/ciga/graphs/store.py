"""Many graphs as a few flat tensors, and batches of them by index arithmetic.

A list of Python graph objects costs a Python loop for every batch. Here a dataset is a handful of
contiguous tensors with two pointer arrays; a batch is a gather, and nothing loops over graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ciga.errors import CigaError
from ciga.files import content_hash, map_tensors, write_tensors
from ciga.graphs import columns
from ciga.graphs.arithmetic import number_pairs, ranges, starts
from ciga.graphs.assemble import assemble
from ciga.graphs.batch import Batch as Batch
from ciga.graphs.checks import check_lengths, check_store
from ciga.graphs.columns import Column
from ciga.graphs.numbers import no_complex, whole_numbers
from ciga.graphs.pack import pack, unpack

FORMAT = "ciga.graphstore/1"
#: A file up to this size has its checksum verified when opened; a larger one on request only.
VERIFY_BELOW = 256 * 2**20


class GraphStore:
    """A fixed collection of graphs, packed.

    Args:
        x: node features of all graphs, [N, F]; F may be 0.
        edge_index: endpoints of all edges, [2, E], counted from 0 *within each graph*.
        node_ptr: where each graph's nodes begin, [G + 1].
        edge_ptr: where each graph's edges begin, [G + 1].
        y: labels, [G]; None if unknown.
        edge_attr: edge features, [E, D].
        env: the environment of each graph, [G].
        edge_truth: whether an edge causes the label, [E].
        columns: further per-graph columns, tensors [G] or lists of G strings.
        pair: undirected edge number of each edge within its graph; computed when absent.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        node_ptr: Tensor,
        edge_ptr: Tensor,
        y: Tensor | None = None,
        *,
        edge_attr: Tensor | None = None,
        env: Tensor | None = None,
        edge_truth: Tensor | None = None,
        columns: Mapping[str, Column] | None = None,
        pair: Tensor | None = None,
        pair_ptr: Tensor | None = None,
    ) -> None:
        self.x = no_complex(x, "x")
        self.edge_index = whole_numbers(edge_index, "edge_index", torch.int32)
        self.node_ptr = whole_numbers(node_ptr, "node_ptr")
        self.edge_ptr = whole_numbers(edge_ptr, "edge_ptr")
        self.y = torch.full((self.num_graphs,), -1) if y is None else whole_numbers(y, "y")
        self.edge_attr = None if edge_attr is None else no_complex(edge_attr, "edge_attr")
        self.env = None if env is None else whole_numbers(env, "env")
        self.edge_truth = edge_truth
        self.columns: dict[str, Column] = dict(columns or {})
        if pair is None or pair_ptr is None:
            check_store(self)
            pair, pair_ptr = number_pairs(self.edge_index, self.node_ptr, self.edge_ptr)
        self.pair, self.pair_ptr = pair, pair_ptr
        self.walks: Tensor | None = None  # [N, steps], once `remember_walks` was called

    # ---------------------------------------------------------------- what it holds

    @property
    def num_graphs(self) -> int:
        return self.node_ptr.numel() - 1

    def __len__(self) -> int:
        return self.num_graphs

    def __getitem__(self, which: int | slice | Sequence[int] | Tensor) -> GraphStore:
        """A smaller store; one graph, too, is a store (of one)."""
        return self.subset([which] if isinstance(which, int) else which)

    @property
    def num_features(self) -> int:
        return self.x.size(1)

    @property
    def edge_features(self) -> int:
        return 0 if self.edge_attr is None else self.edge_attr.size(1)

    @cached_property
    def num_nodes(self) -> Tensor:
        """Nodes of each graph, [G]."""
        return self.node_ptr.diff()

    @cached_property
    def num_edges(self) -> Tensor:
        """Directed edges of each graph, [G]."""
        return self.edge_ptr.diff()

    def __repr__(self) -> str:
        return (
            f"GraphStore({self.num_graphs:,} graphs, {self.x.size(0):,} nodes x {self.num_features}, "
            f"{self.edge_index.size(1):,} edges x {self.edge_features})"
        )

    def stats(self) -> dict[str, Any]:
        """Sizes and class counts, as plain values."""
        labels, counts = self.y.unique(return_counts=True)
        graphs = self.num_graphs
        return {
            "graphs": graphs,
            "nodes_mean": self.x.size(0) / max(graphs, 1),
            "edges_mean": self.edge_index.size(1) / max(graphs, 1),
            "class_counts": {str(k): int(v) for k, v in zip(labels.tolist(), counts.tolist(), strict=True)},
        }

    # ---------------------------------------------------------------- batches

    def batch(self, indices: Sequence[int] | Tensor | np.ndarray[Any, Any] | slice) -> Batch:
        """The graphs at `indices`, in that order, as one `Batch`."""
        rows = self._rows(indices)
        return assemble(self, rows, rows.numel())[0]

    def batches(self, batch_size: int, order: Tensor | None = None, chunk: int = 32) -> Iterator[Batch]:
        """All graphs (in `order`) in batches of `batch_size`.

        One gather serves `chunk` batches, which are then views of it: a small batch costs a few slices.
        """
        order = torch.arange(self.num_graphs) if order is None else order
        for rows in order.split(batch_size * chunk):
            if rows.numel():
                yield from assemble(self, rows, batch_size)

    def remember_walks(self, steps: int, progress: Callable[[int, int, str], None] | None = None) -> None:
        """Work out the return probabilities of all nodes once, so that batches bring them along."""
        if not steps or (self.walks is not None and self.walks.size(1) >= steps):
            return
        found = []
        for batch in self.batches(1024, chunk=1):
            found.append(batch.return_probabilities(steps))
            if progress is not None:
                progress(min(1024 * len(found), self.num_graphs), self.num_graphs, "walks")
        self.walks = torch.cat(found)

    def subset(self, indices: Sequence[int] | Tensor | np.ndarray[Any, Any] | slice) -> GraphStore:
        """The graphs at `indices` as another store."""
        rows = self._rows(indices)
        node_rows = ranges(self.node_ptr[rows], self.num_nodes[rows])
        edge_rows = ranges(self.edge_ptr[rows], self.num_edges[rows])
        pairs = self.pair_ptr[rows + 1] - self.pair_ptr[rows]
        return GraphStore(
            self.x[node_rows],
            self.edge_index[:, edge_rows],
            starts(self.num_nodes[rows], closed=True),
            starts(self.num_edges[rows], closed=True),
            self.y[rows],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edge_rows],
            env=None if self.env is None else self.env[rows],
            edge_truth=None if self.edge_truth is None else self.edge_truth[edge_rows],
            columns={k: columns.take(c, rows) for k, c in self.columns.items()},
            pair=self.pair[edge_rows],
            pair_ptr=starts(pairs, closed=True),
        )

    def with_env(self, env: Tensor | None) -> GraphStore:
        """The same graphs with other environments; nothing else is copied."""
        return self._with(env=env)

    def labelled(self, y: Tensor) -> GraphStore:
        """The same graphs with other labels; nothing else is copied."""
        return self._with(y=whole_numbers(y, "y"))

    def _with(self, **values: Tensor | None) -> GraphStore:
        other = GraphStore.__new__(GraphStore)
        other.__dict__.update({k: v for k, v in vars(self).items() if k != "_fingerprint"})
        other.__dict__.update(values)
        check_lengths(other)
        return other

    def _rows(self, indices: Sequence[int] | Tensor | np.ndarray[Any, Any] | slice) -> Tensor:
        if isinstance(indices, slice):
            return torch.arange(self.num_graphs)[indices]
        rows = torch.as_tensor(indices)
        rows = rows.nonzero().flatten() if rows.dtype == torch.bool else rows.long().flatten()
        outside = (rows < -self.num_graphs) | (rows >= self.num_graphs)
        if bool(outside.any()):
            raise CigaError(f"There is no graph {int(rows[outside][0])}: the store holds {self.num_graphs}.")
        return torch.where(rows < 0, rows + self.num_graphs, rows)

    # ---------------------------------------------------------------- other forms

    @classmethod
    def concat(cls, stores: Sequence[GraphStore]) -> GraphStore:
        """Several stores one after the other; optional parts survive where all have them."""
        if not stores:
            raise CigaError("There is nothing to join: the list of stores is empty.")
        first = stores[0]
        if len({s.num_features for s in stores}) > 1 or len({s.edge_features for s in stores} - {0}) > 1:
            raise CigaError("These stores cannot be joined: their numbers of features are different.")

        def joined(name: str) -> Tensor | None:
            parts = [getattr(s, name) for s in stores]
            return None if any(p is None for p in parts) else torch.cat(parts)

        shared = set(first.columns).intersection(*(s.columns for s in stores[1:]))
        return cls(
            torch.cat([s.x for s in stores]),
            torch.cat([s.edge_index for s in stores], dim=1),
            starts(torch.cat([s.num_nodes for s in stores]), closed=True),
            starts(torch.cat([s.num_edges for s in stores]), closed=True),
            torch.cat([s.y for s in stores]),
            edge_attr=joined("edge_attr"),
            env=joined("env"),
            edge_truth=joined("edge_truth"),
            columns={k: columns.join([s.columns[k] for s in stores]) for k in first.columns if k in shared},
            pair=torch.cat([s.pair for s in stores]),
            pair_ptr=starts(torch.cat([s.pair_ptr.diff() for s in stores]), closed=True),
        )

    @classmethod
    def from_pyg(cls, graphs: Iterable[Any], y: Sequence[int] | Tensor | None = None) -> GraphStore:
        """Pack PyG `Data` objects. Reads `x`, `edge_index`, `edge_attr`, `y`, `env`, `edge_truth`."""
        parts = pack(graphs, y)
        nodes, edges = parts.pop("nodes"), parts.pop("edges")
        return cls(node_ptr=starts(nodes, closed=True), edge_ptr=starts(edges, closed=True), **parts)

    def to_pyg(self) -> list[Any]:
        """A list of PyG `Data`, one per graph."""
        return unpack(self)

    def tensors(self) -> dict[str, Tensor]:
        """Everything the store holds, as named tensors (strings as UTF-8 bytes and offsets)."""
        names = (
            "x",
            "edge_index",
            "node_ptr",
            "edge_ptr",
            "y",
            "edge_attr",
            "env",
            "edge_truth",
            "pair",
            "pair_ptr",
        )
        out = {k: getattr(self, k) for k in names if getattr(self, k) is not None}
        return out | columns.to_tensors(self.columns)

    def fingerprint(self) -> str:
        """A hash of the content: equal if and only if the graphs, labels and columns are equal."""
        if not hasattr(self, "_fingerprint"):
            self._fingerprint = content_hash(self.tensors(), {})[:32]
        return self._fingerprint

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, atomically."""
        write_tensors(path, self.tensors(), {"format": FORMAT, "fingerprint": self.fingerprint()})

    @classmethod
    def open(cls, path: str | Path, verify: bool | None = None) -> GraphStore:
        """Memory-map a saved store: opens at once, whatever its size.

        `verify` recomputes the checksum; by default that is done for files below 256 MiB.
        """
        path = Path(path)
        tensors, meta = map_tensors(path)
        if meta.get("format") != FORMAT:
            raise CigaError(f"{path} is not a graph store of this version ({FORMAT}): build it again.")
        try:
            found = columns.from_tensors(tensors)
            store = cls(columns=found, **tensors)
        except (TypeError, RuntimeError, KeyError, ValueError, CigaError) as error:
            raise CigaError(f"{path} is damaged ({error}): delete it and build it again.") from error
        if verify or (verify is None and path.stat().st_size < VERIFY_BELOW):
            if store.fingerprint() != meta.get("fingerprint"):
                raise CigaError(f"{path} does not match its checksum: delete it and build it again.")
        else:
            store._fingerprint = meta.get("fingerprint", "")
        return store
