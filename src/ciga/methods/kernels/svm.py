"""A support vector machine over explicit kernel features, its C chosen on validation data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import TypeVar

from ciga.graphs.store import GraphStore
from ciga.methods.base import Context, Method
from ciga.methods.kernels.network import NEVER, FittedNetwork
from ciga.progress import Progress
from ciga.scoring import metrics
from ciga.scoring.selection import default_selector

GRID = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
BATCH = 512
#: Up to this number of graphs the kernel matrix is made once; beyond, libsvm asks for its rows.
GRAM = 10_000

F = TypeVar("F", bound=FittedNetwork, default=FittedNetwork)


class KernelMethod(Method[F]):
    """Base of the kernel methods: `learn` what the features are, then solve for every C and keep the best.

    C is chosen by the task's metric on the validation part that training would stop on (`ood_val`, else
    `id_val`), the smaller of equals; without such a part it is 1. Test data are never looked at.
    """

    closed_form: ClassVar[bool] = True

    C: float | None

    def learn(self, network: F, train: GraphStore) -> None:
        """Fix the features from the training graphs."""
        raise NotImplementedError

    def fit(self, network: F, context: Context, progress: Progress) -> None:
        splits = context.splits
        self.learn(network, splits.train)
        x, y = matrix(network, splits.train), splits.train.y.numpy()
        if len(set(y.tolist())) == 1:
            network.hold("weight", torch.zeros(x.shape[1], network.classes))
            network.hold(
                "bias", torch.full((network.classes,), NEVER).index_fill_(0, splits.train.y[:1], 0.0)
            )
            return
        gram = (x @ x.T).toarray() if x.shape[0] <= GRAM else None
        split = default_selector(splits.judging).split
        grid = (self.C,) if self.C is not None else GRID if split else (1.0,)
        best = float("-inf")
        chosen: Machine | None = None
        sign = -1 if splits.task.metric in metrics.LOWER_IS_BETTER else 1
        for i, c in enumerate(grid):
            progress(i, len(grid), f"support vector machine, C = {c:g}")
            machine = solve(c, x, y, gram)
            value = 0.0
            if split and len(grid) > 1:
                network.take(machine.classes, machine.coefficients, machine.intercepts)
                value = sign * self._score(network, splits[split], splits.task.metric)
            if chosen is None or value > best:  # NaN is never better
                best, chosen = value, machine
        assert chosen is not None
        network.take(chosen.classes, chosen.coefficients, chosen.intercepts)

    @torch.no_grad()
    def _score(self, network: FittedNetwork, store: GraphStore, metric: str) -> float:
        logits = torch.cat([network(b) for b in store.batches(BATCH, chunk=1)])
        return metrics.classification(logits, store.y)[metric]


def matrix(network: FittedNetwork, store: GraphStore) -> Any:
    """The features of all graphs as a sparse matrix [n, D]."""
    from scipy.sparse import coo_matrix

    rows, columns, values, seen = [], [], [], 0
    for batch in store.batches(BATCH, chunk=1):
        graph, feature, value = network.features(batch)
        rows.append(graph + seen)
        columns.append(feature)
        values.append(value)
        seen += batch.num_graphs
    row, column, entry = torch.cat(rows), torch.cat(columns), torch.cat(values).double()
    shape = (seen, network.weight.size(0))
    return coo_matrix((entry.numpy(), (row.numpy(), column.numpy())), shape=shape).tocsr()


@dataclass
class Machine:
    """A solved machine: one row per class, against the rest; of two classes only the second's."""

    classes: Tensor  # [k] those of the training data
    coefficients: Tensor  # [k or 1, D]
    intercepts: Tensor  # [k or 1]


def solve(c: float, x: Any, y: Any, gram: Any = None) -> Machine:
    """min |w|^2 / 2 + C sum max(0, 1 - y (w.x + b)), class by class; b is not penalised.

    `gram` is x x^T, where there is room for it. Liblinear would penalise b, which decides much where
    counts grow with the graph.

    Args:
        c: The weight C of the errors.
        x: Features of each row.
        y: The class of each row.
        gram: x x^T, where there is room for it.
    """
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC

    classes = np.unique(y)
    rows, intercepts = [], []
    for one in classes[1:] if len(classes) == 2 else classes:
        kernel = "linear" if gram is None else "precomputed"
        machine = SVC(C=c, kernel=kernel, max_iter=100_000, cache_size=500)
        with warnings.catch_warnings():
            # A large C may stop early; validation judges what it reached.
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.fit(x if gram is None else gram, y == one)
        dual = machine.dual_coef_.toarray() if gram is None else machine.dual_coef_
        rows.append((dual @ x[machine.support_]).ravel())
        intercepts.append(machine.intercept_[0])
    return Machine(
        torch.as_tensor(classes).long(),
        torch.from_numpy(np.stack(rows)).float(),
        torch.tensor(intercepts, dtype=torch.float),
    )
