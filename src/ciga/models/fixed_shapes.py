"""The forward pass of a model with fixed shapes, so that it can be exported.

It takes graphs of any number and size and has no step whose shape depends on their content: instead of
cutting the subgraph out, it gives dropped edges the weight 0 and leaves dropped nodes out of the readout. In
evaluation batch norm is an affine map, so both come to the same.

Inputs: x [N, F], edge_index [2, E], (edge_attr [E, D] where the model uses it), batch [N] with the graph of
each node ascending from 0, and sizes [G] with the number of nodes of each graph.
Outputs: probability [G, C]; for methods that extract, score [E] and kept [E] as well.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ciga.methods.gsat.network import AttentionNetwork
from ciga.models.model import Model
from ciga.nn.conv import Edges
from ciga.nn.encoder import Encoder
from ciga.nn.extractor import Extractor
from ciga.nn.gate import FeatureGate, fixed_gates
from ciga.nn.networks import GraphNetwork, InvariantNetwork
from ciga.nn.readout import Readout
from ciga.training.ensemble import mean_logits, mean_score

#: The networks that have such a forward pass here.
EXPORTABLE: tuple[type[nn.Module], ...] = (GraphNetwork, InvariantNetwork, AttentionNetwork)


class MaskedEdges(Edges):
    """Edges of which some are absent: their messages weigh 0, and degrees do not count them."""

    def __init__(
        self, index: Tensor, weight: Tensor | None, attr: Tensor | None, nodes: int, mask: Tensor
    ) -> None:
        super().__init__(index, mask if weight is None else weight * mask, attr, nodes, None)
        self.mask = mask  # [E] 1.0 or 0.0

    @property
    def degree(self) -> Tensor:
        return self.mask.new_zeros(self.nodes).index_add(0, self.index[1], self.mask)

    @property
    def out_degree(self) -> Tensor:
        return self.mask.new_zeros(self.nodes).index_add(0, self.index[0], self.mask)


class Exportable(nn.Module):
    """The ensemble's forward pass with fixed shapes."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.members = nn.ModuleList(model.members)
        self.uses_edge_attr = bool(model.spec.edge_features)
        self.extracts = model.method.extracts
        self.temperature = model.temperature

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor, sizes: Tensor
    ) -> tuple[Tensor, ...]:
        graphs = sizes.size(0)
        found = [_member(m, x, edge_index, edge_attr, batch, graphs) for m in self.members]
        probability = mean_logits([logits / self.temperature for logits, _ in found]).exp()
        if not self.extracts:
            return (probability,)
        scores = [s for _, s in found if s is not None]
        score = mean_score(scores)
        first: Any = self.members[0]
        kept = _keep(first.extractor, score, edge_index, batch, x.size(0), graphs)
        return probability, score.sigmoid(), kept


def _member(
    network: nn.Module, x: Tensor, index: Tensor, attr: Tensor | None, batch: Tensor, graphs: int
) -> tuple[Tensor, Tensor | None]:
    """Logits [G, C], and the score of each directed edge [E]."""
    nodes = x.size(0)
    every, all_nodes = x.new_ones(index.size(1)), x.new_ones(nodes)
    gate = getattr(network, "gate", None)
    x = x * fixed_gates(gate.location) if isinstance(gate, FeatureGate) else x
    if isinstance(network, GraphNetwork):
        h = _encode(network.encoder, x, index, attr, None, every, batch, graphs, all_nodes)
        return network.head(_read(network.readout, h, batch, graphs, all_nodes)), None
    if isinstance(network, AttentionNetwork):
        h = _encode(network.encoder, x, index, attr, None, every, batch, graphs, all_nodes)
        score = _symmetric(_score(network.extractor, h, index), index, nodes)
        h = _encode(network.encoder, x, index, attr, score.sigmoid(), every, batch, graphs, all_nodes, part=1)
        return network.head(_read(network.readout, h, batch, graphs, all_nodes)), score
    if not isinstance(network, InvariantNetwork):
        raise TypeError(f"A {type(network).__name__} has no forward pass with fixed shapes.")
    hidden = _encode(network.featurizer, x, index, attr, None, every, batch, graphs, all_nodes)
    score = _symmetric(_score(network.extractor, hidden, index), index, nodes)
    mask = _keep(network.extractor, score, index, batch, nodes, graphs).to(x.dtype)
    present = (x.new_zeros(nodes).index_add(0, index[0], mask).index_add(0, index[1], mask) > 0).to(x.dtype)
    # A graph that has no edges is judged by all its nodes; one that keeps none of its edges, by none.
    edges = x.new_zeros(graphs).index_add(0, batch[index[0]], every)
    present = torch.maximum(present, (edges == 0).to(x.dtype)[batch])
    inputs = x if network.raw else hidden
    h = _encode(network.classifier, inputs, index, attr, score.sigmoid(), mask, batch, graphs, present)
    return network.head(_read(network.readout, h, batch, graphs, present)), score


def _encode(
    encoder: Encoder,
    x: Tensor,
    index: Tensor,
    attr: Tensor | None,
    weight: Tensor | None,
    mask: Tensor,
    batch: Tensor,
    graphs: int,
    present: Tensor,
    part: int = 0,
) -> Tensor:
    """`Encoder.forward` on masked edges; `part` says whose batch-norm statistics are meant."""
    edges = MaskedEdges(index, weight, attr if encoder.edge_inputs else None, x.size(0), mask)
    edges.border = 0 if part else None
    h = x if not encoder.constant else x.new_ones(x.size(0), 1)
    h = h if encoder.embed is None else encoder.embed(h)
    seen: list[Tensor] = []
    last = len(encoder.convs) - 1
    for i, (conv, norm) in enumerate(zip(encoder.convs, encoder.norms, strict=True)):
        h = norm(conv(h, edges), edges.border)
        h = h if i == last else h.relu()
        if encoder.virtual is not None and i < last:
            h = h + encoder.virtual[i](_mean(h, batch, graphs, present))[batch]
        seen.append(h)
    return encoder._jump(seen)


