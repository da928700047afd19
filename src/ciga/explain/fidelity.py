"""How faithful the kept subgraph is to the prediction: measured by asking the model about parts alone.

A part is given to the model as a graph of its own: its edges, the nodes they join, nothing else. Members
that select edges keep all of what they are given, so that a part is judged whole. Embeddings that carry
the answer past the selection (`classifier_input=feat`) thereby show as a kept part that does not suffice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ciga.graphs.ranking import rank_within
from ciga.graphs.store import Batch
from ciga.models.model import Model

#: Random parts drawn for each graph.
DRAWS = 5
PARTS = ("whole", "kept", "rest", "random")


@dataclass
class Fidelity:
    """Probability of the class predicted from the whole graph, given only a part; per graph.

    `agrees_*` says whether the part alone leads to the same class (for random parts: the share of draws).
    """

    whole: Tensor  # [G]
    kept: Tensor  # [G]
    rest: Tensor  # [G]
    random: Tensor  # [G] mean over the draws
    agrees_kept: Tensor  # [G]
    agrees_rest: Tensor  # [G]
    agrees_random: Tensor  # [G]

    @classmethod
    def joined(cls, pieces: list[Fidelity]) -> Fidelity:
        return cls(*(torch.cat([getattr(p, name) for p in pieces]) for name in cls.__dataclass_fields__))

    def summary(self) -> dict[str, Any]:
        """Means over the graphs, with the standard fidelity gaps.

        `sufficiency` is p(whole) - p(kept), best at 0 or below; `necessity` is p(whole) - p(rest), the more
        the better; `above_random` is p(kept) - p(random): an explanation worth the name is above 0.
        `agrees_above_random` is the same of the answer. Each error is half of a 95 % interval over graphs.
        """
        mean = {name: float(getattr(self, name).double().mean()) for name in self.__dataclass_fields__}
        return {
            **mean,
            "graphs": len(self.whole),
            "sufficiency": mean["whole"] - mean["kept"],
            "necessity": mean["whole"] - mean["rest"],
            "above_random": mean["kept"] - mean["random"],
            "above_random_error": _error(self.kept - self.random),
            "agrees_above_random": mean["agrees_kept"] - mean["agrees_random"],
            "agrees_above_random_error": _error(self.agrees_kept - self.agrees_random),
        }


def _error(gap: Tensor) -> float:
    """Half of the 95 % interval of the mean of [G] differences; NaN for a single one."""
    return 1.96 * float(gap.double().std() / len(gap) ** 0.5) if len(gap) > 1 else float("nan")


def fidelity(model: Model, batch: Batch, kept: Tensor, generator: torch.Generator) -> Fidelity:
    """Ask the model about the kept part [P], the rest, and random parts as large as the kept one.

    The generator belongs to the CPU; the same one in the same state gives the same random parts.

    Args:
        model: The model to ask.
        batch: The graphs.
        kept: Whether an undirected edge was kept [P].
        generator: Draws the random parts; it belongs to the CPU.
    """
    whole = model.predict(batch).probability
    best = whole.argmax(1)
    pairs = torch.bincount(batch.pair_batch, minlength=batch.num_graphs)
    count = torch.zeros(batch.num_graphs, dtype=torch.long).index_add_(0, batch.pair_batch, kept.long())
    masks = [kept, ~kept]
    for _ in range(DRAWS):
        chance = torch.rand(batch.num_pairs, generator=generator)
        masks.append(rank_within(chance, batch.pair_batch, pairs) < count[batch.pair_batch])
    with model.keeping_all():
        found = [model.predict(part_of(batch, mask)).probability for mask in masks]
    of_best = [p.gather(1, best[:, None]).squeeze(1) for p in (whole, *found)]
    same = [(p.argmax(1) == best).float() for p in found]
    return Fidelity(
        of_best[0],
        of_best[1],
        of_best[2],
        torch.stack(of_best[3:]).mean(0),
        same[0],
        same[1],
        torch.stack(same[2:]).mean(0),
    )


def part_of(batch: Batch, mask: Tensor) -> Batch:
    """The graphs reduced to the undirected edges in `mask` [P] and the nodes they join.

    A graph of which no edge is left keeps all its nodes, bare: an empty graph would say nothing at all.
    """
    chosen = mask[batch.pair]
    present = torch.zeros(batch.num_nodes, dtype=torch.bool)
    present[batch.edge_index[:, chosen].flatten()] = True
    bare = torch.ones(batch.num_graphs, dtype=torch.bool)
    bare[batch.edge_batch[chosen]] = False
    rows = (present | bare[batch.batch]).nonzero().flatten()
    place = torch.zeros(batch.num_nodes, dtype=torch.long)
    place[rows] = torch.arange(rows.numel())
    number = mask.cumsum(0) - 1
    return replace(
        batch,
        x=batch.x[rows],
        edge_index=place[batch.edge_index[:, chosen].long()],
        edge_attr=None if batch.edge_attr is None else batch.edge_attr[chosen],
        batch=batch.batch[rows],
        edge_batch=batch.edge_batch[chosen],
        pair=number[batch.pair[chosen].long()],
        pair_batch=batch.pair_batch[mask],
        edge_truth=None if batch.edge_truth is None else batch.edge_truth[chosen],
        walks=None,  # of the part: what was cut off must not show
    )
