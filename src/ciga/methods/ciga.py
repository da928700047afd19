"""CIGA: pick the invariant subgraph, predict from it alone (Chen et al., NeurIPS 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.extraction import ExtractingMethod
from ciga.methods.losses import supervised_contrast
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import InvariantNetwork, Prediction
from ciga.options import tunable


@register("ciga-v1")
@dataclass
class CIGAv1(ExtractingMethod):
    """max I(G_c; Y)  s.t.  G_c in argmax I(G_c; G~_c | Y), |G_c| <= s_c.

    Loss: CE(f_c(G_c), Y) + alpha * supervised contrast of G_c's representation; `size` is s_c.

    `settle` is an addition of this library: the best subgraphs often come in the first epochs, the best
    classifier later. Where training returns to the best of its `trial` epochs, it goes on with f_c alone.
    """

    summary = "contrast same-class invariant subgraphs"
    scms = ("FIIF", "PIIF")

    alpha: float = tunable(1.0, [0.5, 1, 2, 4, 8, 16, 32], low=0.0, help="weight of the contrast")
    temperature: float = tunable(1.0, low=1e-3, help="of the contrast")
    contrast_input: str = tunable("feat", ["feat", "rep"], choices=("feat", "rep"), help="what is contrasted")
    settle: bool = tunable(False, help="g stays as in the best trial epoch, and f_c alone learns on")

    @property
    def needs_trials(self) -> bool:  # type: ignore[override]
        return self.settle

    def after_trials(self, network: InvariantNetwork) -> None:
        if self.settle:
            network.hold_featurizer()

    def invariant_terms(self, prediction: Prediction, y: Tensor) -> dict[str, Tensor]:
        """Risk on G_c and the contrast."""
        terms = {"risk": cross_entropy(prediction.logits, y).mean()}
        if self.alpha:
            z = prediction.representation if self.contrast_input == "rep" else prediction.parts.pooled()
            terms["contrast"] = self.alpha * supervised_contrast(z, y, self.temperature)
        return terms

    def loss(self, network: InvariantNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        return self.invariant_terms(network.predict(network.split(batch)), batch.y)


@register("ciga-v2")
@dataclass
class CIGAv2(CIGAv1):
    """max I(G_c; Y) + I(G_s; Y)  s.t.  CIGAv1's constraint and I(G_s; Y) <= I(G_c; Y).

    Loss: CIGAv1's + beta/N * sum of R_s * [R_c <= R_s]: the rest of the graph should explain the label too,
    but never better than G_c. The indicator carries no gradient; R_s does, and its gradient reaches the
    featurizer. With `spurious_gradient` off, as in the released code, the term trains the spurious head
    alone: beta then changes nothing that predicts, and CIGAv2 is CIGAv1.
    """

    summary = "CIGAv1, and let the rest explain the label, but never better"

    beta: float = tunable(1.0, [0.5, 1, 2, 4], low=0.0, help="weight of the spurious hinge")
    spurious_gradient: bool = tunable(True, [True, False], help="does the hinge shape the subgraph?")

    def network(self, spec: Spec, backbone: Backbone) -> InvariantNetwork:
        return InvariantNetwork(spec, backbone, **self.extraction(), spurious=True)

    def loss(self, network: InvariantNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        parts = network.split(batch)
        if not self.beta:
            return self.invariant_terms(network.predict(parts), batch.y)
        prediction = network.predict_both(parts, self.spurious_gradient)
        logits = prediction.spurious_logits
        assert logits is not None
        spurious, causal = cross_entropy(logits, batch.y), cross_entropy(prediction.logits, batch.y)
        hinge = torch.where(causal.detach() <= spurious.detach(), spurious, 0.0).mean()
        return {**self.invariant_terms(prediction, batch.y), "spurious": self.beta * hinge}
