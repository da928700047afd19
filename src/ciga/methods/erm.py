"""Empirical risk minimisation: the yardstick."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.methods.base import Method, Step, cross_entropy, register


@register("erm")
@dataclass
class ERM(Method):
    """min E[ CE(f(G), Y) ]: one GNN over the whole graph."""

    summary = "one GNN over the whole graph, cross-entropy only"

    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        return {"risk": cross_entropy(network(batch), batch.y).mean()}
