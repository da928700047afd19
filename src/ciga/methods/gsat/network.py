"""Attention on edges: score them, then look at the graph again through the scores."""

from __future__ import annotations

from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.extractor import Extractor
from ciga.nn.gate import gate_of
from ciga.nn.networks import head
from ciga.nn.readout import Readout


class AttentionNetwork(nn.Module):
    """One encoder, used twice: to score the edges, then on the edges weighted by their attention.

    The two passes share weights but not batch-norm statistics: a graph of faded edges has others.
    """

    def __init__(self, spec: Spec, backbone: Backbone, budget: str, size: float) -> None:
        super().__init__()
        self.gate = gate_of(spec, backbone)
        self.encoder = Encoder(spec.features, spec.edge_features, backbone, spec.degrees, parts=2)
        self.extractor = Extractor(self.encoder.dim, "mlp", budget, size, most=spec.edges)
        self.readout = Readout(backbone.readout, self.encoder.dim)
        self.head = head(self.encoder.dim, spec.classes)
        self.undirected = backbone.undirected

    def score(self, batch: Batch) -> Tensor:
        """One logit per undirected edge, [P]."""
        batch = batch.both_ways if self.undirected else batch
        return self.extractor.score(self.encoder(self.gate(batch)), batch)

    def represent(self, batch: Batch, attention: Tensor) -> Tensor:
        """Graph embeddings [G, d] with each undirected edge weighted by its attention [P]."""
        h = self.encoder(self.gate(batch), attention[batch.pair], border=0)
        return self.readout(h, batch.batch, batch.num_graphs)

    def predict(self, batch: Batch, attention: Tensor) -> Tensor:
        """Logits [G, C] with each undirected edge weighted by its attention [P]."""
        return self.head(self.represent(batch, attention))

    def forward(self, batch: Batch) -> Tensor:
        return self.predict(batch, self.score(batch).sigmoid())
