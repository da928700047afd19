"""InvRat: from the extracted subgraph, knowing the environment must not help."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.environments import EnvironmentMethod
from ciga.methods.extraction import ExtractingMethod
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import InvariantNetwork, head
from ciga.nn.reversal import reverse
from ciga.options import tunable


class AwareNetwork(InvariantNetwork):
    """An invariant network with a head f_s that sees the environment beside the subgraph's representation."""

    def __init__(self, spec: Spec, backbone: Backbone, environments: int, **extraction: object) -> None:
        super().__init__(spec, backbone, **extraction, spurious=False)  # type: ignore[arg-type]
        width = self.classifier.dim
        self.environment = nn.Embedding(environments, width)
        self.aware = head(2 * width, spec.classes)

    def predict_aware(self, representation: Tensor, env: Tensor) -> Tensor:
        """Logits [G, C] of f_s from the representation [G, d] of G_c and the environment [G]."""
        out: Tensor = self.aware(torch.cat([representation, self.environment(env)], 1))
        return out


@register("invrat")
@dataclass
class InvRat(EnvironmentMethod[AwareNetwork], ExtractingMethod[AwareNetwork]):
    """min_{g, f_c} max_{f_s} R(f_c(g)) + penalty * h( R(f_c(g)) - R_e(f_s(g), E) ), h(t) = max(t, 0).

    Chang et al. (2020) as the paper's appendix puts it: f_s predicts from the subgraph and the environment,
    f_c from the subgraph alone; where f_s does better, the subgraph depends on the environment. f_s is a
    head beside f_c's, on the same representation. One pass plays the game: f_s always descends its own risk,
    and the reversed gradient makes the rest climb it while the gap is open.
    """

    summary = "knowing the environment must not help to predict from the subgraph"
    scms = ("PIIF",)

    penalty: float = tunable(1.0, [0.01, 0.1, 1, 10, 100], low=0.0, help="weight of the gap between risks")

    def network(self, spec: Spec, backbone: Backbone) -> AwareNetwork:
        return AwareNetwork(spec, backbone, self.count(spec), **self.extraction())

    def loss(self, network: AwareNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        env = step.side["env"]
        prediction = network.predict(network.split(batch))
        agnostic = cross_entropy(prediction.logits, batch.y).mean()
        with torch.no_grad():
            aware = network.predict_aware(prediction.representation, env)
            gap_open = (agnostic > cross_entropy(aware, batch.y).mean()).float()
        against = reverse(prediction.representation, self.penalty * gap_open)
        aware_risk = cross_entropy(network.predict_aware(against, env), batch.y).mean()
        gap = (agnostic - aware_risk.detach()).clamp(min=0)
        return {"risk": agnostic, "gap": self.penalty * gap, "aware": aware_risk}
