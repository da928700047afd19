"""CnC: pull together what an ERM model tells apart within a class."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.methods.base import Context, Method, Step, cross_entropy, register
from ciga.methods.environments import reference_logits
from ciga.methods.losses import contrast
from ciga.nn.networks import GraphNetwork
from ciga.options import tunable


@register("cnc")
@dataclass
class CNC(Method):
    """min R(f) + alpha * contrast(z) with pairs from an ERM reference model   (Zhang et al., 2022).

    To an anchor, positives are of its class but of another reference prediction, negatives of another class
    but of its own reference prediction; no other graph is in the denominator. An anchor without a positive
    in the batch is left out.
    """

    summary = "contrast same-class graphs that an ERM model tells apart"

    alpha: float = tunable(1.0, [0.5, 1, 2, 4, 8, 16, 32], low=0.0, help="weight of the contrast")
    temperature: float = tunable(1.0, low=1e-3, help="of the contrast")

    def prepare(self, context: Context) -> dict[str, Tensor]:
        return {"reference": reference_logits(context).argmax(1)}

    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        assert isinstance(network, GraphNetwork)
        z = network.represent(batch)
        positive, negative = pairs(batch.y, step.side["reference"])
        return {
            "risk": cross_entropy(network.head(z), batch.y).mean(),
            "contrast": self.alpha * contrast(z, positive, positive | negative, self.temperature),
        }


def pairs(y: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Positives and negatives of each anchor (row), [G, G], from labels and reference predictions [G]."""
    same_class = y.unsqueeze(1) == y
    same_guess = reference.unsqueeze(1) == reference
    return same_class & ~same_guess, ~same_class & same_guess
