"""Message passing with explicit edge weights.

Every conv here multiplies each message by its edge's weight: a kept edge speaks with the strength of its
score, and the score gets a gradient. Normalisation counts edges, not weights, so a weight cannot be
normalised away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ciga.graphs.links import Links
from ciga.nn.norm import PartNorm


class Norms(NamedTuple):
    """GCN's norms, from the degrees of the nodes."""

    own: Tensor  # [N, 1] of a node's message to itself: 1 / (degree + 1)
    edge: Tensor  # [E] of each edge: 1 / sqrt((degree_u + 1) (degree_v + 1)), times its weight


@dataclass
class Edges:
    """The edges of one pass: computed once, used by every layer."""

    index: Tensor  # [2, E]
    weight: Tensor | None  # [E] strength of each message; None means 1
    attr: Tensor | None  # [E, D]
    nodes: int
    border: int | None = None  # first node of the second part, see PartNorm
    links: Links | None = None  # the same edges sorted, where a batch has them already

    def __post_init__(self) -> None:
        self.along = self.links or Links(self.index, self.nodes)

    @property
    def degree(self) -> Tensor:
        """Edges into each node, [N]."""
        return self.along.degree

    @property
    def out_degree(self) -> Tensor:
        """Edges out of each node, [N]."""
        return self.along.out_degree

    @cached_property
    def received(self) -> Norms:
        """GCN's norms by the number of edges that lead to a node."""
        return self._norms(self.degree)

    @cached_property
    def sent(self) -> Norms:
        """The same by the number of edges that leave it; where every edge goes both ways, no other."""
        return self._norms(self.out_degree)

    def _norms(self, degree: Tensor) -> Norms:
        own = (degree + 1.0).reciprocal()
        root = own.sqrt()
        edge = root.index_select(0, self.along.source) * root.index_select(0, self.along.target)
        return Norms(own.unsqueeze(1), edge if self.weight is None else edge * self.weight)

    @cached_property
    def share(self) -> Tensor:
        """Each edge's share in the mean at its target, 1 / degree, times its weight, [E]."""
        share = self.degree.clamp(min=1).reciprocal().index_select(0, self.along.target)
        return share if self.weight is None else share * self.weight

    def add(self, messages: Tensor) -> Tensor:
        """Sum the messages [E, d] at their targets, [N, d]."""
        return self.along.add(messages)

    def weigh(self, messages: Tensor) -> Tensor:
        """Messages times edge weights."""
        return messages if self.weight is None else messages * self.weight.unsqueeze(1)


class GCN(nn.Module):
    """Kipf & Welling's graph convolution; edge features are added to the messages."""

    def __init__(self, inputs: int, outputs: int, edge_inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.edge = nn.Linear(edge_inputs, outputs) if edge_inputs else None
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        h, norm = self.linear(x), edges.received
        if self.edge is None:
            out = edges.along.pull(h, norm.edge)
        else:
            messages = edges.along.at_source(h) + self.edge(edges.attr)
            out = edges.add(messages * norm.edge.unsqueeze(1))
        return out + torch.addcmul(self.bias, h, norm.own)


class OGBGCN(nn.Module):
    """The graph convolution of the OGB examples: ReLU on messages, a root vector for the self-loop.

    Its degrees count the edges that leave a node. On edges stored one way that is another network: where many
    arrive, their sum grows with their number, and a motif's nodes can be told apart.
    """

    def __init__(self, inputs: int, outputs: int, edge_inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.edge = nn.Linear(edge_inputs, outputs) if edge_inputs else None
        self.root = nn.Parameter(torch.randn(outputs))

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        h, norm = self.linear(x), edges.sent
        if self.edge is None:  # the ReLU of a message depends on its source alone
            out = edges.along.pull(h.relu(), norm.edge)
        else:
            messages = (edges.along.at_source(h) + self.edge(edges.attr)).relu()
            out = edges.add(messages * norm.edge.unsqueeze(1))
        return torch.addcmul(out, (h + self.root).relu(), norm.own)


class GIN(nn.Module):
    """Xu et al.'s isomorphism network layer; with edge features Hu et al.'s GINE."""

    def __init__(self, inputs: int, outputs: int, edge_inputs: int, parts: int = 1) -> None:
        super().__init__()
        hidden = 2 * outputs
        self.eps = nn.Parameter(torch.zeros(1))
        self.edge = nn.Linear(edge_inputs, inputs) if edge_inputs else None
        self.inner, self.norm, self.outer = (
            nn.Linear(inputs, hidden),
            PartNorm(hidden, parts),
            nn.Linear(hidden, outputs),
        )

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        if self.edge is None:
            out = edges.along.pull(x, edges.weight)
        else:
            out = edges.add(edges.weigh((edges.along.at_source(x) + self.edge(edges.attr)).relu()))
        h = torch.addcmul(out, x, 1 + self.eps)
        return self.outer(self.norm(self.inner(h), edges.border).relu())


class SAGE(nn.Module):
    """GraphSAGE with the mean; it has no place for edge features and does not use them.

    A mean does not grow with the number of neighbours: a hub with four times as many looks like one with few,
    where the sums of the others leave the range they were trained in.
    """

    def __init__(self, inputs: int, outputs: int, edge_inputs: int) -> None:
        super().__init__()
        self.neighbours = nn.Linear(inputs, outputs)
        self.own = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        return self.neighbours(edges.along.pull(x, edges.share)) + self.own(x)


class PyGConv(nn.Module):
    """Any PyG conv, its messages weighted through a message hook.

    PyG ignores `_edge_mask` set by hand since 2.5, silently; a hook on the message is seen by every conv.
    """

    def __init__(self, conv: Any, edge_features: bool) -> None:
        super().__init__()
        self.conv, self.edge_features = conv, edge_features

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        extra = {"edge_attr": edges.attr} if self.edge_features else {}
        if edges.weight is None:
            return self.conv(x, edges.index, **extra)
        weight = edges.weight

        def weigh(conv: Any, inputs: Any, messages: Tensor) -> Tensor:
            return messages * weight.view(-1, *[1] * (messages.dim() - 1))

        handle = self.conv.register_message_forward_hook(weigh)
        try:
            return self.conv(x, edges.index, **extra)
        finally:
            handle.remove()


def gat(inputs: int, outputs: int, edge_inputs: int) -> nn.Module:
    """Graph attention; without self-loops, a linear skip carries the node itself."""
    from torch_geometric.nn import GATConv

    heads = 4 if outputs % 4 == 0 else 1
    conv = GATConv(
        inputs, outputs // heads, heads, add_self_loops=False, edge_dim=edge_inputs or None, residual=True
    )
    return PyGConv(conv, bool(edge_inputs))


def pna(inputs: int, outputs: int, edge_inputs: int, degrees: tuple[int, ...]) -> nn.Module:
    """Principal neighbourhood aggregation, scaled by the training graphs' degree histogram.

    Args:
        inputs: The width of the node features that come in.
        outputs: The width of those that go out.
        edge_inputs: The number of edge features; 0 for none.
        degrees: How often each degree occurs in training.
    """
    from torch_geometric.nn import PNAConv

    conv = PNAConv(
        inputs,
        outputs,
        aggregators=["mean", "min", "max", "std"],
        scalers=["identity", "amplification", "attenuation"],
        deg=torch.tensor(degrees or (0, 1)),
        edge_dim=edge_inputs or None,
    )
    return PyGConv(conv, bool(edge_inputs))
