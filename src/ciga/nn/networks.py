"""The two networks: one GNN that sees the whole graph, and featurizer + classifier that see a part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.extractor import Extractor, Partition
from ciga.nn.gate import gate_of
from ciga.nn.readout import Readout, sum_of
from ciga.nn.reversal import reverse

STRENGTHS = ("soft", "straight")


def head(width: int, outputs: int) -> nn.Sequential:
    """The classifier's two-layer MLP."""
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, outputs))


class GraphNetwork(nn.Module):
    """Encoder, readout, head: what ERM and the methods that regularise it train."""

    def __init__(self, spec: Spec, backbone: Backbone) -> None:
        super().__init__()
        self.gate = gate_of(spec, backbone)
        self.encoder = Encoder(spec.features, spec.edge_features, backbone, spec.degrees)
        self.readout = Readout(backbone.readout, self.encoder.dim)
        self.head = head(self.encoder.dim, spec.classes)

    def represent(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Graph embeddings, [G, d]."""
        h = self.encoder(self.gate(batch), edge_weight)
        return self.readout(h, batch.batch, batch.num_graphs)

    def forward(self, batch: Batch) -> Tensor:
        return self.head(self.represent(batch))


@dataclass
class Parts:
    """What the featurizer made of a batch.

    G_c and G_s share no edge, so both fit into one graph of 2N nodes: a node's copy in G_s stands N rows
    further down. A node is in a part if one of its edges is. A graph that has edges and keeps none has an
    empty G_c, which stays in the batch with a representation of zeros.
    """

    batch: Batch
    hidden: Tensor  # [N, d] the featurizer's node embeddings
    partition: Partition

    def __post_init__(self) -> None:
        batch, kept, nodes = self.batch, self.partition.kept, self.batch.num_nodes
        self.dropped = kept.logical_not().long().index_select(0, batch.pair)  # [E] 1 in G_s
        self.ends = torch.add(batch.edge_index, self.dropped, alpha=nodes)  # [2, E] among the 2N nodes
        present = torch.zeros(2 * nodes, dtype=torch.bool, device=kept.device)
        present.index_fill_(0, self.ends.flatten(), True)
        # Where there is no edge there is nothing to choose: all nodes of such a graph are in G_c.
        bare = torch.ones(batch.num_graphs, dtype=torch.bool, device=kept.device)
        bare.index_fill_(0, batch.edge_batch, False)
        present[:nodes] |= bare.index_select(0, batch.batch)
        self.rows = present.nonzero().flatten()  # of the 2N nodes those in a part: G_c's, then G_s's
        self.place = present.cumsum(0) - 1  # [2N] where in `rows` a node stands
        self.border = int(present[:nodes].sum())  # number of G_c's nodes

    @property
    def kept_nodes(self) -> Tensor:
        """Rows of the nodes of G_c."""
        return self.rows[: self.border]

    def pooled(self) -> Tensor:
        """Sum of the featurizer's embeddings over the nodes of each G_c, [G, d]."""
        rows = self.kept_nodes
        graph = self.batch.batch.index_select(0, rows)
        return sum_of(self.hidden.index_select(0, rows), graph, self.batch.num_graphs)


@dataclass
class Prediction:
    """What the classifier made of the parts; the spurious half is None where it was not asked for."""

    parts: Parts
    representation: Tensor  # [G, d] of G_c
    logits: Tensor  # [G, C] from G_c
    spurious_representation: Tensor | None = None  # [G, d] of G_s
    spurious_logits: Tensor | None = None  # [G, C] from G_s


class InvariantNetwork(nn.Module):
    """Featurizer g: G -> G_c and classifier f_c: G_c -> Y, with a second head for G_s.

    `classifier_input` says what the classifier sees on the nodes of a part: the featurizer's embeddings
    (`feat`) or the raw features (`raw`). `strength` says how loud a kept edge's messages are: sigmoid(score)
    (`soft`), or exactly 1 with the gradient of the sigmoid (`straight`).

    The information barrier: with `raw`, walks, degrees and norms of the classifier are those of the part, so
    given the partition its logits do not depend on the rest of the graph. With `soft` they still depend on
    the scores of the kept edges, which the featurizer computes from the whole graph; with `straight` they do
    not. With `feat` there is no barrier: the embeddings carry the whole graph past the selection.
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
        noise: float = 0.0,
        strength: str = "soft",
        spurious: bool = True,
    ) -> None:
        super().__init__()
        self.held = False
        raw = classifier_input == "raw"
        inner = replace(
            backbone,
            width=classifier_width or backbone.width,
            node_features=backbone.node_features or not raw,  # the featurizer's embeddings are always seen
            walks=backbone.walks if raw else 0,  # and know the walks of the whole graph
        )
        self.gate = gate_of(spec, backbone)  # shared: what is closed, neither of the two sees
        self.featurizer = Encoder(spec.features, spec.edge_features, backbone, spec.degrees)
        self.extractor = Extractor(self.featurizer.dim, scorer, budget, size, noise, spec.edges)
        self.raw, self.undirected, self.straight = raw, backbone.undirected, strength == "straight"
        inputs = spec.features if raw else self.featurizer.dim
        self.classifier = Encoder(inputs, spec.edge_features, inner, spec.degrees, parts=2 if spurious else 1)
        self.readout = Readout(inner.readout, self.classifier.dim)
        self.head = head(self.classifier.dim, spec.classes)
        self.spurious_head = head(self.classifier.dim, spec.classes) if spurious else None

    def forward(self, batch: Batch) -> Tensor:
        """Logits from G_c alone, [G, C]."""
        return self.predict(self.split(batch)).logits

    def split(self, batch: Batch) -> Parts:
        """Let the featurizer choose the invariant subgraph of each graph."""
        if self.held and torch.is_grad_enabled():
            with torch.no_grad():
                return self.split(batch)
        batch = batch.both_ways if self.undirected else batch  # an edge's score is the mean of both ways
        batch = self.gate(batch)
        hidden = self.featurizer(batch)
        return Parts(batch, hidden, self.extractor(hidden, batch))

    def hold_featurizer(self) -> None:
        """From now on `split` is as in evaluation, in training too: nothing of g is learned."""
        self.held = True
        self.gate.requires_grad_(False)
        self.featurizer.requires_grad_(False)
        self.extractor.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.held:
            self.gate.eval()
            self.featurizer.eval()
            self.extractor.eval()
        return self

    def predict(self, parts: Parts) -> Prediction:
        """Classify from G_c."""
        part, weight = self._part(parts, spurious=False)
        representation = self.readout(self.classifier(part, weight), part.batch, part.num_graphs)
        return Prediction(parts, representation, self.head(representation))

    def predict_both(
        self, parts: Parts, spurious_gradient: bool = True, against: float | None = None
    ) -> Prediction:
        """Classify from G_c and, with its own head, from G_s.

        Without `spurious_gradient` what G_s says trains its head alone: its pass is then forward only.
        `against` turns its gradient around, times so much, where it reaches the scores of G_s's edges, and
        ends it at the featurizer's embeddings: the classifier learns to read G_s, the featurizer to leave
        nothing in it.
        """
        assert self.spurious_head is not None
        if spurious_gradient:  # one pass over both, side by side
            part, weight = self._both(parts, against)
            h = self.classifier(part, weight, parts.border)
            causal, spurious = self.readout(h, part.batch, part.num_graphs).chunk(2)
            return Prediction(parts, causal, self.head(causal), spurious, self.spurious_head(spurious))
        prediction = self.predict(parts)
        with torch.no_grad():
            part, weight = self._part(parts, spurious=True)
            spurious = self.readout(self.classifier(part, weight, border=0), part.batch, part.num_graphs)
        prediction.spurious_representation = spurious
        prediction.spurious_logits = self.spurious_head(spurious)
        return prediction

    def _part(self, parts: Parts, spurious: bool) -> tuple[Batch, Tensor]:
        """G_c or G_s as a batch, with the weights of its edges."""
        batch, score = parts.batch, parts.partition.score
        chosen = (parts.dropped == spurious).nonzero().flatten()
        shift = parts.border if spurious else 0
        rows = parts.rows[shift:] - batch.num_nodes if spurious else parts.kept_nodes
        pair = batch.pair.index_select(0, chosen)
        inputs = batch.x if self.raw else parts.hidden
        part = replace(
            batch,
            x=inputs.index_select(0, rows),
            edge_index=parts.place[parts.ends.index_select(1, chosen)] - shift,
            edge_attr=None if batch.edge_attr is None else batch.edge_attr.index_select(0, chosen),
            batch=batch.batch.index_select(0, rows),
            edge_batch=batch.edge_batch.index_select(0, chosen),
            pair=pair,
            edge_truth=None,
            walks=None,  # those of the whole graph would tell of the rest
        )
        # Chosen before the sigmoid, whose last bit depends on where in its input a number stands.
        return part, self._strength((-score if spurious else score).index_select(0, pair))

    def _both(self, parts: Parts, against: float | None = None) -> tuple[Batch, Tensor]:
        """G_c and G_s in one batch, with the weights of the edges; graph i's G_s is graph G + i."""
        batch, kept, score = parts.batch, parts.partition.kept, parts.partition.score
        nodes, graphs = batch.num_nodes, batch.num_graphs
        original = parts.rows.remainder(nodes)
        inputs = batch.x if self.raw else parts.hidden
        x, strength = inputs.index_select(0, original), self._strength(torch.where(kept, score, -score))
        if against is not None:
            x = torch.cat([x[: parts.border], x[parts.border :].detach()])
            strength = torch.where(kept, strength, reverse(strength, against))
        part = replace(
            batch,
            x=x,
            edge_index=parts.place[parts.ends],
            batch=torch.add(batch.batch.index_select(0, original), parts.rows >= nodes, alpha=graphs),
            edge_batch=torch.add(batch.edge_batch, parts.dropped, alpha=graphs),
            num_graphs=2 * graphs,
            walks=None,
        )
        return part, strength.index_select(0, batch.pair)

    def _strength(self, score: Tensor) -> Tensor:
        """The weight of each edge's messages in its part, from its score for that part."""
        soft = score.sigmoid()
        return 1.0 + (soft - soft.detach()) if self.straight else soft
