"""Empirical risk minimisation: the yardstick."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Method, Step, cross_entropy, register
from ciga.nn.networks import GraphNetwork


@register("erm")
@dataclass
class ERM(Method):
    """min E[ CE(f(G), Y) ]: one GNN over the whole graph."""

    summary = "one GNN over the whole graph, cross-entropy only"

    def loss(self, network: GraphNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        return {"risk": cross_entropy(network(batch), batch.y).mean()}
