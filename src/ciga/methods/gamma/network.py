"""What the Gamma networks share: subgraphs in, a normalised representation, a head with one hidden layer."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from ciga.graphs.names import row_names
from ciga.graphs.store import Batch, GraphStore
from ciga.graphs.topology import Adjacency
from ciga.methods.gamma.densities import Subgraphs, subgraphs
from ciga.methods.gamma.kinds import Densities, name_kinds, name_shapes
from ciga.methods.gamma.shapes import shapes

#: Graphs whose subgraphs are listed at once before training: bounds the memory.
GRAPHS = 64
#: Entries of the densities that evaluation keeps from one epoch to the next, some fifty bytes each.
ENTRIES = 2**22


class DensityNetwork(nn.Module):
    """Sum over the connected induced k-node subgraphs of density times encoding, then a head.

    A graph with at most `exact` subgraphs is seen whole, a larger one through `samples` draws that depend on
    nothing but itself. Only kinds of subgraphs that the training graphs have count, and a graph's densities
    of those sum to 1. Before `learn`, and where nodes have no labels, kinds are shapes, and all are known.
    The head is the original's: batch norm without scale and shift on the sum, one hidden layer, dropout.

    What a batch holds never changes, so evaluation remembers its densities from epoch to epoch.
    """

    uniform: Tensor
    kinds: Tensor
    labelled: Tensor

    def __init__(self, features: int, k: int, samples: int, exact: int) -> None:
        super().__init__()
        self.tables = shapes(k)
        self.features, self.exact = features, exact
        draws = torch.rand(samples, k, generator=torch.Generator().manual_seed(k))
        self.register_buffer("uniform", draws, persistent=False)
        self.register_buffer("labelled", torch.zeros(1, dtype=torch.bool))  # do kinds tell labels apart?
        self.register_buffer("kinds", name_shapes(self.tables).sort().values)  # [K] ascending
        self._seen: OrderedDict[bytes, Densities] = OrderedDict()

    def build_head(self, width: int, hidden: int, classes: int, dropout: float) -> None:
        """Make the layers above a representation of `width` numbers.

        Args:
            width: Of the representation.
            hidden: Of the layer in between.
            classes: The number of outputs.
            dropout: The share of hidden units dropped in training.
        """
        self.norm = nn.BatchNorm1d(width, affine=False)
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes)
        )

    def learn(self, train: GraphStore, labelled: bool, most: int | None = None) -> None:
        """Know the kinds of the training graphs; of more than `most`, those that most graphs have."""
        self.labelled.fill_(labelled and self.features > 0)
        found = [self.by_kind(b).kind for b in train.batches(GRAPHS, chunk=1)]
        kinds, graphs = torch.cat(found).unique(return_counts=True)
        order = graphs.argsort(descending=True, stable=True)[:most]
        self.know(kinds[order].sort().values)

    def know(self, kinds: Tensor) -> None:
        """Count these kinds [K], ascending, and no others."""
        self.register_buffer("kinds", kinds)
        self._seen.clear()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "kinds")
        if stored is not None and not torch.equal(stored.to(self.kinds.device), self.kinds):
            self.know(stored.to(self.kinds.device))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def find(self, batch: Batch) -> tuple[Subgraphs, Adjacency]:
        """The subgraphs to look at."""
        adjacency = Adjacency.of(batch.edge_index, batch.num_nodes)
        found = subgraphs(adjacency, batch.batch, batch.num_graphs, self.tables, self.exact, self.uniform)
        return found, adjacency

    def name(self, found: Subgraphs, batch: Batch) -> Tensor:
        """Names [S] of the subgraphs' kinds."""
        label = row_names(batch.x[:, : self.features]) if bool(self.labelled) else None
        return name_kinds(found, label, self.tables)

    def by_kind(self, batch: Batch) -> Densities:
        """The kinds of subgraphs in each graph, known or not."""
        found, _ = self.find(batch)
        return Densities.of(found, self.name(found, batch), batch)

    def densities(self, batch: Batch) -> Densities:
        """What the network has to know of each graph."""
        return self.by_kind(batch)

    def remembered(self, batch: Batch) -> Densities:
        """`densities`, worked out once for batches of one content: a long schedule asks a thousand times."""
        digest = hashlib.blake2b(digest_size=16)
        for tensor in (batch.x[:, : self.features], batch.edge_index, batch.edge_attr, batch.batch):
            if tensor is not None:
                digest.update(tensor.cpu().contiguous().numpy().tobytes())
        key = digest.digest()
        if key not in self._seen:
            self._seen[key] = self.densities(batch)
            while len(self._seen) > 1 and sum(d.graph.numel() for d in self._seen.values()) > ENTRIES:
                self._seen.popitem(last=False)
        return self._seen[key]

    def known(self, names: Tensor, graph: Tensor, share: Tensor, graphs: int) -> tuple[Tensor, Tensor]:
        """Place [M] of each name among the known kinds, and its share [M] of those of its graph.

        A kind that is not known has share 0 (and the place of another); so has all of a graph without any.

        Args:
            names, graph, share: of entries whose shares sum to 1 in each graph, [M].
            graphs: the number of graphs.
        """
        place = torch.searchsorted(self.kinds, names).clamp(max=self.kinds.numel() - 1)
        share = torch.where(self.kinds[place] == names, share, 0.0)
        total = share.new_zeros(graphs).index_add(0, graph, share)
        return place, share / total.clamp(min=1e-12)[graph]

    def normalised(self, representation: Tensor) -> Tensor:
        """What the head sees of a representation [G, d]."""
        norm = self.norm
        if self.training and representation.size(0) < 2:  # one graph has no variance to be scaled by
            return nn.functional.batch_norm(representation, norm.running_mean, norm.running_var, eps=norm.eps)
        out: Tensor = norm(representation)
        return out

    def represent(self, batch: Batch) -> Tensor:
        """Gamma(G) as the head sees it, [G, d]."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> Tensor:
        out: Tensor = self.head(self.represent(batch))
        return out
