"""Methods with defects of the code released with the paper, to be measured beside the right ones: a plugin.

    ciga run spmotif-struc ciga-v1-misplaced --plugin benchmarks/defects.py --preset published …

Each differs from its counterpart in the defect alone (docs/results.md has the numbers). Nothing here is meant
to be used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.methods.base import Method, Step, cross_entropy, register
from ciga.methods.ciga import CIGAv1, CIGAv2
from ciga.methods.environments import scale_gradient
from ciga.methods.losses import supervised_contrast
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import InvariantNetwork, Parts, Prediction
from ciga.nn.readout import sum_of
from ciga.options import tunable


def misplaced(parts: Parts) -> Tensor:
    """Nodes numbered twice: as many rows as G_c has nodes, but the first ones of the batch, [G, d]."""
    graph = parts.batch.batch.index_select(0, parts.kept_nodes)
    return sum_of(parts.hidden[: parts.border], graph, parts.batch.num_graphs)


@register("ciga-v1-misplaced")
@dataclass
class Misplaced(CIGAv1):
    """CIGAv1 whose contrast pools rows that are not G_c's."""

    summary = "CIGAv1 with the released code's contrast"

    def invariant_terms(self, prediction: Prediction, y: Tensor) -> dict[str, Tensor]:
        contrast = supervised_contrast(misplaced(prediction.parts), y, self.temperature)
        return {"risk": cross_entropy(prediction.logits, y).mean(), "contrast": self.alpha * contrast}


class OneNormNetwork(InvariantNetwork):
    """G_s moves the statistics that G_c is normalised with in the end."""

    def predict_both(
        self, parts: Parts, spurious_gradient: bool = True, against: float | None = None
    ) -> Prediction:
        assert self.spurious_head is not None
        prediction = self.predict(parts)
        with torch.no_grad():
            part, weight = self._part(parts, spurious=True)
            spurious = self.readout(self.classifier(part, weight), part.batch, part.num_graphs)
        prediction.spurious_representation = spurious
        prediction.spurious_logits = self.spurious_head(spurious)
        return prediction


@register("ciga-v2-one-norm")
@dataclass
class OneNorm(CIGAv2):
    """CIGAv2 with one set of batch-norm statistics for both parts."""

    summary = "CIGAv2 with the released code's batch norm"

    def network(self, spec: Spec, backbone: Backbone) -> InvariantNetwork:
        return OneNormNetwork(spec, backbone, **self.extraction(), spurious=True)


@register("irm-by-place")
@dataclass
class ByPlace(Method):
    """ERM + penalty * (gradient of the batch's first half) * (gradient of its second half)."""

    summary = "IRM with the released code's penalty and environments"

    penalty: float = tunable(1.0, [0.01, 0.1, 1, 10, 100], low=0.0, help="weight of the product")

    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        logits = network(batch)
        first, second = scale_gradient(logits, batch.y).tensor_split(2)
        return {
            "risk": cross_entropy(logits, batch.y).mean(),
            "irm": self.penalty * first.mean() * second.mean(),
        }
