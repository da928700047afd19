"""GSAT: an edge must earn its attention, or it is noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Inference, Method, Step, cross_entropy, register
from ciga.methods.extraction import check_budget
from ciga.methods.gsat.network import AttentionNetwork
from ciga.methods.losses import edge_prior
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.extractor import BUDGETS, Partition
from ciga.options import tunable


@register("gsat")
@dataclass
class GSAT(Method[AttentionNetwork]):
    """min E_{a ~ Bern(p)}[ CE(f(G_a), Y) ] + penalty * mean_e KL( Bern(p_e) || Bern(r) ).

    Miao et al. (2022). a is drawn from the binary concrete relaxation in training and is p in evaluation;
    r falls from `r_start` by `r_step` every `r_epochs` epochs, down to `r`. The subgraph shown is chosen
    from p by `budget` and `size`, as CIGA's is; the choice does not touch the prediction.
    """

    summary = "stochastic attention on edges, pulled towards a prior"
    extracts = True
    revision = 2  # an epoch counts only once the prior has come to rest
    barrier = False  # every edge speaks, the faint ones faintly: the whole graph is read

    penalty: float = tunable(1.0, [0.1, 0.5, 1, 2], low=0.0, help="weight of the KL term")
    r: float = tunable(0.7, [0.5, 0.6, 0.7, 0.8], low=0.01, high=0.99, help="the prior's last value")
    r_start: float = tunable(0.9, low=0.01, high=0.99, help="the prior's first value")
    r_step: float = tunable(0.1, low=0.0, help="fall of the prior")
    r_epochs: int = tunable(10, [5, 10, 20], low=1, help="epochs between two falls of the prior")
    temperature: float = tunable(1.0, low=1e-2, help="of the concrete relaxation")
    budget: str = tunable("ratio", choices=BUDGETS, help="what limits the subgraph that is shown")
    size: float = tunable(0.25, low=0.0, help="share, number or least probability of the edges shown")

    def __post_init__(self) -> None:
        check_budget(self.budget, self.size)

    def network(self, spec: Spec, backbone: Backbone) -> AttentionNetwork:
        return AttentionNetwork(spec, backbone, self.budget, self.size)

    def prior(self, epoch: int) -> float:
        """r in this epoch."""
        return max(self.r_start - self.r_step * (epoch // self.r_epochs), self.r)

    def selectable(self, epoch: int) -> bool:
        """Once the prior has come to rest: before, edges are held back by a pull that is still weakening."""
        return not self.r_step or self.prior(epoch) <= self.r + 1e-9  # .9 - .1 - .1 is not quite .7

    def loss(self, network: AttentionNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        logit = network.score(batch)
        noise = torch.rand_like(logit).logit(eps=1e-6)
        attention = ((logit + noise) / self.temperature).sigmoid()
        kl = edge_prior(logit, self.prior(step.epoch))
        risk = cross_entropy(network.predict(batch, attention), batch.y).mean()
        return {"risk": risk, "prior": self.penalty * kl}

    def infer(self, network: AttentionNetwork, batch: Batch) -> Inference:
        score = network.score(batch)
        representation = network.represent(batch, score.sigmoid())
        partition = Partition(score, self.keep(network, score, batch))
        return Inference(network.head(representation), partition, representation)

    def keep(self, network: AttentionNetwork, score: Tensor, batch: Batch) -> Tensor:
        return network.extractor.keep(score, batch)
