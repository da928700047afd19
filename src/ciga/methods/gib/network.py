"""A subgraph by soft assignment of nodes, how much it tells of the graph, and how connected it is."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.gate import gate_of
from ciga.nn.networks import head
from ciga.nn.readout import Readout, mean_of


class AssignmentNetwork(nn.Module):
    """Soft assignment of nodes to the subgraph, a head on the subgraph, a critic on (subgraph, graph)."""

    def __init__(self, spec: Spec, backbone: Backbone) -> None:
        super().__init__()
        self.gate = gate_of(spec, backbone)
        self.encoder = Encoder(spec.features, spec.edge_features, backbone, spec.degrees)
        width = self.encoder.dim
        self.readout = Readout(backbone.readout, width)
        self.assign = head(width, 1)
        self.head = head(width, spec.classes)
        self.critic = nn.ModuleDict(
            {"part": nn.Linear(width, width), "whole": nn.Linear(width, width), "out": nn.Linear(width, 1)}
        )

    def embed(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Logit [N] of each node's membership, and the embeddings [G, d] of subgraph and graph."""
        h = self.encoder(self.gate(batch))
        logit = self.assign(h).squeeze(1)
        share = logit.sigmoid().unsqueeze(1)
        part = self.readout(share * h, batch.batch, batch.num_graphs)
        if self.readout.kind == "mean":  # over the subgraph's nodes, not the graph's
            part = part / mean_of(share, batch.batch, batch.num_graphs).clamp(min=1e-6)
        return logit, part, self.readout(h, batch.batch, batch.num_graphs)

    def forward(self, batch: Batch) -> Tensor:
        return self.head(self.embed(batch)[1])

    def information(self, part: Tensor, whole: Tensor) -> Tensor:
        """Donsker-Varadhan bound on I(subgraph; graph), all pairs of the batch at once.

        mean over i of T(part_i, whole_i) - log mean over i != j of exp T(part_i, whole_j); 0 for one graph.
        """
        graphs = part.size(0)
        joint = self.critic["part"](part).unsqueeze(1) + self.critic["whole"](whole).unsqueeze(0)
        t = self.critic["out"](joint.relu()).squeeze(2)  # [G, G]
        if graphs < 2:
            return t.sum() * 0.0
        apart = ~torch.eye(graphs, dtype=torch.bool, device=t.device)
        count = torch.tensor(float(graphs * (graphs - 1)), device=t.device)
        return t.diag().mean() - (t[apart].logsumexp(0) - count.log())


def connectivity(share: Tensor, batch: Batch) -> Tensor:
    """Mean over graphs of || norm(S^T A S) - I ||_F, S = [share, 1 - share] [N, 2], rows scaled to sum 1.

    The adjacency is symmetrised, so the end of a one-way edge counts as its start does. A graph without
    edges has nothing to connect and is left out.
    """
    s = torch.stack([share, 1 - share], 1)
    source, target = batch.edge_index
    outer = s[source].unsqueeze(2) * s[target].unsqueeze(1)  # [E, 2, 2]
    outer = (outer + outer.mT) / 2
    links = s.new_zeros(batch.num_graphs, 2, 2).index_add(0, batch.edge_batch, outer)
    links = links / links.sum(2, keepdim=True).clamp(min=1e-8)
    joined = torch.zeros(batch.num_graphs, dtype=torch.bool, device=s.device)
    joined[batch.edge_batch] = True
    gap = (links - torch.eye(2, device=s.device))[joined]
    return (gap.square().sum((1, 2)) + 1e-12).sqrt().sum() / max(gap.size(0), 1)
