"""IB-IRM: IRM with an information bottleneck on the representation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Step, register
from ciga.methods.environments import EnvironmentMethod
from ciga.methods.irm import IRMv1
from ciga.nn.networks import GraphNetwork
from ciga.options import tunable


@register("ib-irm")
@dataclass
class IBIRM(IRMv1, EnvironmentMethod):
    """min IRMv1 + bottleneck * Var(z)   (Ahuja et al., 2021).

    z [G, d] is the graph's representation; its variance over the batch, averaged over the d dimensions,
    stands for the entropy of the representation. It waits as long as IRM's penalty.
    """

    summary = "IRM, and a representation with little variance"
    scms = ("PIIF", "FIIF")

    bottleneck: float = tunable(0.1, [0.01, 0.1, 1, 10, 100], low=0.0, help="weight of the variance of z")

    def loss(self, network: GraphNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        z = network.represent(batch)
        weight = self.bottleneck if step.number >= self.delay else 0.0
        return {
            **self.terms(network.head(z), batch, step),
            "bottleneck": weight * z.var(0, correction=0).mean(),
        }
