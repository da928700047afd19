"""CORAL: the same mean and covariance of the representation in every environment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.environments import EnvironmentMethod, environment_means
from ciga.nn.networks import GraphNetwork
from ciga.options import tunable


def moment_distances(z: Tensor, env: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over pairs of environments of mean((m_a - m_b)^2) and of mean((C_a - C_b)^2).

    m [d] and C [d, d] are an environment's mean and covariance of z [G, d]. Over K environments the pairs'
    squared distances sum to K sum_e ||C_e||^2 - ||sum_e C_e||^2, and both come from the Gram matrix of
    the centred rows: K matrices [d, d] are never built. A single graph has no covariance; its
    environment takes part in the means only.
    """
    _, place, count = env.unique(return_inverse=True, return_counts=True)
    means = environment_means(z, env)
    number = count.numel()
    spread = means.var(0, correction=0).mean()
    mean_distance = 2 * number / max(number - 1, 1) * spread
    groups = (count > 1).sum()
    share = torch.where(count > 1, 1 / (count - 1).clamp(min=1), 0.0)[place]
    centred = (z - means[place]) * share.sqrt().unsqueeze(1)
    square = (centred @ centred.T).square()
    same = place.unsqueeze(1) == place
    pairs = (groups * (groups - 1) / 2).clamp(min=1)
    between = (square * (groups * same - 1)).sum() * (groups > 1)
    return mean_distance, between / (pairs * z.size(1) ** 2)


@register("coral")
@dataclass
class CORAL(EnvironmentMethod):
    """min R(f) + penalty * mean_{a<b} [ ||m_a - m_b||^2 / d + ||C_a - C_b||^2 / d^2 ].

    Sun & Saenko (2016), with the means aligned too; m and C are an environment's mean and covariance of z.
    """

    summary = "mean and covariance of the representation agree between environments"

    penalty: float = tunable(1.0, [0.01, 0.1, 1, 10, 100], low=0.0, help="weight of the moments' distances")

    def loss(self, network: GraphNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        z = network.represent(batch)
        mean, covariance = moment_distances(z, step.side["env"])
        return {
            "risk": cross_entropy(network.head(z), batch.y).mean(),
            "mean": self.penalty * mean,
            "covariance": self.penalty * covariance,
        }
