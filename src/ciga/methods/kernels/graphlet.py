"""The graphlet kernel with a support vector machine."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.store import Batch, GraphStore
from ciga.methods.base import register
from ciga.methods.kernels.features import DISCONNECTED, GRAPHLETS, graphlet_counts
from ciga.methods.kernels.network import FittedNetwork
from ciga.methods.kernels.svm import BATCH, KernelMethod
from ciga.nn.encoder import Backbone, Spec
from ciga.options import tunable


class GraphletNetwork(FittedNetwork):
    """Counts of the graphlets, or their standardised frequencies, then a linear machine."""

    mean: Tensor
    scale: Tensor

    def __init__(self, classes: int, connected: bool, normalise: bool) -> None:
        super().__init__(classes)
        self.normalise = normalise
        names = GRAPHLETS if connected else GRAPHLETS + DISCONNECTED
        four = {"edge+2", "two edges", "path3+1", "triangle+1", "empty4", *GRAPHLETS[2:]}
        self.four = torch.tensor([name in four for name in names])
        self.hold("weight", torch.zeros(len(names), classes))
        self.hold("mean", torch.zeros(len(names), dtype=torch.double))
        self.hold("scale", torch.ones(len(names), dtype=torch.double))

    def measures(self, batch: Batch) -> Tensor:
        """How often each shape occurs, [G, D]; with `normalise`, its share among those of its size."""
        count = graphlet_counts(batch.edge_index, batch.batch, batch.num_graphs)[:, : self.four.numel()]
        if not self.normalise:
            return count
        four = self.four.to(count.device)
        total = torch.where(four, (count * four).sum(1, keepdim=True), (count * ~four).sum(1, keepdim=True))
        return count / total.clamp(min=1)

    def features(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        value = ((self.measures(batch) - self.mean) / self.scale).float()
        graph = torch.arange(batch.num_graphs, device=value.device).repeat_interleave(value.size(1))
        feature = torch.arange(value.size(1), device=value.device).repeat(batch.num_graphs)
        return graph, feature, value.flatten()


@register("graphlet")
@dataclass
class Graphlet(KernelMethod[GraphletNetwork]):
    """k(G, H) = <phi(G), phi(H)>, phi = exact counts of the induced subgraphs of 3 and of 4 nodes.

    Shervashidze et al. (2009). With `normalise`, phi holds the shares of the shapes among those of their
    size, standardised over the training graphs, which hides a graph's size. By default connected shapes only:
    in large sparse graphs nearly all others have no edge at all. Sees no features.
    """

    summary = "graphlet kernel (exact 3- and 4-node counts) with an SVM"
    revision = 2

    connected: bool = tunable(True, [True, False], help="count connected shapes only")
    normalise: bool = tunable(False, [False, True], help="shares instead of counts, standardised")
    C: float | None = tunable(None, low=1e-9, help="of the SVM; None chooses it on validation data")

    def network(self, spec: Spec, backbone: Backbone) -> GraphletNetwork:
        return GraphletNetwork(spec.classes, self.connected, self.normalise)

    def learn(self, network: GraphletNetwork, train: GraphStore) -> None:
        if not self.normalise:
            return
        found = torch.cat([network.measures(b) for b in train.batches(BATCH, chunk=1)])
        spread = found.std(0, correction=0)
        network.hold("mean", found.mean(0))
        # A shape as frequent everywhere tells nothing: its column is 0, not noise blown up.
        network.hold("scale", torch.where(spread > 1e-9, spread, torch.inf))
