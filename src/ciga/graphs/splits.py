"""Named parts of a dataset, what is to be predicted, and how it is scored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape

import numpy as np
import torch

from ciga.errors import CigaError
from ciga.graphs.hashes import exact_hashes
from ciga.graphs.store import GraphStore

#: Every name a part may have. `id_*` is drawn like the training data, `ood_*` is shifted.
SPLIT_NAMES = ("train", "id_val", "ood_val", "id_test", "ood_test")


@dataclass(frozen=True)
class Task:
    """What a model of this data has to do."""

    classes: int
    metric: str = "accuracy"
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Splits:
    """The parts of a dataset: `train`, and those of `id_val`, `ood_val`, `id_test`, `ood_test` it has."""

    parts: Mapping[str, GraphStore]
    task: Task
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.parts:
            if name not in SPLIT_NAMES:
                raise CigaError(f"A split cannot be called '{name}': it is one of {', '.join(SPLIT_NAMES)}.")
        if "train" not in self.parts:
            raise CigaError("A dataset needs a part called 'train'.")
        for name, part in self.parts.items():
            if not part.num_graphs:
                raise CigaError(f"The split '{name}' has no graphs.")
            if int(part.y.max()) >= self.task.classes or int(part.y.min()) < 0:
                raise CigaError(f"The split '{name}' has labels outside 0…{self.task.classes - 1}.")
            for what in ("num_features", "edge_features"):
                mine, theirs = getattr(part, what), getattr(self.train, what)
                if mine != theirs:
                    raise CigaError(
                        f"The split '{name}' has {mine} {what.replace('_', ' ')}, 'train' has {theirs}."
                    )

    @property
    def train(self) -> GraphStore:
        return self.parts["train"]

    def __getitem__(self, name: str) -> GraphStore:
        return self.parts[name]

    def _repr_html_(self) -> str:
        """A table of the parts, for notebooks."""
        names = self.task.class_names or tuple(map(str, range(self.task.classes)))
        head = ["part", "graphs", "mean nodes", "mean edges", *names]
        rows = []
        for name, part in self.parts.items():
            graphs = part.num_graphs
            means = (f"{part.x.size(0) / graphs:.1f}", f"{part.edge_index.size(1) / graphs:.1f}")
            counts = torch.bincount(part.y, minlength=self.task.classes).tolist()
            rows.append([name, f"{graphs:,}", *means, *(f"{count:,}" for count in counts)])
        lines = [_row("th", head), *(_row("td", row) for row in rows)]
        return f"<table>{''.join(lines)}</table><p>metric: {escape(self.task.metric)}</p>"

    def __iter__(self) -> Iterator[str]:
        """The names of the parts, in the order of `SPLIT_NAMES`."""
        return iter([n for n in SPLIT_NAMES if n in self.parts])

    @property
    def judging(self) -> tuple[str, ...]:
        """The parts that can tell a better model from a worse one: those with more than one class."""
        return tuple(name for name in self if (self[name].y != self[name].y[0]).any())

    def __contains__(self, name: object) -> bool:
        return name in self.parts

    def fingerprint(self) -> str:
        """A hash over the content of all parts."""
        text = ";".join(f"{name}={self.parts[name].fingerprint()}" for name in self)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def leakage(self) -> dict[str, int]:
        """How many graphs of each other part also stand, exactly equal, in `train`."""
        seen = exact_hashes(self.train)
        return {n: int(np.isin(exact_hashes(self.parts[n]), seen).sum()) for n in self if n != "train"}

    def in_distribution(self, seed: int) -> Splits:
        """`train` and `id_val` alone; without an `id_val`, a tenth of `train` is held out in its place.

        For helper models that must not see an OOD label, not even to choose their epoch by.
        """
        if "id_val" in self or self.train.num_graphs < 2:
            parts = {n: self.parts[n] for n in ("train", "id_val") if n in self}
        else:
            order = torch.randperm(self.train.num_graphs, generator=torch.Generator().manual_seed(seed))
            held = -(-self.train.num_graphs // 10)
            parts = {"train": self.train.subset(order[held:]), "id_val": self.train.subset(order[:held])}
        return replace(self, parts=parts)

    def shuffled(self, seed: int) -> Splits:
        """The IID oracle's data: the paper's train, validation and test graphs pooled, and dealt out again.

        The parts keep their sizes. The paper has one validation and one test part: where the data has both
        `ood_val` and `id_val` (`ood_test` and `id_test`), the in-distribution one is ours and is left out.
        """
        drop = {n for n in ("id_val", "id_test") if n.replace("id", "ood") in self}
        names = [n for n in self if n not in drop]
        pooled = GraphStore.concat([self.parts[n] for n in names])
        order = torch.randperm(pooled.num_graphs, generator=torch.Generator().manual_seed(seed))
        sizes = [self.parts[n].num_graphs for n in names]
        parts = {n: pooled.subset(rows) for n, rows in zip(names, order.split(sizes), strict=True)}
        return replace(self, parts=parts, notes={**self.notes, "protocol": "iid"})


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