def _score(extractor: Extractor, h: Tensor, index: Tensor) -> Tensor:
    """The logit of each directed edge, [E]."""
    source, target = index[0], index[1]
    if extractor.mlp is None:
        return (h[source] * h[target]).sum(1)
    u, v = extractor.mlp["source"](h), extractor.mlp["target"](h)
    logit: Tensor = extractor.mlp["out"]((u[source] + v[target]).relu()).squeeze(1)
    return logit


def _pairs(index: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """The undirected edge of each edge [E], numbered in sorted order; and 1 at one edge of each [E]."""
    key = torch.minimum(index[0], index[1]) * nodes + torch.maximum(index[0], index[1])
    ordered, order = torch.sort(key)
    fresh = torch.cat([torch.ones_like(ordered[:1]), (ordered[1:] != ordered[:-1]).to(ordered.dtype)])
    number = torch.cumsum(fresh, 0) - 1
    pair = torch.zeros_like(order).scatter(0, order, number)
    return pair, torch.zeros_like(order).scatter(0, order, fresh)


def _symmetric(logit: Tensor, index: Tensor, nodes: int) -> Tensor:
    """The mean over both directions of an edge, at each of them [E]."""
    pair, _ = _pairs(index, nodes)
    total = torch.zeros_like(logit).index_add(0, pair, logit)
    count = torch.zeros_like(logit).index_add(0, pair, torch.ones_like(logit))
    return total[pair] / count[pair]


def _keep(
    extractor: Extractor, score: Tensor, index: Tensor, batch: Tensor, nodes: int, graphs: int
) -> Tensor:
    """The chosen edges [E], by the rank of their score among the undirected edges of their graph."""
    if extractor.budget == "threshold":
        return score.sigmoid() >= extractor.size
    pair, first = _pairs(index, nodes)
    graph = batch[index[0]]
    edges = torch.ones_like(pair).cumsum(0) - 1
    pairs = (
        torch.zeros_like(batch, dtype=torch.long)[:1].expand(graphs).contiguous().index_add(0, graph, first)
    )
    # One direction of each edge stands for both; the others are ranked behind everything.
    stand_in = torch.where(first > 0, graph, torch.full_like(graph, graphs))
    # Equal scores share a level and rank in the order of the undirected edges, as they do in the extractor:
    # no runtime's way with ties has a say.
    value, at = torch.sort(score, descending=True)
    lower = torch.cat([torch.zeros_like(at[:1]), (value[1:] != value[:-1]).to(at.dtype)])
    level = torch.zeros_like(pair).scatter(0, at, torch.cumsum(lower, 0))
    total = pair.size(0)
    in_graph = torch.sort((stand_in * total + level) * total + pair)[1]
    start = torch.cat([torch.zeros_like(pairs[:1]), torch.cumsum(pairs, 0)])
    place = torch.zeros_like(pair).scatter(0, in_graph, edges)
    rank = place - start[stand_in]
    chosen = (rank < extractor.quota(pairs)[graph]) & (first > 0)
    return torch.zeros_like(pair).index_add(0, pair, chosen.long())[pair] > 0


def _mean(h: Tensor, batch: Tensor, graphs: int, present: Tensor) -> Tensor:
    total = h.new_zeros(graphs, h.size(1)).index_add(0, batch, h * present.unsqueeze(1))
    return total / h.new_zeros(graphs).index_add(0, batch, present).clamp(min=1).unsqueeze(1)


def _read(readout: Readout, h: Tensor, batch: Tensor, graphs: int, present: Tensor) -> Tensor:
    """`Readout` over the nodes that are present."""
    if readout.kind == "mean":
        return _mean(h, batch, graphs, present)
    if readout.kind == "sum":
        return h.new_zeros(graphs, h.size(1)).index_add(0, batch, h * present.unsqueeze(1))
    if readout.kind == "max":
        return _highest(h, batch, graphs, present)
    if readout.kind == "mean-max":
        both = _mean(h[:, ::2], batch, graphs, present), _highest(h[:, 1::2], batch, graphs, present)
        return torch.cat(both, 1)
    least = torch.finfo(h.dtype).min
    assert readout.gate is not None
    score = torch.where(present.unsqueeze(1) > 0, readout.gate(h), torch.full_like(h[:, :1], least))
    weight = (score - _max(score, batch, graphs)[batch]).exp() * present.unsqueeze(1)
    total = h.new_zeros(graphs, 1).index_add(0, batch, weight)
    return h.new_zeros(graphs, h.size(1)).index_add(0, batch, weight * h) / total.clamp(min=1e-30)


def _highest(h: Tensor, batch: Tensor, graphs: int, present: Tensor) -> Tensor:
    least = torch.finfo(h.dtype).min
    masked = torch.where(present.unsqueeze(1) > 0, h, torch.full_like(h, least))
    highest = _max(masked, batch, graphs)
    return torch.where(highest > least, highest, torch.zeros_like(highest))  # no node is present: zeros


def _max(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    start = h.new_full((graphs, h.size(1)), torch.finfo(h.dtype).min)
    return start.scatter_reduce(0, batch.unsqueeze(1).expand_as(h), h, "amax", include_self=True)
