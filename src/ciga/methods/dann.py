"""DANN: a representation that does not tell the environment."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.environments import EnvironmentMethod
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import GraphNetwork, head
from ciga.nn.reversal import reverse
from ciga.options import tunable


class AdversarialNetwork(GraphNetwork):
    """A graph network with a second head that guesses the environment from the representation."""

    def __init__(self, spec: Spec, backbone: Backbone, environments: int) -> None:
        super().__init__(spec, backbone)
        self.discriminator = head(self.encoder.dim, environments)


@register("dann")
@dataclass
class DANN(EnvironmentMethod[AdversarialNetwork]):
    """min_{f, z} max_d R(f(z)) - penalty * CE(d(z), E)   (Ganin et al., 2016).

    The discriminator d descends its own cross-entropy, whatever the penalty; the encoder of z climbs it, with
    the penalty times Ganin's ramp 2 / (1 + exp(-10 t)) - 1, t the share of the training done.
    """

    summary = "gradient reversal against a discriminator of the environments"

    penalty: float = tunable(0.1, [0.01, 0.1, 1, 10, 100], low=0.0, help="strength of the reversed gradient")

    def network(self, spec: Spec, backbone: Backbone) -> AdversarialNetwork:
        return AdversarialNetwork(spec, backbone, self.count(spec))

    def loss(self, network: AdversarialNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        z = network.represent(batch)
        ramp = 2 / (1 + math.exp(-10 * step.number / step.total)) - 1
        guess = network.discriminator(reverse(z, self.penalty * ramp))
        return {
            "risk": cross_entropy(network.head(z), batch.y).mean(),
            "adversary": cross_entropy(guess, step.side["env"]).mean(),
        }
