"""ASAP: attention pooling of neighbourhoods, which picks what matters without an objective for it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.asap.pooling import PooledNetwork
from ciga.methods.base import Inference, Method, Step, cross_entropy, register
from ciga.nn.encoder import Backbone, Spec
from ciga.options import tunable


@register("asap")
@dataclass
class ASAP(Method[PooledNetwork]):
    """min E[ CE(f(pool(G)), Y) ]: pool keeps the fittest ceil(ratio * n) clusters between convolutions.

    Ranjan et al. (2020). A cluster is a neighbourhood, a weighted mean of nodes: what is kept are clusters
    that overlap, not edges, so the method gives no edge scores.
    """

    summary = "GNN with adaptive structure-aware pooling"

    ratio: float = tunable(
        0.5, [0.25, 0.5, 0.8], low=0.01, high=1.0, help="share of clusters kept by each pooling"
    )

    def network(self, spec: Spec, backbone: Backbone) -> PooledNetwork:
        return PooledNetwork(spec, backbone, self.ratio)

    def loss(self, network: PooledNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        return {"risk": cross_entropy(network(batch), batch.y).mean()}

    def infer(self, network: PooledNetwork, batch: Batch) -> Inference:
        representation = network.represent(batch)
        return Inference(network.head(representation), None, representation)
