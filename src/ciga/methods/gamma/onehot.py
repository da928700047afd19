"""Gamma 1-hot: how often each attributed k-node subgraph of the training graphs occurs in a graph."""

from __future__ import annotations

from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.methods.gamma.kinds import Densities
from ciga.methods.gamma.network import DensityNetwork
from ciga.nn.encoder import Backbone, Spec


class OneHotNetwork(DensityNetwork):
    """A linear map of the densities of the known kinds, then the head."""

    def __init__(self, spec: Spec, backbone: Backbone, k: int, samples: int, exact: int, hidden: int) -> None:
        super().__init__(spec.features if backbone.node_features else 0, k, samples, exact)
        self.width = backbone.width
        self.embed = nn.Linear(self.kinds.numel(), self.width)
        self.build_head(self.width, hidden, spec.classes, backbone.dropout)

    def know(self, kinds: Tensor) -> None:
        super().know(kinds)
        self.embed = nn.Linear(kinds.numel(), self.width).to(kinds.device)

    def table(self, found: Densities) -> Tensor:
        """The densities of the known kinds, [G, K]."""
        place, share = self.known(found.kind, found.graph, found.share, found.graphs)
        flat = share.new_zeros(found.graphs * self.kinds.numel())
        return flat.index_add(0, found.graph * self.kinds.numel() + place, share).view(found.graphs, -1)

    def represent(self, batch: Batch) -> Tensor:
        return self.from_densities(self.remembered(batch))

    def from_densities(self, found: Densities) -> Tensor:
        """Gamma(G) as the head sees it, [G, d]."""
        return self.normalised(self.embed(self.table(found)))
