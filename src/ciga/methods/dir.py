"""DIR: risks under interventions on the spurious part must be low, and all alike."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.extraction import ExtractingMethod
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import InvariantNetwork
from ciga.options import tunable


def intervened_risks(causal: Tensor, spurious: Tensor, y: Tensor) -> Tensor:
    """R(do(S = s_j)) for every graph j of the batch, [G]: mean over graphs i of CE(c_i * sigma(s_j), y_i).

    Args:
        causal, spurious: logits [G, C] from G_c and from G_s.
    """
    joint = causal.unsqueeze(0) * spurious.sigmoid().unsqueeze(1)  # [G interventions, G graphs, C]
    return torch.nn.functional.cross_entropy(joint.mT, y.expand(y.numel(), -1), reduction="none").mean(1)


@register("dir")
@dataclass
class DIR(ExtractingMethod):
    """min E_s[ R(h(G) | do(S = s)) ] + penalty * Var_s[ R(h(G) | do(S = s)) ]  (Wu et al., 2022).

    The interventions are the spurious parts of the batch: each graph's G_c is judged beside every G_s, the
    two predictions joined as c_i * sigma(s_j). The spurious head learns from its own cross-entropy alone,
    on a representation whose gradient is stopped: it should know the shortcut, not shape the subgraph.
    Predictions come from G_c.
    """

    summary = "mean and variance of the risk under interventions on the spurious part"
    scms = ("FIIF",)

    penalty: float = tunable(
        1.0, [0.01, 0.1, 1, 10, 100], low=0.0, help="weight of the variance over interventions"
    )

    def network(self, spec: Spec, backbone: Backbone) -> InvariantNetwork:
        return InvariantNetwork(spec, backbone, **self.extraction(), spurious=True)

    def loss(self, network: InvariantNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        prediction = network.predict_both(network.split(batch), spurious_gradient=False)
        spurious = prediction.spurious_logits
        assert spurious is not None
        risks = intervened_risks(prediction.logits, spurious.detach(), batch.y)
        return {
            "risk": risks.mean(),
            "variance": self.penalty * risks.var(correction=0),
            "shortcut": cross_entropy(spurious, batch.y).mean(),
        }
