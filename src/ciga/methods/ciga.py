"""CIGA: pick the invariant subgraph, predict from it alone (Chen et al., NeurIPS 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ciga.data.store import Batch
from ciga.errors import UsageError
from ciga.losses import supervised_contrast
from ciga.methods.method import Method, Step, cross_entropy, register
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.extractor import BUDGETS, SCORERS
from ciga.nn.networks import InvariantNetwork, Prediction
from ciga.options import tunable


@register("ciga-v1")
@dataclass
class CIGAv1(Method):
    """max I(G_c; Y)  s.t.  G_c in argmax I(G_c; G~_c | Y), |G_c| <= s_c.

    Loss: CE(f_c(G_c), Y) + alpha * supervised contrast of G_c's representation. `size` is s_c: the
    share of edges kept (budget `ratio`), their number (`count`), or the least probability (`threshold`).
    """

    summary = "contrast same-class invariant subgraphs"
    extracts = True
    scms = ("FIIF", "PIIF")

    budget: str = tunable("ratio", choices=BUDGETS, help="what limits the invariant subgraph")
    size: float = tunable(0.25, [0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], low=0.0, help="s_c")
    alpha: float = tunable(1.0, [0.5, 1, 2, 4, 8, 16, 32], low=0.0, help="weight of the contrast")
    temperature: float = tunable(1.0, low=1e-3, help="of the contrast")
    classifier_input: str = tunable(
        "feat", ["feat", "raw"], choices=("feat", "raw"), help="node features f_c sees"
    )
    contrast_input: str = tunable("feat", ["feat", "rep"], choices=("feat", "rep"), help="what is contrasted")
    scorer: str = tunable("mlp", choices=SCORERS, help="MLP([h_u; h_v]) or sigma(Z Z^T)")
    classifier_width: int | None = tunable(None, low=1, help="hidden dimension of f_c, where it differs")

    def __post_init__(self) -> None:
        if self.budget == "count" and (self.size < 1 or self.size != int(self.size)):
            raise UsageError(f"budget=count keeps a whole number of edges, not size={self.size}: try size=8.")
        if self.budget != "count" and not 0 < self.size <= 1:
            raise UsageError(f"budget={self.budget} takes a size in (0, 1], not {self.size}.")

    def network(self, spec: Spec, backbone: Backbone) -> InvariantNetwork:
        return InvariantNetwork(
            spec,
            backbone,
            scorer=self.scorer,
            budget=self.budget,
            size=self.size,
            classifier_input=self.classifier_input,
            classifier_width=self.classifier_width,
            spurious=isinstance(self, CIGAv2),
        )

    def invariant_terms(self, prediction: Prediction, y: Tensor) -> dict[str, Tensor]:
        """Risk on G_c and the contrast."""
        terms = {"risk": cross_entropy(prediction.logits, y).mean()}
        if self.alpha:
            z = prediction.representation if self.contrast_input == "rep" else prediction.parts.pooled()
            terms["contrast"] = self.alpha * supervised_contrast(z, y, self.temperature)
        return terms

    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        assert isinstance(network, InvariantNetwork)
        return self.invariant_terms(network.predict(network.split(batch)), batch.y)

    def edge_scores(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        assert isinstance(network, InvariantNetwork)
        partition = network.split(batch).partition
        return partition.score, partition.kept

    def infer(self, network: nn.Module, batch: Batch) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        assert isinstance(network, InvariantNetwork)
        prediction = network.predict(network.split(batch))
        partition = prediction.parts.partition
        return prediction.logits, (partition.score, partition.kept)


@register("ciga-v2")
@dataclass
class CIGAv2(CIGAv1):
    """max I(G_c; Y) + I(G_s; Y)  s.t.  CIGAv1's constraint and I(G_s; Y) <= I(G_c; Y).

    Loss: CIGAv1's + beta/N * sum of R_s * [R_c <= R_s]: the rest of the graph shall explain the label too,
    but never better than G_c. The indicator carries no gradient. With `spurious_gradient` off, the term
    trains the spurious head alone, as in the released code, and the subgraph is CIGAv1's.
    """

    summary = "CIGAv1, and let the rest explain the label, but never better"

    beta: float = tunable(1.0, [0.5, 1, 2, 4], low=0.0, help="weight of the spurious hinge")
    spurious_gradient: bool = tunable(False, [True, False], help="does the hinge shape the subgraph?")

    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        assert isinstance(network, InvariantNetwork)
        parts = network.split(batch)
        if not self.beta:
            return self.invariant_terms(network.predict(parts), batch.y)
        prediction = network.predict_both(parts, self.spurious_gradient)
        logits = prediction.spurious_logits
        assert logits is not None
        spurious, causal = cross_entropy(logits, batch.y), cross_entropy(prediction.logits, batch.y)
        hinge = torch.where(causal.detach() <= spurious.detach(), spurious, 0.0).mean()
        return {**self.invariant_terms(prediction, batch.y), "spurious": self.beta * hinge}
