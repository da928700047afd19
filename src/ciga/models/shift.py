"""Is this graph like those the model was trained on? Four measures, calibrated on validation graphs.

- `size`: how far the numbers of nodes and edges (their logarithms) lie from the training mean, in standard
  deviations; the larger of the two.
- `features`: root mean square, over all columns, of the standardised means of a graph's node and edge
  features. A column that is constant in training speaks up when it is not constant any more.
- `embedding`: Mahalanobis distance of the graph's representation from the nearest class of the training
  graphs (Lee et al., 2018), the mean over the members of the ensemble.
- `similarity`: one minus the similarity of the nearest training graph (`ciga.models.neighbours`); not there
  in models of version 0.1.

Each is divided by its threshold, the (1 - level/4) quantile on the calibration graphs: above 1 it raises the
flag. With four measures at level/4 each, at most about `level` of graphs like the calibration graphs are
flagged. What cannot be measured (a feature too large to be squared) is infinitely far, and flagged.

The gauge also knows the training graphs again (`seen`), so that a score on them is not taken for one on new
graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ciga.errors import CigaError
from ciga.graphs.hashes import wl_hashes
from ciga.graphs.splits import Splits
from ciga.graphs.store import Batch, GraphStore
from ciga.models.neighbours import NearestGraph, Neighbours
from ciga.nn.readout import mean_of

MEASURES = ("size", "features", "embedding", "similarity")
#: A graph this near to a training graph (one minus its similarity) is never called unlike it.
LEAST_DISTANCE = 0.05
#: Reference statistics come from at most this number of training graphs, drawn with a fixed seed.
SAMPLE = 10_000
#: A column's spread is taken as at least this, so that one constant in training has a scale.
LEAST_SPREAD = 0.05
#: Share of the identity in the covariance of the embeddings.
SHRINKAGE = 0.1
#: Training sets up to this size are known again (8 bytes per graph): a model folder stays small.
REMEMBERED = 100_000

Embed = Callable[[Batch], Sequence[Tensor]]


@dataclass
class Shift:
    """What the gauge says of a batch: each measure over its threshold, [G, 4] in the order of `MEASURES`."""

    ratio: Tensor
    nearest: NearestGraph | None = None  # the training graph most like each, where the model knows them

    @property
    def score(self) -> Tensor:
        """The largest measure, [G]."""
        return self.ratio.max(1).values

    @property
    def flag(self) -> Tensor:
        """True where the graph is unlike the training data, [G]."""
        return self.score > 1

    def reasons(self) -> list[str]:
        """The measures above their thresholds, the largest first: `"size, features"`; empty without flag."""
        order = self.ratio.argsort(dim=1, descending=True).tolist()
        rows = self.ratio.tolist()
        return [
            ", ".join(MEASURES[i] for i in best if row[i] > 1) for row, best in zip(rows, order, strict=True)
        ]


@dataclass
class Gauge:
    """Reference statistics of the training graphs, and the thresholds found on calibration graphs."""

    tensors: dict[str, Tensor]
    level: float
    calibrated_on: str
    calibrated_with: int
    neighbours: Neighbours | None = None
    usual: float | None = None  # the median similarity of calibration graphs to the nearest training graph

    @classmethod
    def calibrate(
        cls, embed: Embed, splits: Splits, level: float = 0.05, neighbours: Neighbours | None = None
    ) -> Gauge:
        """Measure the training graphs, then set the thresholds on validation graphs.

        The calibration part is `id_val` where there is one. On `ood_val` the flag tolerates shifts like
        that one; on `train` itself, the last resort, it is a little too eager.

        Args:
            embed: the model's representations of a batch.
            splits: the data.
            level: the share of graphs like the calibration graphs that may be flagged.
            neighbours: those of the training graphs, if they are known already.
        """
        train = _some(splits.train)
        sizes, means, embedded = _all(train, embed)
        tensors = {"size.mean": sizes.mean(0), "size.std": sizes.std(0, correction=0).clamp(min=LEAST_SPREAD)}
        tensors |= {
            "features.mean": means.mean(0),
            "features.std": means.std(0, correction=0).clamp(min=LEAST_SPREAD),
        }
        for i, h in enumerate(embedded):
            tensors |= {
                f"embedding.{k}.{i}": v for k, v in _gaussian(h, train.y, splits.task.classes).items()
            }
        tensors["threshold"] = torch.ones(len(MEASURES))
        if splits.train.num_graphs <= REMEMBERED:
            tensors["seen"] = torch.from_numpy(np.unique(wl_hashes(splits.train)).view(np.int64))
        part = next(name for name in ("id_val", "ood_val", "train") if name in splits)
        gauge = cls(tensors, level, part, splits[part].num_graphs, neighbours or Neighbours.of(splits.train))
        some = _some(splits[part])
        found = [gauge.measure(b, embed(b), some) for b in some.batches(256, chunk=4)]
        raw = torch.cat([one.ratio for one in found])
        if raw.size(1) < len(MEASURES):  # SMILES in training only
            gauge.neighbours = None
        if gauge.neighbours is not None:
            alike = 1 - raw[:, -1]
            if part == "train":  # each is its own nearest: ask how near they are to one another
                alike = gauge.neighbours.among_themselves()
                places = torch.linspace(0, len(alike) - 1, len(raw)).round().long()
                raw[:, -1] = 1 - alike.sort().values[places]
            gauge.usual = float(alike.median())
        quantile = raw.quantile(1 - level / len(MEASURES), dim=0, interpolation="higher")
        gauge.tensors["threshold"] = quantile.clamp(1e-6, torch.finfo(quantile.dtype).max)
        if gauge.neighbours is not None:  # where calibration graphs repeat training graphs, near is not zero
            gauge.tensors["threshold"][-1].clamp_(min=LEAST_DISTANCE)
        return gauge

    def measure(self, batch: Batch, embedded: Sequence[Tensor], store: GraphStore | None = None) -> Shift:
        """The measures of each graph, over their thresholds.

        Args:
            batch: some graphs of `store`.
            embedded: the model's representations of them.
            store: where they come from. Without its SMILES molecules are not compared with training ones.
        """
        t = {k: v.to(batch.x.device) for k, v in self.tensors.items() if k != "seen"}
        sizes, means = _sizes(batch), _means(batch)
        size = ((sizes - t["size.mean"]) / t["size.std"]).abs().max(1).values
        features = ((means - t["features.mean"]) / t["features.std"]).square()
        features = features.mean(1).sqrt() if features.size(1) else size.new_zeros(batch.num_graphs)
        distances = []
        for i, h in enumerate(embedded):
            gap = h.float().unsqueeze(1) - t[f"embedding.mean.{i}"]  # [G, C, d]
            squared = torch.einsum("gcd,de,gce->gc", gap, t[f"embedding.precision.{i}"], gap)
            distances.append(squared.clamp(min=0).sqrt().min(1).values)
        embedding = torch.stack(distances).mean(0) if distances else size.new_zeros(batch.num_graphs)
        measured, found = [size, features, embedding], None
        if self.neighbours is not None:
            found = self.neighbours(batch, store)
        if found is not None:
            measured.append(1 - found.similarity.to(size.device))
        ratio = torch.stack(measured, 1) / t["threshold"][: len(measured)]
        return Shift(ratio.masked_fill(~ratio.isfinite(), torch.inf), found)

    @property
    def chance(self) -> float:
        """The largest share of graphs like the calibration graphs that is flagged, on average.

        Above the largest of n values another one lies once in n + 1 times: with few calibration graphs no
        threshold is as strict as `level` asks for.
        """
        one = self.level / len(MEASURES)
        n = self.calibrated_with
        above = max(1, n - math.ceil((n - 1) * (1 - one)))  # order statistics beyond the threshold, and it
        return min(1.0, len(MEASURES) * above / (n + 1))

    def seen(self, store: GraphStore) -> Tensor | None:
        """True for graphs that are in the training data, in whatever node order [G]; None: not remembered."""
        known = self.tensors.get("seen")
        if known is None:
            return None
        return torch.from_numpy(np.isin(wl_hashes(store), known.numpy().view(np.uint64)))

    def about(self) -> dict[str, Any]:
        """What is not a tensor."""
        return {
            "level": self.level,
            "calibrated_on": self.calibrated_on,
            "calibrated_with": self.calibrated_with,
            "usual": self.usual,
        }

    @classmethod
    def restore(
        cls, tensors: dict[str, Tensor], about: dict[str, Any], members: int, features: int, classes: int
    ) -> Gauge:
        """A gauge from a file; refuses shapes that do not fit the model, and values that would never flag.

        Args:
            tensors: What the file holds.
            about: What model.json says of the gauge.
            members: The number of networks of the model.
            features: The number of node and edge features.
            classes: The number of classes.
        """
        gauge = cls(
            tensors, float(about["level"]), str(about["calibrated_on"]), int(about["calibrated_with"])
        )
        gauge.usual = None if about.get("usual") is None else float(about["usual"])
        measures = tensors["threshold"].numel()
        if measures not in (len(MEASURES) - 1, len(MEASURES)):
            raise CigaError("The shift gauge does not fit the model.")
        wanted: dict[str, tuple[int, ...]] = {
            "size.mean": (2,),
            "size.std": (2,),
            "threshold": (measures,),
        }
        wanted |= {"features.mean": (features,), "features.std": (features,)}
        if "seen" in tensors:
            wanted["seen"] = (tensors["seen"].numel(),)
        for i in range(members):
            mean = tensors.get(f"embedding.mean.{i}", torch.zeros(0))
            width = mean.size(-1)
            wanted |= {f"embedding.mean.{i}": (classes, width), f"embedding.precision.{i}": (width, width)}
        if {k: tuple(v.shape) for k, v in tensors.items()} != wanted or any(
            v.dtype != (torch.int64 if k == "seen" else torch.float32) for k, v in tensors.items()
        ):
            raise CigaError("The shift gauge does not fit the model.")
        positive = all(bool((tensors[k] > 0).all()) for k in ("size.std", "features.std", "threshold"))
        if not positive or not all(bool(v.isfinite().all()) for v in tensors.values()):
            raise CigaError("The shift gauge holds values that are not numbers, or not positive.")
        return gauge


def _sizes(batch: Batch) -> Tensor:
    """log(1 + nodes) and log(1 + edges) of each graph, [G, 2]."""
    counts = [torch.bincount(b, minlength=batch.num_graphs) for b in (batch.batch, batch.edge_batch)]
    return torch.stack(counts, 1).float().log1p()


def _means(batch: Batch) -> Tensor:
    """Mean node features and mean edge features of each graph, side by side."""
    nodes = mean_of(batch.x.float(), batch.batch, batch.num_graphs)
    if batch.edge_attr is None:
        return nodes
    return torch.cat([nodes, mean_of(batch.edge_attr.float(), batch.edge_batch, batch.num_graphs)], 1)


def _all(store: GraphStore, embed: Embed) -> tuple[Tensor, Tensor, list[Tensor]]:
    parts = [(_sizes(b), _means(b), embed(b)) for b in store.batches(256, chunk=4)]
    sizes, means, embedded = zip(*parts, strict=True)
    return torch.cat(sizes), torch.cat(means), [torch.cat(h) for h in zip(*embedded, strict=True)]


def _some(store: GraphStore) -> GraphStore:
    if store.num_graphs <= SAMPLE:
        return store
    order = torch.randperm(store.num_graphs, generator=torch.Generator().manual_seed(0))
    return store.subset(order[:SAMPLE].sort().values)


def _gaussian(h: Tensor, y: Tensor, classes: int) -> dict[str, Tensor]:
    """Class means [C, d] and the shared precision [d, d] of embeddings [n, d]."""
    h, y = h.double().cpu(), y.cpu()
    mean = mean_of(h, y, classes)
    gap = h - mean[y]
    # A class that training lacks has no place of its own: it stands where another class does.
    mean[torch.bincount(y, minlength=classes) == 0] = mean[int(y[0])].clone()
    covariance = gap.T @ gap / max(len(h), 1)
    scale = covariance.diagonal().mean().clamp(min=1e-8)
    ridge = scale * torch.eye(h.size(1), dtype=torch.double)
    precision = torch.linalg.inv((1 - SHRINKAGE) * covariance + SHRINKAGE * ridge)
    return {"mean": mean.float(), "precision": precision.float().contiguous()}
