"""The GNN that every method uses: a stack of convs with batch norm, dropout and jumping knowledge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ciga.graphs.batch import mirrored
from ciga.graphs.links import Links
from ciga.graphs.splits import Splits
from ciga.graphs.store import Batch, GraphStore
from ciga.nn.conv import GCN, GIN, OGBGCN, SAGE, Edges, gat, pna
from ciga.nn.kgnn import GraphConv, SetLevels
from ciga.nn.norm import PartNorm
from ciga.nn.readout import READOUTS, mean_of
from ciga.options import tunable

CONVS = ("gcn", "gin", "gat", "sage", "pna", "gcn-ogb", "k123")


@dataclass
class Backbone:
    """The shape of the GNN encoder: the same for every method on a dataset."""

    conv: str = tunable("gcn-ogb", choices=CONVS, help="graph convolution; gcn-ogb is the paper's GCN")
    layers: int = tunable(3, [2, 3, 4, 5], low=1, high=1000, help="number of convolutions")
    width: int = tunable(32, [32, 64, 128], low=1, high=2**16, help="hidden dimension")
    dropout: float = tunable(0.0, [0.0, 0.1, 0.3, 0.5], low=0.0, high=0.95, help="after every layer")
    readout: str = tunable("mean", choices=READOUTS, help="nodes to graph")
    jk: str = tunable(
        "last", choices=("last", "sum", "cat", "max"), help="jumping knowledge: which layers count"
    )
    virtual_node: bool = tunable(False, help="a node joined to all others of its graph")
    node_features: bool = tunable(True, help="use node features; without them a GNN sees structure alone")
    walks: int = tunable(
        0, [0, 8], low=0, high=32, help="steps of random walks whose return probabilities a node sees, too"
    )
    gate_price: float = tunable(
        0.0, [0.0, 0.1, 1.0], low=0.0, help="price of a node feature that stays open; 0: no gates"
    )
    gate_speed: float = tunable(
        1.0, [1.0, 10.0], low=0.01, high=1000.0, help="how fast gates move, times the learning rate"
    )
    edge_features: bool = tunable(True, help="use edge features where the data has them")
    undirected: bool = tunable(False, help="messages go both ways along edges that the data stores once")


@dataclass(frozen=True)
class Spec:
    """What a network must know of the data."""

    features: int
    edge_features: int
    classes: int
    environments: int = 1
    degrees: tuple[int, ...] = ()  # histogram of in-degrees over the training nodes
    edges: int = 0  # undirected edges of the largest training graph

    @classmethod
    def of(cls, splits: Splits) -> Spec:
        """Read it off the training part."""
        train = splits.train
        degrees, edges = _counts(train)
        return cls(
            features=train.num_features,
            edge_features=train.edge_features,
            classes=splits.task.classes,
            environments=1 if train.env is None else int(train.env.max()) + 1,
            degrees=degrees,
            edges=edges,
        )


def _counts(store: GraphStore, chunk: int = 4096) -> tuple[tuple[int, ...], int]:
    """Histogram of in-degrees, and the most undirected edges of a graph; chunk by chunk, so that a store
    larger than memory can be counted."""
    total, edges = torch.zeros(1, dtype=torch.long), 0
    for batch in store.batches(chunk, chunk=1):
        found = torch.bincount(torch.bincount(batch.edge_index[1], minlength=batch.num_nodes))
        size = max(total.numel(), found.numel())
        total = F.pad(total, (0, size - total.numel())) + F.pad(found, (0, size - found.numel()))
        edges = max(edges, int(torch.bincount(batch.pair_batch, minlength=1).max()))
    return tuple(total.tolist()), edges


class Encoder(nn.Module):
    """(batch, edge_weight [E]) -> node embeddings [N, dim]."""

    def __init__(
        self, inputs: int, edge_inputs: int, backbone: Backbone, degrees: tuple[int, ...] = (), parts: int = 1
    ) -> None:
        super().__init__()
        width, layers = backbone.width, backbone.layers
        self.edge_inputs = edge_inputs if backbone.edge_features else 0
        self.features, self.walks = inputs if backbone.node_features else 0, backbone.walks
        # A graph without features still has a structure: give every node the constant 1.
        self.constant = self.features + self.walks == 0
        inputs = 1 if self.constant else self.features + self.walks
        embed = backbone.virtual_node or backbone.conv == "gcn-ogb"
        self.embed = nn.Linear(inputs, width) if embed else None
        sizes = [width if embed else inputs] + [width] * (layers - 1)
        make = _conv(backbone.conv, degrees)
        self.convs = nn.ModuleList(make(size, width, self.edge_inputs, parts) for size in sizes)
        self.norms = nn.ModuleList(PartNorm(width, parts) for _ in range(layers))
        self.virtual = (
            nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers - 1))
            if backbone.virtual_node
            else None
        )
        self.dropout, self.jk, self.undirected = backbone.dropout, backbone.jk, backbone.undirected
        self.dim = width * layers if backbone.jk == "cat" else width
        # Levels 2 and 3 of the 1-2-3-GNN stand on what all layers of level 1 gave.
        self.sets = SetLevels(self.dim, parts) if backbone.conv == "k123" else None

    def forward(self, batch: Batch, edge_weight: Tensor | None = None, border: int | None = None) -> Tensor:
        edges = self._edges(batch, edge_weight, border)
        h = self._inputs(batch)
        h = h if self.embed is None else self.embed(h)
        seen: list[Tensor] = []
        last = len(self.convs) - 1
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = norm(conv(h, edges), border)
            h = h if i == last else h.relu()
            h = nn.functional.dropout(h, self.dropout, self.training) if self.dropout else h
            if self.virtual is not None and i < last:
                h = h + self.virtual[i](mean_of(h, batch.batch, batch.num_graphs))[batch.batch]
            seen.append(h)
        h = self._jump(seen)
        return h if self.sets is None else self.sets(h, edges, batch.batch)

    def _inputs(self, batch: Batch) -> Tensor:
        """What is known of each node before any message."""
        if self.constant:
            return batch.x.new_ones(batch.num_nodes, 1)
        if not self.walks:
            return batch.x
        walks = batch.return_probabilities(self.walks)
        return torch.cat([batch.x, walks], 1) if self.features else walks

    def _edges(self, batch: Batch, weight: Tensor | None, border: int | None) -> Edges:
        """What messages travel along."""
        attr = batch.edge_attr if self.edge_inputs else None
        if batch.symmetric or not self.undirected:
            return Edges(batch.edge_index, weight, attr, batch.num_nodes, border, batch.links)
        index, origin = mirrored(batch.edge_index, batch.num_nodes)
        weight = None if weight is None else weight.index_select(0, origin)
        attr = None if attr is None else attr.index_select(0, origin)
        return Edges(index, weight, attr, batch.num_nodes, border, Links(index, batch.num_nodes))

    def _jump(self, seen: list[Tensor]) -> Tensor:
        """Jumping knowledge: one embedding per node from those after each layer."""
        if self.jk == "last":
            return seen[-1]
        if self.jk == "cat":
            return torch.cat(seen, 1)
        stack = torch.stack(seen)
        return stack.sum(0) if self.jk == "sum" else stack.amax(0)


def _conv(name: str, degrees: tuple[int, ...]) -> Callable[[int, int, int, int], nn.Module]:
    """A function (inputs, outputs, edge inputs, parts) -> conv."""
    if name == "gin":
        return GIN
    if name == "pna":
        return lambda inputs, outputs, edge_inputs, parts: pna(inputs, outputs, edge_inputs, degrees)
    table: dict[str, Callable[[int, int, int], nn.Module]] = {
        "gcn": GCN,
        "gcn-ogb": OGBGCN,
        "gat": gat,
        "sage": SAGE,
        "k123": GraphConv,
    }
    return lambda inputs, outputs, edge_inputs, parts: table[name](inputs, outputs, edge_inputs)
