"""V-REx: equal risk in every environment."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.environments import EnvironmentMethod, environment_means
from ciga.nn.networks import GraphNetwork
from ciga.options import tunable


@register("vrex")
@dataclass
class VREx(EnvironmentMethod):
    """min mean_e R_e(f) + penalty * Var_e R_e(f)   (Krueger et al., 2021).

    The variance is that of the environments of a batch (divided by their number, not one less), so a
    batch with one environment has variance 0.
    """

    summary = "the risks of the environments must not differ"

    penalty: float = tunable(1.0, [0.01, 0.1, 1, 10, 100], low=0.0, help="weight of the risks' variance")
    delay: int = tunable(0, [0, 500], low=0, help="optimisation steps before the penalty counts")

    def loss(self, network: GraphNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        risks = environment_means(cross_entropy(network(batch), batch.y), step.side["env"])
        weight = self.penalty if step.number >= self.delay else 0.0
        return {"risk": risks.mean(), "variance": weight * risks.var(correction=0)}
