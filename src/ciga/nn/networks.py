"""The two networks: one GNN that sees the whole graph, and featurizer + classifier that see a part."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ciga.data.store import Batch
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.extractor import Extractor, Partition
from ciga.nn.readout import Readout, sum_of


def head(width: int, outputs: int) -> nn.Sequential:
    """The classifier's two-layer MLP."""
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, outputs))


class GraphNetwork(nn.Module):
    """Encoder, readout, head: what ERM and the methods that regularise it train."""

    def __init__(self, spec: Spec, backbone: Backbone) -> None:
        super().__init__()
        self.encoder = Encoder(spec.features, spec.edge_features, backbone, spec.degrees)
        self.readout = Readout(backbone.readout, self.encoder.dim)
        self.head = head(self.encoder.dim, spec.classes)

    def represent(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Graph embeddings, [G, d]."""
        return self.readout(self.encoder(batch, edge_weight), batch.batch, batch.num_graphs)

    def forward(self, batch: Batch) -> Tensor:
        return self.head(self.represent(batch))


@dataclass
class Parts:
    """What the featurizer made of a batch."""

    batch: Batch
    hidden: Tensor  # [N, d] the featurizer's node embeddings
    partition: Partition
    kept_nodes: Tensor  # rows of the nodes of G_c

    def pooled(self) -> Tensor:
        """Sum of the featurizer's embeddings over the nodes of each G_c, [G, d]."""
        rows = self.kept_nodes
        return sum_of(self.hidden[rows], self.batch.batch[rows], self.batch.num_graphs)


@dataclass
class Prediction:
    """What the classifier made of the parts; the spurious half is None where it was not asked for."""

    parts: Parts
    representation: Tensor  # [G, d] of G_c
    logits: Tensor  # [G, C] from G_c
    spurious_representation: Tensor | None = None  # [G, d] of G_s
    spurious_logits: Tensor | None = None  # [G, C] from G_s


class InvariantNetwork(nn.Module):
    """Featurizer g: G -> G_c and classifier f_c: G_c -> Y, with a head of its own for G_s.

    `classifier_input` says what the classifier sees on the nodes of a part: the featurizer's embeddings
    (`feat`) or the raw features (`raw`). With `feat` the whole graph can reach the classifier through
    the embeddings, whatever the selection.
    """

    def __init__(
        self,
        spec: Spec,
        backbone: Backbone,
        *,
        scorer: str,
        budget: str,
        size: float,
        classifier_input: str,
        classifier_width: int | None = None,
        spurious: bool = True,
    ) -> None:
        super().__init__()
        inner = replace(backbone, width=classifier_width or backbone.width)
        self.featurizer = Encoder(spec.features, spec.edge_features, backbone, spec.degrees)
        self.extractor = Extractor(self.featurizer.dim, scorer, budget, size)
        self.raw = classifier_input == "raw"
        inputs = spec.features if self.raw else self.featurizer.dim
        self.classifier = Encoder(inputs, spec.edge_features, inner, spec.degrees, parts=2 if spurious else 1)
        self.readout = Readout(inner.readout, self.classifier.dim)
        self.head = head(self.classifier.dim, spec.classes)
        self.spurious_head = head(self.classifier.dim, spec.classes) if spurious else None

    def forward(self, batch: Batch) -> Tensor:
        """Logits from G_c alone, [G, C]."""
        return self.predict(self.split(batch)).logits

    def split(self, batch: Batch) -> Parts:
        """Let the featurizer choose the invariant subgraph of each graph."""
        hidden = self.featurizer(batch)
        partition = self.extractor(hidden, batch)
        return Parts(batch, hidden, partition, _kept_nodes(batch, partition))

    def predict(self, parts: Parts) -> Prediction:
        """Classify from G_c."""
        part, weight, _ = self._part(parts, spurious=False)
        representation = self.readout(self.classifier(part, weight), part.batch, part.num_graphs)
        return Prediction(parts, representation, self.head(representation))

    def predict_both(self, parts: Parts) -> Prediction:
        """Classify from G_c and, with its own head, from G_s: one pass over both side by side."""
        assert self.spurious_head is not None
        part, weight, border = self._part(parts, spurious=True)
        h = self.classifier(part, weight, border)
        both = self.readout(h, part.batch, part.num_graphs)
        causal, spurious = both.chunk(2)
        return Prediction(parts, causal, self.head(causal), spurious, self.spurious_head(spurious))

    def _part(self, parts: Parts, spurious: bool) -> tuple[Batch, Tensor, int]:
        """G_c (and G_s after it) as one batch, with edge weights and the number of G_c's nodes.

        The parts share no edge, so both fit into the one edge list: a node's copy in G_s is a node
        of its own, N rows further down, and graph i's G_s is graph G + i.
        """
        batch, kept = parts.batch, parts.partition.kept[parts.batch.pair]  # [E]
        nodes, graphs = batch.num_nodes, batch.num_graphs
        logit = parts.partition.score[batch.pair]
        rows = parts.kept_nodes
        border = rows.numel()
        if spurious:
            ends = batch.edge_index + torch.where(kept, 0, nodes)
            logit = torch.where(kept, logit, -logit)
            present = torch.zeros(nodes, dtype=torch.bool, device=kept.device)
            present[batch.edge_index[:, ~kept].flatten()] = True
            rows = torch.cat([rows, present.nonzero().flatten() + nodes])
            attr, edge_batch, pair = (
                batch.edge_attr,
                batch.edge_batch + torch.where(kept, 0, graphs),
                batch.pair,
            )
        else:
            chosen = kept.nonzero().flatten()
            ends, logit = batch.edge_index[:, chosen], logit[chosen]
            attr = None if batch.edge_attr is None else batch.edge_attr[chosen]
            edge_batch, pair = batch.edge_batch[chosen], batch.pair[chosen]
        place = torch.empty(nodes * 2, dtype=torch.long, device=rows.device)
        place[rows] = torch.arange(rows.numel(), device=rows.device)
        original = rows % nodes if spurious else rows
        inputs = batch.x if self.raw else parts.hidden
        part = replace(
            batch,
            x=inputs[original],
            edge_index=place[ends],
            edge_attr=attr,
            batch=batch.batch[original] + torch.where(rows < nodes, 0, graphs),
            edge_batch=edge_batch,
            pair=pair,
            num_graphs=graphs * (1 + spurious),
        )
        return part, logit.sigmoid(), border


def _kept_nodes(batch: Batch, partition: Partition) -> Tensor:
    """Rows of the nodes of G_c: those with a kept edge, and all nodes of a graph that keeps no edge.

    The latter is for graphs without edges: they stay in the batch and are judged by their features.
    """
    kept = partition.kept[batch.pair]
    present = torch.zeros(batch.num_nodes, dtype=torch.bool, device=kept.device)
    present[batch.edge_index[:, kept].flatten()] = True
    empty = torch.ones(batch.num_graphs, dtype=torch.bool, device=kept.device)
    empty[batch.edge_batch[kept]] = False
    return (present | empty[batch.batch]).nonzero().flatten()
