"""Gamma 1-hot: how often each attributed k-node subgraph of the training graphs occurs in a graph."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ciga.graphs.names import mix, name_rows, row_names
from ciga.graphs.store import Batch, GraphStore
from ciga.graphs.topology import number_rows
from ciga.methods.gamma.densities import Subgraphs
from ciga.methods.gamma.network import DensityNetwork
from ciga.methods.gamma.shapes import Shapes
from ciga.nn.encoder import Backbone, Spec

#: Graphs whose subgraphs are listed at once before training: bounds the memory.
GRAPHS = 64
#: Batches of evaluation whose densities are kept from one epoch to the next.
BATCHES = 64


@dataclass
class Densities:
    """A sparse table: entry i says which share of graph `graph[i]` is subgraphs of the kind `kind[i]`."""

    graph: Tensor  # [M] ascending
    kind: Tensor  # [M] 64-bit names, each once per graph
    share: Tensor  # [M]
    graphs: int


def name_kinds(found: Subgraphs, label: Tensor | None, tables: Shapes) -> Tensor:
    """Names [S] of the subgraphs: equal if an isomorphism maps one on the other, labels included.

    Nodes stand in an order that shows the shape's own form, of which an automorphism gives another one: the
    name is made from all of them, so that it depends on none.

    Args:
        label: 64-bit name of each node's label [N]; None: all alike.
    """
    shape_name = mix(torch.arange(1, tables.count + 1, device=found.shape.device))
    if label is None:
        return shape_name[found.shape]
    number = label.unique(return_inverse=True)[1]
    rows = torch.where(found.nodes >= 0, number[found.nodes] + 1, 0)
    kind, example = number_rows(
        torch.cat([found.shape.unsqueeze(1), rows], 1), number.numel() + tables.count + 1
    )
    nodes, shape = found.nodes[example], found.shape[example]
    labels = torch.where(nodes >= 0, label[nodes], 0)
    count, start = tables.symmetries.to(shape.device)[shape], tables.symmetry_start.to(shape.device)[shape]
    row = torch.arange(shape.numel(), device=shape.device).repeat_interleave(count)
    which = torch.arange(row.numel(), device=shape.device) - (count.cumsum(0) - count)[row]
    order = tables.symmetry.to(shape.device)[start[row] + which]
    forms = name_rows(labels[row].gather(1, order))
    return mix(torch.zeros_like(shape).index_add_(0, row, mix(forms)) + shape_name[shape])[kind]


class OneHotNetwork(DensityNetwork):
    """Densities of the kinds of subgraphs that the training graphs have, then the head.

    Before `learn`, and where nodes have no labels, kinds are shapes. A kind that training did not have
    counts for nothing. What a batch holds never changes, so evaluation remembers it from epoch to epoch.
    """

    kinds: Tensor
    labelled: Tensor

    def __init__(self, spec: Spec, backbone: Backbone, k: int, samples: int, exact: int, hidden: int) -> None:
        super().__init__(k, samples, exact)
        self.features = spec.features if backbone.node_features else 0
        self.sizes = (hidden, spec.classes, backbone.dropout)
        self.register_buffer("labelled", torch.zeros(1, dtype=torch.bool))  # do kinds tell labels apart?
        self.know(mix(torch.arange(1, self.tables.count + 1)).sort().values)
        self._seen: OrderedDict[bytes, Densities] = OrderedDict()

    def know(self, kinds: Tensor) -> None:
        """Tell apart these kinds [K], ascending, with new layers above them."""
        self.register_buffer("kinds", kinds)
        self.build_head(kinds.numel(), *self.sizes)
        self.to(kinds.device).train(self.training)

    def learn(self, train: GraphStore, most: int, labelled: bool) -> None:
        """Know the kinds of the training graphs; of more than `most`, those that most graphs have."""
        self.labelled.fill_(labelled and self.features > 0)
        found = [self.densities(b).kind for b in train.batches(GRAPHS, chunk=1)]
        kinds, graphs = torch.cat(found).unique(return_counts=True)
        order = graphs.argsort(descending=True, stable=True)[:most]
        self.know(kinds[order].sort().values)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "kinds")
        if stored is not None and stored.shape != self.kinds.shape:
            self.know(stored.to(self.kinds.device))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def densities(self, batch: Batch) -> Densities:
        """The kinds of subgraphs in each graph, known or not."""
        found, _ = self.find(batch)
        label = row_names(batch.x[:, : self.features]) if bool(self.labelled) else None
        known, number = name_kinds(found, label, self.tables).unique(return_inverse=True)
        kinds = max(known.numel(), 1)
        cell, place = (found.graph * kinds + number).unique(return_inverse=True)
        share = found.density.new_zeros(cell.numel()).index_add(0, place, found.density)
        return Densities(cell // kinds, known[cell % kinds], share, batch.num_graphs)

    def table(self, found: Densities) -> Tensor:
        """The densities of the known kinds, [G, K]."""
        place = torch.searchsorted(self.kinds, found.kind).clamp(max=self.kinds.numel() - 1)
        share = torch.where(self.kinds[place] == found.kind, found.share, 0.0)
        flat = share.new_zeros(found.graphs * self.kinds.numel())
        return flat.index_add(0, found.graph * self.kinds.numel() + place, share).view(found.graphs, -1)

    def represent(self, batch: Batch) -> Tensor:
        return self.normalised(self.table(self._remembered(batch)))

    def _remembered(self, batch: Batch) -> Densities:
        """`densities`, worked out once for batches of one content: a long schedule asks a thousand times."""
        digest = hashlib.blake2b(b"%d" % bool(self.labelled), digest_size=16)
        for tensor in (batch.x[:, : self.features], batch.edge_index, batch.batch):
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        key = digest.digest()
        if key not in self._seen:
            self._seen[key] = self.densities(batch)
            if len(self._seen) > BATCHES:
                self._seen.popitem(last=False)
        return self._seen[key]


def in_rows(found: list[Densities]) -> tuple[Tensor, Tensor]:
    """Kinds and shares of each graph as rows [n, M], from tables of graphs one after the other; 0 beyond."""
    kinds: list[Tensor] = []
    shares: list[Tensor] = []
    for part in found:
        count = torch.bincount(part.graph, minlength=part.graphs)
        place = torch.arange(part.graph.numel()) - (count.cumsum(0) - count)[part.graph]
        shape = (count.numel(), int(count.max()))
        for rows, value in ((kinds, part.kind), (shares, part.share)):
            rows.append(value.new_zeros(shape).index_put((part.graph, place), value))
    width = max(rows.size(1) for rows in kinds)
    one, two = (
        torch.cat([torch.nn.functional.pad(r, (0, width - r.size(1))) for r in rows])
        for rows in (kinds, shares)
    )
    return one, two


def from_rows(kinds: Tensor, shares: Tensor) -> Densities:
    """The way back: rows [G, M] as a table."""
    graph, place = (shares > 0).nonzero(as_tuple=True)
    return Densities(graph, kinds[graph, place], shares[graph, place], kinds.size(0))
