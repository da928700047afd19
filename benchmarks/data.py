"""The four shapes of data the table is about, each with the network the paper uses on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ciga.data.dataset import load, make
from ciga.graphs.splits import Splits
from ciga.nn.encoder import Backbone


@dataclass
class Shape:
    """A dataset, how it is trained, and how many of its training graphs one measurement takes."""

    name: str
    dataset: str
    batch_size: int
    backbone: Backbone
    graphs: int
    options: dict[str, Any] = field(default_factory=dict)
    ciga: dict[str, Any] = field(default_factory=dict)  # settings of CIGA where they change the work

    def missing(self) -> str | None:
        """Why it cannot be measured here, if so."""
        files = make(self.dataset, self.options).missing_files()
        return f"{', '.join(files)} not found: set CIGA_DATA" if files else None

    def load(self, quick: bool) -> Splits:
        """The splits, with so many training graphs in an order of no meaning."""
        splits = load(self.dataset, **self.options)
        order = torch.randperm(splits.train.num_graphs, generator=torch.Generator().manual_seed(0))
        rows = order[: 4 * self.batch_size if quick else self.graphs]
        return Splits({**splits.parts, "train": splits.train[rows]}, splits.task, splits.notes)


SPMOTIF = Shape("spmotif", "spmotif-struc", 32, Backbone(), 9000, {"bias": 0.9})
SHAPES = (
    SPMOTIF,
    Shape(
        "ec50", "drugood-ec50-assay", 128, Backbone(conv="gin", layers=4, width=128, readout="sum"), 1024,
        ciga={"size": 0.8, "classifier_input": "raw"},
    ),
    Shape(
        "cmnist", "cmnist-sp", 32, Backbone(), 1600, {"images": 2400},
        ciga={"size": 0.8, "classifier_input": "raw"},
    ),
    Shape(
        "dd", "dd", 32, Backbone(), 320,
        ciga={"size": 0.3, "classifier_input": "raw", "contrast_input": "rep"},
    ),
)  # fmt: skip
