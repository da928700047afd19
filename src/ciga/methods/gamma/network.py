"""What the Gamma networks share: subgraphs in, a normalised representation, a head with one hidden layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.graphs.topology import Adjacency
from ciga.methods.gamma.densities import Subgraphs, subgraphs
from ciga.methods.gamma.shapes import shapes


class DensityNetwork(nn.Module):
    """Sum over the connected induced k-node subgraphs of density times encoding, then a head.

    The head is the original's: batch norm without scale and shift on the sum, one hidden layer, dropout.
    A graph with at most `exact` subgraphs is seen whole, a larger one through `samples` draws that depend on
    nothing but itself.
    """

    uniform: Tensor

    def __init__(self, k: int, samples: int, exact: int) -> None:
        super().__init__()
        self.tables = shapes(k)
        self.samples, self.exact = samples, exact
        draws = torch.rand(samples, k, generator=torch.Generator().manual_seed(k))
        self.register_buffer("uniform", draws, persistent=False)

    def build_head(self, width: int, hidden: int, classes: int, dropout: float) -> None:
        """Make the layers above a representation of `width` numbers."""
        self.norm = nn.BatchNorm1d(width, affine=False)
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes)
        )

    def normalised(self, representation: Tensor) -> Tensor:
        """What the head sees of a representation [G, d]."""
        norm = self.norm
        if self.training and representation.size(0) < 2:  # one graph has no variance to be scaled by
            return nn.functional.batch_norm(representation, norm.running_mean, norm.running_var, eps=norm.eps)
        out: Tensor = norm(representation)
        return out

    def find(self, batch: Batch) -> tuple[Subgraphs, Adjacency]:
        """The subgraphs to look at."""
        adjacency = Adjacency.of(batch.edge_index, batch.num_nodes)
        graphs = (batch.batch, batch.num_graphs)
        return subgraphs(adjacency, *graphs, self.tables, self.exact, self.uniform), adjacency

    def represent(self, batch: Batch) -> Tensor:
        """Gamma(G) as the head sees it, [G, d]."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> Tensor:
        out: Tensor = self.head(self.represent(batch))
        return out
