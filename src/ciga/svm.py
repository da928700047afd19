"""A linear support vector machine over explicit kernel features, its C chosen on validation data."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import torch
from torch import nn

from ciga import metrics
from ciga.data.catalog import Progress
from ciga.data.store import GraphStore
from ciga.methods.method import Context, Method
from ciga.nn.fitted import NEVER, FittedNetwork
from ciga.selection import default_selector

GRID = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
BATCH = 512


class KernelMethod(Method):
    """Base of the kernel methods: `learn` what the features are, then solve for every C and keep the best.

    C is chosen by the task's metric on the validation part that training would stop on (`ood_val`, else
    `id_val`), the smaller of equals; without such a part it is 1. Test data are never looked at.
    """

    closed_form: ClassVar[bool] = True

    C: float | None

    def learn(self, network: nn.Module, train: GraphStore) -> None:
        """Fix the features from the training graphs."""
        raise NotImplementedError

    def fit(self, network: nn.Module, context: Context, progress: Progress) -> None:
        assert isinstance(network, FittedNetwork)
        splits = context.splits
        self.learn(network, splits.train)
        x, y = matrix(network, splits.train), splits.train.y.numpy()
        if len(set(y.tolist())) == 1:
            network.hold("weight", torch.zeros(x.shape[1], network.classes))
            network.hold(
                "bias", torch.full((network.classes,), NEVER).index_fill_(0, splits.train.y[:1], 0.0)
            )
            return
        split = default_selector(tuple(splits)).split
        grid = (self.C,) if self.C is not None else GRID if split else (1.0,)
        best, chosen = float("-inf"), None
        sign = -1 if splits.task.metric in metrics.LOWER_IS_BETTER else 1
        for i, c in enumerate(grid):
            progress(i, len(grid), f"support vector machine, C = {c:g}")
            machine = _machine(c, context.seed, x, y)
            value = 0.0
            if split and len(grid) > 1:
                network.solve(machine)
                value = sign * self._score(network, splits[split], splits.task.metric)
            if chosen is None or value > best:  # NaN is never better
                best, chosen = value, machine
        network.solve(chosen)

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


def _machine(c: float, seed: int, x: Any, y: Any) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    # Many columns are solved in the dual, few in the primal, where liblinear needs no luck to converge.
    machine = LinearSVC(C=c, dual=x.shape[1] > x.shape[0], random_state=seed, max_iter=5000)
    with warnings.catch_warnings():
        # A large C may stop early; validation judges what it reached.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(x, y)
