"""CnC: pull together what an ERM model tells apart within a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.base import Context, Method, Step, cross_entropy, register
from ciga.methods.environments import reference_logits
from ciga.methods.losses import contrast
from ciga.nn.networks import GraphNetwork
from ciga.options import tunable


@register("cnc")
@dataclass
class CNC(Method):
    """min R(f) + alpha * contrast(z) with pairs from an ERM reference model   (Zhang et al., 2022).

    To an anchor, positives are of its class but of another reference prediction, negatives of another class
    but of its own reference prediction; no other graph is in the denominator. Both are drawn for each graph
    of a batch from the whole training set, and every graph of the batch so enlarged is an anchor. The
    reference is trained for a few epochs only: one that makes no mistake has no pairs to give.
    """

    summary = "contrast same-class graphs that an ERM model tells apart"
    revision = 2

    alpha: float = tunable(1.0, [0.5, 1, 2, 4, 8, 16, 32], low=0.0, help="weight of the contrast")
    temperature: float = tunable(1.0, low=1e-3, help="of the contrast")
    reference_epochs: int = tunable(
        5, [2, 5, 10], low=0, help="epochs of the ERM reference; 0: as many as the run"
    )
    draws: int = tunable(1, [1, 2, 4], low=0, help="positives and negatives drawn for each graph of a batch")

    def prepare(self, context: Context) -> dict[str, Tensor]:
        reference = reference_logits(context, self.reference_epochs).argmax(1)
        return {"label": context.splits.train.y, "reference": reference}

    def compose(self, order: Tensor, size: int, side: Mapping[str, Tensor]) -> Iterator[Tensor]:
        label, reference = side["label"].cpu(), side["reference"].cpu()
        for rows in order.split(size):
            yield torch.cat([rows, *draw_pairs(label, reference, rows, self.draws)])

    def loss(self, network: GraphNetwork, batch: Batch, step: Step) -> dict[str, Tensor]:
        z = network.represent(batch)
        positive, negative = pairs(batch.y, step.side["reference"])
        return {
            "risk": cross_entropy(network.head(z[: step.own]), batch.y[: step.own]).mean(),
            "contrast": self.alpha * contrast(z, positive, positive | negative, self.temperature),
        }


def pairs(y: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Positives and negatives of each anchor (row), [G, G], from labels and reference predictions [G]."""
    same_class = y.unsqueeze(1) == y
    same_guess = reference.unsqueeze(1) == reference
    return same_class & ~same_guess, ~same_class & same_guess


def draw_pairs(y: Tensor, reference: Tensor, rows: Tensor, draws: int) -> tuple[Tensor, Tensor]:
    """`draws` positives and as many negatives of each graph in `rows`, from all graphs: two lists of rows.

    All positives of a graph are equally likely, so are all negatives; a graph that has none draws none.

    Args:
        y, reference: class and reference prediction of all graphs, [n].
        rows: the graphs that need pairs.
        draws: the number of positives, and of negatives, of each.
    """
    classes = int(torch.maximum(y.max(), reference.max())) + 1
    cell = y * classes + reference  # graphs of one class and one prediction are alike here
    order = cell.argsort(stable=True)
    count = torch.bincount(cell, minlength=classes**2)
    start = count.cumsum(0) - count
    kinds = torch.arange(classes**2)
    found = []
    for allowed in pairs(kinds // classes, kinds % classes):
        share = (allowed * count).double()[cell[rows]]  # [B, cells] candidates of each graph by cell
        ends = share.cumsum(1)
        ends = ends[ends[:, -1] > 0]
        at = torch.rand(ends.size(0), draws, dtype=torch.double) * ends[:, -1:]
        at = torch.minimum(at, ends[:, -1:] - 0.5)  # a product may be rounded up to the very end
        which = torch.searchsorted(ends, at, right=True)
        place = (at - (ends.gather(1, which) - count[which])).long()
        found.append(order[start[which] + torch.minimum(place, count[which] - 1)].flatten())
    return found[0], found[1]
