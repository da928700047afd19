"""GroupDRO: the worst environment counts most."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.environments import EnvironmentMethod, environment_means
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import GraphNetwork
from ciga.options import tunable


class GroupNetwork(GraphNetwork):
    """A graph network that carries the logarithms of the environments' weights, so a checkpoint has them."""

    log_weight: Tensor

    def __init__(self, spec: Spec, backbone: Backbone, environments: int) -> None:
        super().__init__(spec, backbone)
        self.register_buffer("log_weight", torch.zeros(environments).log_softmax(0))


@register("groupdro")
@dataclass
class GroupDRO(EnvironmentMethod[GroupNetwork]):
    """min_f max_q sum_e q_e R_e(f), with q_e <- q_e exp(rate * R_e) / Z at every step.

    Sagawa et al. (2020). An environment without a graph in the batch has no risk: its weight only follows Z,
    and the others' weights are scaled to sum to one, so that the loss stays a mean however many are absent.
    """

    summary = "exponentiated-gradient weights on the worst environments"

    rate: float = tunable(0.01, [0.001, 0.01, 0.1], low=0.0, help="step size of the environments' weights")

    def network(self, spec: Spec, backbone: Backbone) -> GroupNetwork:
        return GroupNetwork(spec, backbone, self.count(spec))

    def loss(self, network: GroupNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        env = step.side["env"]
        present = env.unique()
        risks = environment_means(cross_entropy(network(batch), batch.y), env)
        with torch.no_grad():
            log_weight = network.log_weight.index_add(0, present, self.rate * risks)
            network.log_weight.copy_(log_weight.log_softmax(0))
        weight = network.log_weight[present].softmax(0)
        return {"worst": (weight * risks).sum()}
