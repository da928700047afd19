"""IRMv1: a classifier on top that no environment would scale differently."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Method, Step, cross_entropy, register
from ciga.methods.environments import EnvironmentMethod, environment_means, irm_penalty
from ciga.nn.networks import GraphNetwork
from ciga.options import tunable


@dataclass
class IRMv1(Method):
    """The objective, whoever found the environments `step.side["env"]`.

    The penalty is a sum over the environments of a batch: where a batch has hundreds, a weight counts
    for more than where it has two.
    """

    penalty: float = tunable(1.0, [0.01, 0.1, 1, 10, 100], low=0.0, help="weight of the squared gradients")
    delay: int = tunable(0, [0, 500], low=0, help="optimisation steps before the penalty counts")

    def risk(self, risks: Tensor, env: Tensor) -> Tensor:
        """The mean over environments of their mean risk, from the samples' [G]."""
        return environment_means(risks, env).mean()

    def terms(self, logits: Tensor, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Risk and penalty from the logits [G, C]."""
        env = step.side["env"]
        weight = self.penalty if step.number >= self.delay else 0.0
        return {
            "risk": self.risk(cross_entropy(logits, batch.y), env),
            "irm": weight * irm_penalty(logits, batch.y, env),
        }

    def loss(self, network: GraphNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        return self.terms(network(batch), batch, step)


@register("irm")
@dataclass
class IRM(IRMv1, EnvironmentMethod):
    """min mean_e R_e(f) + penalty * sum_e || d R_e(w * f) / dw at w = 1 ||^2   (Arjovsky et al., 2019)."""

    summary = "the same classifier is optimal in every environment"
    scms = ("PIIF",)
