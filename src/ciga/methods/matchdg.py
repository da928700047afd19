"""MatchDG: learn which graphs of different environments belong together, then pull those together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ciga.graphs.store import Batch
from ciga.methods.base import Step, cross_entropy, register
from ciga.methods.environments import EnvironmentMethod
from ciga.methods.losses import contrast
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.networks import GraphNetwork
from ciga.nn.readout import Readout
from ciga.options import tunable


class MatchNetwork(GraphNetwork):
    """A graph network, and beside it an encoder of its own whose space tells who matches whom."""

    def __init__(self, spec: Spec, backbone: Backbone) -> None:
        super().__init__(spec, backbone)
        self.matcher = Encoder(spec.features, spec.edge_features, backbone, spec.degrees)
        self.match_readout = Readout(backbone.readout, self.matcher.dim)

    def match_space(self, batch: Batch) -> Tensor:
        """Where the matcher puts each graph, [G, d]."""
        return self.match_readout(self.matcher(self.gate(batch)), batch.batch, batch.num_graphs)


def nearest(u: Tensor, allowed: Tensor) -> Tensor:
    """True at each row's nearest allowed column by cosine, [G, G]; a row without allowed columns has none."""
    direction = normalize(u.detach(), dim=1)
    similarity = (direction @ direction.T).masked_fill(~allowed, -torch.inf)
    best = similarity.argmax(1, keepdim=True)
    return torch.zeros_like(allowed).scatter(1, best, True) & allowed


@register("matchdg")
@dataclass
class MatchDG(EnvironmentMethod[MatchNetwork]):
    """min R(f) + penalty * mean_i || z_i - z_m(i) ||^2 / d, m(i) the match of i   (Mahajan et al., 2021).

    Matches are of the same class and of another environment. For the first `match_epochs` the matcher learns
    by contrast against other classes: in the first epoch all such graphs of the batch are positives, then
    the nearest one, chosen anew each time. After that it is frozen, and the nearest is the match.
    """

    summary = "same-class graphs of different environments are matched, then aligned"
    scms = ("FIIF",)

    penalty: float = tunable(1.0, [0.01, 0.1, 1, 10, 100], low=0.0, help="weight of the matches' distances")
    match_epochs: int = tunable(5, [2, 5, 10], low=1, help="epochs in which the matcher learns")
    temperature: float = tunable(0.1, [0.05, 0.1, 1.0], low=1e-3, help="of the matcher's contrast")

    def network(self, spec: Spec, backbone: Backbone) -> MatchNetwork:
        return MatchNetwork(spec, backbone)

    def loss(self, network: MatchNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        env, z = step.side["env"], network.represent(batch)
        risk = cross_entropy(network.head(z), batch.y).mean()
        same_class = batch.y.unsqueeze(1) == batch.y
        allowed = same_class & (env.unsqueeze(1) != env)
        matching = step.epoch < self.match_epochs
        network.matcher.train(network.training and matching)
        if matching:
            u = network.match_space(batch)
            positive = allowed if step.epoch == 0 else nearest(u, allowed)
            return {"risk": risk, "match": contrast(u, positive, positive | ~same_class, self.temperature)}
        with torch.no_grad():
            match = nearest(network.match_space(batch), allowed)
        one, other = match.nonzero(as_tuple=True)
        distance = (z[one] - z[other]).square().sum() / (z.size(1) * max(one.numel(), 1))
        return {"risk": risk, "distance": self.penalty * distance}
