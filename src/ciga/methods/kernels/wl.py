"""The Weisfeiler-Lehman subtree kernel with a support vector machine."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.names import are_labels, row_names
from ciga.graphs.store import Batch, GraphStore
from ciga.methods.base import register
from ciga.methods.kernels.features import Counts, wl_counts
from ciga.methods.kernels.network import FittedNetwork
from ciga.methods.kernels.svm import BATCH, KernelMethod
from ciga.nn.encoder import Backbone, Spec
from ciga.options import tunable

LABELS = ("auto", "features", "constant")


class WLNetwork(FittedNetwork):
    """phi(G), or phi(G) / |phi(G)|, over the labels of the training graphs, then a linear machine."""

    labels: Tensor
    named: Tensor

    def __init__(self, classes: int, iterations: int, normalise: bool) -> None:
        super().__init__(classes)
        self.iterations, self.normalise = iterations, normalise
        # Before fitting, one label that no node has.
        self.hold("weight", torch.zeros(1, classes))
        self.hold("labels", torch.zeros(1, dtype=torch.long))  # [D] names seen in training, ascending
        self.hold("named", torch.ones(1, dtype=torch.bool))  # do nodes start with their features' name?

    def counts(self, batch: Batch) -> Counts:
        """Labels of each graph and how often they occur."""
        names = torch.zeros_like(batch.batch)
        names = row_names(batch.x) if bool(self.named) and batch.x.size(1) else names
        return wl_counts(names, batch.edge_index, batch.batch, self.iterations)

    def features(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """A label that training did not have is in the length of phi but in no product: 0 similarity."""
        found = self.counts(batch)
        value = found.count
        if self.normalise:
            length = value.new_zeros(batch.num_graphs).index_add(0, found.graph, value**2).sqrt()
            value = value / length[found.graph]
        place = torch.searchsorted(self.labels, found.label).clamp(max=self.labels.numel() - 1)
        known = self.labels[place] == found.label
        return found.graph[known], place[known], value[known]


@register("wl")
@dataclass
class WL(KernelMethod[WLNetwork]):
    """k(G, H) = <phi(G), phi(H)>, phi = counts of the labels of 0…h WL iterations.

    Shervashidze et al. (2011); with `normalise`, phi is scaled to length 1, which hides a graph's size.
    A node's first label is its row of features where these are discrete (`auto`: at most one distinct row
    to ten nodes of the training data), else the same for all.
    """

    summary = "Weisfeiler-Lehman subtree kernel with an SVM"

    iterations: int = tunable(5, [1, 2, 3, 4, 5], low=0, help="rounds of relabelling")
    normalise: bool = tunable(False, [False, True], help="scale phi to length 1")
    labels: str = tunable("auto", choices=LABELS, help="what a node's first label is")
    C: float | None = tunable(None, low=1e-9, help="of the SVM; None chooses it on validation data")

    def network(self, spec: Spec, backbone: Backbone) -> WLNetwork:
        return WLNetwork(spec.classes, self.iterations, self.normalise)

    def learn(self, network: WLNetwork, train: GraphStore) -> None:
        named = self.labels == "features"
        if self.labels == "auto":
            named = are_labels(train.x)
        network.hold("named", torch.tensor([named]))
        parts = [network.counts(b).label.unique() for b in train.batches(BATCH, chunk=1)]
        network.hold("labels", torch.cat(parts).unique())
        network.hold("weight", torch.zeros(network.labels.numel(), network.classes))
