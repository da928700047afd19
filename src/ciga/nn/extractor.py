"""The featurizer's second half: score every edge, keep the best, give the rest to G_s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ciga.graphs.links import Bags, Links, bag
from ciga.graphs.ranking import top_within
from ciga.graphs.store import Batch

BUDGETS = ("ratio", "count", "capped", "threshold")
SCORERS = ("mlp", "inner")
#: Edges scored at once where no gradient is asked for: their hidden layer stays in the processor's cache;
#: that of all edges would be new memory from the system at every call.
CHUNK = 1024


@dataclass
class Partition:
    """Which undirected edges are in the invariant subgraph G_c; all others are in G_s."""

    score: Tensor  # [P] logit of each undirected edge
    kept: Tensor  # [P] True in G_c


class Extractor(nn.Module):
    """(node embeddings [N, d], batch) -> Partition, with one score per undirected edge.

    Scorers: `mlp`, the mean over both directions of MLP([h_u ; h_v]) (2d -> 4d -> 1), and `inner`, the
    paper's sigma(Z Z^T) with logit z_u . z_v.
    Budgets: `ratio` keeps the top ceil(size * P) of a graph's P edges, as in the paper's experiments;
    `count` keeps the top `size` edges, |G_c| <= s_c as in its theory; `capped` keeps the
    top ceil(size * min(P, most)), `most` being the edges of the largest training graph: G_c never has more
    edges than in training; `threshold` keeps the edges whose sigmoid(score) is at least `size`.
    With `noise`, training keeps the best of score + noise * Gumbel: a sample of edges, the likelier the
    better they score. A motif is then now and then left out, so its absence is no sure sign of a class.
    """

    def __init__(
        self, width: int, scorer: str, budget: str, size: float, noise: float = 0.0, most: int = 0
    ) -> None:
        super().__init__()
        self.budget, self.size, self.noise, self.most = budget, size, noise, most
        if scorer == "inner":
            self.mlp = None
        else:
            # W [h_u ; h_v] = W_u h_u + W_v h_v: two products over nodes instead of one over edges.
            self.mlp = nn.ModuleDict(
                {
                    "source": nn.Linear(width, 4 * width),
                    "target": nn.Linear(width, 4 * width, bias=False),
                    "out": nn.Linear(4 * width, 1),
                }
            )

    def score(self, h: Tensor, batch: Batch) -> Tensor:
        """One logit per undirected edge, [P]."""
        links = batch.links
        if self.mlp is None:
            logit = (links.at_source(h) * links.at_target(h)).sum(1)
        else:
            u, v, out = self.mlp["source"](h), self.mlp["target"](h), cast(nn.Linear, self.mlp["out"])
            logit = edge_logits(u, v, out.weight.squeeze(0), links) + out.bias
        total = logit.new_zeros(batch.num_pairs).index_add(0, batch.pair, logit)
        return total / torch.bincount(batch.pair, minlength=batch.num_pairs)

    def keep(self, score: Tensor, batch: Batch) -> Tensor:
        """The chosen edges, [P]: a choice, so it carries no gradient."""
        score = score.detach()
        if self.budget == "threshold":
            return score.sigmoid() >= self.size
        pairs = torch.bincount(batch.pair_batch, minlength=batch.num_graphs)
        return top_within(score, batch.pair_batch, pairs, self.quota(pairs))

    def quota(self, pairs: Tensor) -> Tensor:
        """How many of its P undirected edges each graph may keep, [G], from P [G]."""
        if self.budget == "count":
            return pairs.clamp(max=int(self.size))
        if self.budget == "capped" and self.most:
            pairs = pairs.clamp(max=self.most)
        return (pairs * self.size - 1e-6).ceil().long()

    def forward(self, h: Tensor, batch: Batch) -> Partition:
        score = self.score(h, batch)
        if not self.noise or not self.training:
            return Partition(score, self.keep(score, batch))
        gumbel = -torch.empty_like(score).exponential_().log()
        return Partition(score, self.keep(score + self.noise * gumbel, batch))


def edge_logits(u: Tensor, v: Tensor, w: Tensor, links: Links) -> Tensor:
    """w . relu(u_source + v_target) of each edge, [E], from u and v [N, k] and w [k].

    Args:
        u: What an edge's source adds [N, k].
        v: What its target adds [N, k].
        w: Weights [k].
        links: The edges.
    """
    if links.plain:
        return (links.at_source(u) + links.at_target(v)).relu() @ w
    if not torch.is_grad_enabled():
        ends = zip(links.source.split(CHUNK), links.target.split(CHUNK), strict=True)
        return torch.cat([_hidden(u, v, source, target) @ w for source, target in ends])
    logits: Tensor = cast(Any, _EdgeLogits).apply(u, v, w, links)
    return logits


def _hidden(u: Tensor, v: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """relu(u_source + v_target) of each edge, [E, k]."""
    return u.index_select(0, source).add_(v.index_select(0, target)).relu_()


class _EdgeLogits(torch.autograd.Function):
    """With its gradient written out: the hidden layer [E, k] is the largest tensor there is, and autograd
    would make three more of its size on the way back. Here g * sign(hidden) is summed as it is read."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, w: Tensor, links: Links) -> Tensor:
        hidden = _hidden(u, v, links.source, links.target)
        ctx.save_for_backward(hidden, w)
        ctx.links = links
        return hidden @ w

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        hidden, w = ctx.saved_tensors
        active = hidden.sign()

        def collected(bags: Bags) -> Tensor:
            return bag(active, bags.order, bags.start, grad.index_select(0, bags.order)) * w

        return collected(ctx.links.out_of), collected(ctx.links.into), grad @ hidden, None
