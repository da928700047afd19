"""How each quantity of a graph goes with the label, and whether that still holds in the other parts.

Colours that turn against the label shift neither the colours nor the labels: only their tie changes. A tie
that is strong in train and gone elsewhere is a shortcut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore

Values = NDArray[Any]


def label_ties(splits: Splits, sample: int) -> dict[str, list[dict[str, Any]]]:
    """For each part but train: correlations with each class there and in train, and a test of the two."""
    ties = {part: _correlations(splits[part], splits.task.classes, sample) for part in splits}
    names, train, seen = ties["train"]
    return {part: _entries(names, train, seen, *ties[part][1:]) for part in list(splits)[1:]}


def _entries(names: list[str], train: Values, n: int, other: Values, m: int) -> list[dict[str, Any]]:
    """Compared with Fisher's z-test; `n` and `m` graphs."""
    from scipy.stats import norm

    if min(n, m) <= 3:
        return []
    gap = np.arctanh(train.clip(-0.999999, 0.999999)) - np.arctanh(other.clip(-0.999999, 0.999999))
    p = 2 * norm.sf(np.abs(gap) / np.sqrt(1 / (n - 3) + 1 / (m - 3)))
    # Of two classes one says it all.
    classes = [1] if train.shape[1] == 2 else range(train.shape[1])
    return [
        {
            "what": name,
            "class": label,
            "train_r": float(train[row, label]),
            "r": float(other[row, label]),
            "effect": float(abs(train[row, label] - other[row, label])),
            "p": float(p[row, label]),
        }
        for row, name in enumerate(names)
        for label in classes
    ]


def _correlations(store: GraphStore, classes: int, sample: int) -> tuple[list[str], Values, int]:
    """Pearson's r of sizes and mean features with the indicator of each class, [quantities, classes]."""
    draw = torch.Generator().manual_seed(0)
    some = store.subset(torch.randperm(store.num_graphs, generator=draw)[:sample].sort().values)
    nodes, edges = some.num_nodes.double(), some.num_edges.double()
    names, columns = (
        ["nodes", "edges", "degree"],
        [torch.stack([nodes, edges, edges / nodes.clamp(min=1)], 1)],
    )
    tables = (("x", some.x, some.num_nodes), ("edge_attr", some.edge_attr, some.num_edges))
    for what, table, counts in tables:
        if table is not None:
            owner = torch.arange(some.num_graphs).repeat_interleave(counts)
            total = torch.zeros(some.num_graphs, table.size(1), dtype=torch.double)
            columns.append(total.index_add_(0, owner, table.double()) / counts.clamp(min=1)[:, None])
            names += [f"{what}[{i}]" for i in range(table.size(1))]
    x = _standardised(torch.cat(columns, dim=1))
    y = _standardised(torch.nn.functional.one_hot(some.y, classes).double())
    return names, (x.T @ y / some.num_graphs).numpy(), some.num_graphs


def _standardised(table: torch.Tensor) -> torch.Tensor:
    """Columns with mean 0 and variance 1; a constant column becomes 0, and so does what it goes with."""
    centred = table - table.mean(0)
    spread = centred.square().mean(0).sqrt()
    return torch.where(spread > 1e-9, centred / spread.clamp(min=1e-9), 0.0)
