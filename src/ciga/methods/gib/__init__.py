"""GIB: the subgraph that says much about the label and little about the rest of the graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.graphs.topology import ends
from ciga.methods.base import Inference, Method, Step, cross_entropy, register
from ciga.methods.gib.network import AssignmentNetwork, connectivity
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.extractor import Partition
from ciga.options import tunable


@register("gib")
@dataclass
class GIB(Method[AssignmentNetwork]):
    """min CE(f(G_sub), Y) + penalty * I(G_sub; G) + connect * || norm(S^T A S) - I ||_F  (Yu et al., 2021).

    S assigns each node softly to the subgraph; I is the Donsker-Varadhan bound, its critic brought up to
    date by `inner_steps` steps before each step of the network. An edge is in the subgraph as its two ends
    are, with probability p_u p_v; it is shown as kept where both are more in than out.
    """

    summary = "a subgraph that tells the label and little else of the graph"
    extracts = True
    barrier = False  # nodes are assigned softly, and embedded with all their neighbours
    scms = ("FIIF",)

    penalty: float = tunable(0.1, [0.01, 0.1, 1], low=0.0, help="weight of the mutual information")
    connect: float = tunable(1.0, [0.1, 1, 5], low=0.0, help="weight of the connectivity term")
    inner_steps: int = tunable(5, [1, 5, 10, 20], low=1, help="the critic's steps before each step")

    @property
    def critic_steps(self) -> int:  # type: ignore[override]
        return self.inner_steps

    def network(self, spec: Spec, backbone: Backbone) -> AssignmentNetwork:
        return AssignmentNetwork(spec, backbone)

    def critic_parameters(self, network: AssignmentNetwork) -> list[nn.Parameter]:
        return list(network.critic.parameters())

    def critic_loss(self, network: AssignmentNetwork, batch: Batch, step: Step) -> Tensor:
        with torch.no_grad():
            _, part, whole = network.embed(batch)
        return -network.information(part, whole)

    def loss(self, network: AssignmentNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        logit, part, whole = network.embed(batch)
        return {
            "risk": cross_entropy(network.head(part), batch.y).mean(),
            "information": self.penalty * network.information(part, whole),
            "connectivity": self.connect * connectivity(logit.sigmoid(), batch),
        }

    def infer(self, network: AssignmentNetwork, batch: Batch) -> Inference:
        logit, part, _ = network.embed(batch)
        u, v = ends(batch)
        both = (nn.functional.logsigmoid(logit[u]) + nn.functional.logsigmoid(logit[v])).clamp(max=-1e-6)
        score = both - (-torch.expm1(both)).log()
        partition = Partition(score, (logit[u] >= 0) & (logit[v] >= 0))
        return Inference(network.head(part), partition, part)

    def keep(self, network: AssignmentNetwork, score: Tensor, batch: Batch) -> Tensor:
        return score.sigmoid() >= 0.25  # as where both ends are just more in than out
