"""A forest as tensors: one table of nodes for all trees, walked down by all graphs and trees at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ciga.graphs.store import Batch
from ciga.methods.forest.fingerprint import Naming, fingerprints, totals
from ciga.methods.kernels.network import Solved

#: A class that no tree has seen gets this probability, so that its logarithm is a number.
LEAST = 1e-9


class ForestNetwork(Solved):
    """Fingerprints and totals, then the mean over trees of the class shares at the leaves.

    Nodes of all trees stand in one table. A leaf is its own child; every other child stands after its parent.
    """

    feature: Tensor  # [M] the column a node asks for
    threshold: Tensor  # [M] up to this number it goes left
    left: Tensor  # [M]
    right: Tensor  # [M]
    value: Tensor  # [M, C] class shares
    root: Tensor  # [T] where each tree starts
    naming: Tensor  # [2] how nodes and edges are called

    def __init__(self, classes: int, radius: int, bits: int, totals: int = 0) -> None:
        super().__init__()
        self.classes, self.radius, self.bits, self.totals = classes, radius, bits, totals
        for name in ("feature", "left", "right", "root"):
            self.hold(name, torch.zeros(1, dtype=torch.int32))
        self.hold("threshold", torch.zeros(1))
        self.hold("value", torch.full((1, classes), 1 / classes))
        self.hold("naming", torch.zeros(2, dtype=torch.int32))

    @property
    def columns(self) -> int:
        """The number of columns that trees may ask for."""
        return self.bits + self.totals

    def counts(self, batch: Batch) -> Tensor:
        """What the trees see of each graph: its fingerprint and, if they are wanted, totals, [G, columns]."""
        batch = batch.to(self.root.device)
        nodes, edges = self.naming.tolist()
        found = fingerprints(batch, Naming(nodes, edges), self.radius, self.bits)
        return torch.cat([found, totals(batch)], 1) if self.totals else found

    def probabilities(self, counts: Tensor) -> Tensor:
        """The forest's class probabilities [G, C] for counts [G, columns]."""
        feature, left, right = self.feature.long(), self.left.long(), self.right.long()
        at = self.root.long().expand(len(counts), -1)  # [G, T]
        while True:
            down = torch.where(counts.gather(1, feature[at]) <= self.threshold[at], left[at], right[at])
            if torch.equal(down, at):
                break
            at = down
        flat = self.value.double().index_select(0, at.flatten())
        return flat.view(*at.shape, self.classes).mean(1).float()

    def forward(self, batch: Batch) -> Tensor:
        """Logits [G, C]: logarithms of the probabilities."""
        return self.probabilities(self.counts(batch)).clamp(min=LEAST).log()

    def take(self, forest: Any) -> None:
        """Hold the trees of a fitted scikit-learn forest."""
        trees = [one.tree_ for one in forest.estimators_]
        start = torch.tensor([0, *(t.node_count for t in trees)]).cumsum(0)
        tables: dict[str, list[Tensor]] = {name: [] for name in ("feature", "threshold", "left", "right")}
        shares = []
        for tree, first in zip(trees, start.tolist(), strict=False):
            own = torch.arange(first, first + tree.node_count)
            leaf = torch.as_tensor(tree.children_left) < 0
            for side, child in (("left", tree.children_left), ("right", tree.children_right)):
                tables[side].append(torch.where(leaf, own, torch.as_tensor(child) + first))
            tables["feature"].append(torch.as_tensor(tree.feature).clamp(min=0))
            tables["threshold"].append(_rounded_down(torch.as_tensor(tree.threshold)))
            share = torch.as_tensor(tree.value[:, 0])
            shares.append(share / share.sum(1, keepdim=True))
        for name, parts in tables.items():
            self.hold(name, torch.cat(parts).to(torch.float if name == "threshold" else torch.int32))
        value = torch.zeros(int(start[-1]), self.classes)
        value[:, torch.as_tensor(forest.classes_).long()] = torch.cat(shares).float()
        self.hold("value", value)
        self.hold("root", start[:-1].int())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._check()

    def _check(self) -> None:
        """Refuse tables that point outside of themselves or in a circle: a model may come from anyone."""
        size, columns = self.feature.numel(), (self.feature, self.left, self.right, self.threshold)
        fits = all(t.shape == (size,) for t in columns) and self.value.shape == (size, self.classes)
        if not fits or self.root.dim() != 1 or not self.root.numel() or self.naming.shape != (2,):
            raise RuntimeError("The tables of the forest have other sizes.")
        own = torch.arange(size, device=self.left.device)
        leaf = [child == own for child in (self.left, self.right)]
        sound = torch.equal(*leaf) and all(_within(t, own, size) for t in (self.left, self.right))
        limits = ((self.root, size), (self.feature, self.columns), (self.naming, 3))
        if not sound or not all(_within(t, 0, most) for t, most in limits):
            raise RuntimeError("The tables of the forest point to places that are not there.")


def _rounded_down(exact: Tensor) -> Tensor:
    """The largest float of single precision up to each number: no other such float changes sides."""
    near = exact.float()
    return torch.where(near.double() > exact, near.nextafter(near.new_tensor(-torch.inf)), near)


def _within(table: Tensor, low: Tensor | int, high: int) -> bool:
    return bool(((table >= low) & (table < high)).all())
