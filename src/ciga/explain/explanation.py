"""What a model saw in one graph: the kept subgraph, its scores, and the prediction made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ciga.errors import UsageError
from ciga.graphs.store import Batch, GraphStore
from ciga.models.model import Answer, Model
from ciga.scoring import metrics


@dataclass
class Explanation:
    """The invariant subgraph of one graph, per directed edge in the order the graph came with."""

    edge_index: Tensor  # [2, E]
    score: Tensor  # [E] probability of each edge to be in the subgraph
    kept: Tensor  # [E] True where the edge is in it
    x: Tensor  # [N, F]
    edge_attr: Tensor | None  # [E, D]
    probability: Tensor  # [C]
    label: int | None = None  # the true class, where it is known
    truth: Tensor | None = None  # [E] True on the edges of the true subgraph, where it is known
    smiles: str | None = None  # of a molecule, where it is known

    @property
    def predicted(self) -> int:
        """The likeliest class."""
        return int(self.probability.argmax())

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    def undirected(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Each undirected edge once: ends [2, P], score [P], kept [P], truth [P] (or None)."""
        low, high = self.edge_index.min(0).values, self.edge_index.max(0).values
        key = low * max(self.num_nodes, 1) + high
        _, place = key.unique(return_inverse=True)
        pairs = int(place.max()) + 1 if place.numel() else 0
        first = torch.full((pairs,), key.numel()).scatter_reduce_(
            0, place, torch.arange(key.numel()), "amin", include_self=True
        )
        truth = None
        if self.truth is not None:
            truth = torch.zeros(pairs, dtype=torch.bool)
            truth[place[self.truth]] = True
        return torch.stack([low, high])[:, first], self.score[first], self.kept[first], truth

    def quality(self) -> dict[str, float]:
        """Edge AUROC and precision@k against the true subgraph; empty where that is not known."""
        _, score, _, truth = self.undirected()
        if truth is None:
            return {}
        return metrics.explanation(score, truth, torch.zeros(len(score), dtype=torch.long), 1)

    def _repr_html_(self) -> str:
        """The graph with its kept edges, and what was predicted from it, for notebooks."""
        from ciga.explain.inline import figure

        return figure(self)

    def to_pyg(self) -> Any:
        """As PyG's `Explanation`: `edge_mask` holds the scores, `target` the predicted class.

        Extra attributes: `kept`, `prediction` (class probabilities [1, C]), `y` and `edge_truth` where known.
        """
        from torch_geometric.explain import Explanation as PyGExplanation

        out = PyGExplanation(
            x=self.x,
            edge_index=self.edge_index,
            edge_mask=self.score,
            target=torch.tensor([self.predicted]),
            prediction=self.probability.unsqueeze(0),
            kept=self.kept,
        )
        if self.edge_attr is not None:
            out.edge_attr = self.edge_attr
        if self.label is not None:
            out.y = torch.tensor([self.label])
        if self.truth is not None:
            out.edge_truth = self.truth
        out.validate(raise_on_error=True)
        return out


def explain(model: Model, store: GraphStore, batch_size: int = 256) -> list[Explanation]:
    """An explanation of each graph of a store."""
    if not model.method.extracts:
        raise UsageError(f"{model.method_name} does not extract a subgraph: use ciga-v2, gsat or dir.")
    model.check(store)
    batches = store.batches(batch_size, chunk=4)
    found = [e for b in batches for e in explanations_of(b, model.predict(b))]
    smiles = store.columns.get("smiles")
    if isinstance(smiles, list):
        for one, text in zip(found, smiles, strict=True):
            one.smiles = text
    return found


def explanations_of(batch: Batch, answer: Answer) -> list[Explanation]:
    """An explanation of each graph of a batch; for methods that extract nothing, no edge is kept."""
    score = torch.zeros(batch.num_pairs) if answer.score is None else answer.score
    kept = torch.zeros(batch.num_pairs, dtype=torch.bool) if answer.kept is None else answer.kept
    nodes = torch.bincount(batch.batch, minlength=batch.num_graphs)
    edges = torch.bincount(batch.edge_batch, minlength=batch.num_graphs)
    local = batch.edge_index - (nodes.cumsum(0) - nodes)[batch.edge_batch]

    def cut(value: Tensor | None, sizes: Tensor) -> list[Any]:
        return [None] * batch.num_graphs if value is None else list(value.split(sizes.tolist()))

    per_graph = (
        local.long().split(edges.tolist(), 1),
        cut(score[batch.pair], edges),
        cut(kept[batch.pair], edges),
        cut(batch.x, nodes),
        cut(batch.edge_attr, edges),
        answer.probability,
        [None if y < 0 else y for y in batch.y.tolist()],
        cut(batch.edge_truth, edges),
    )
    return [Explanation(*values) for values in zip(*per_graph, strict=True)]
