"""Message passing with explicit edge weights.

Every conv here multiplies each message by its edge's weight: a kept edge speaks with the strength of its
score, and the score gets a gradient. Normalisation counts edges, not weights, so a weight cannot be
normalised away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ciga.nn.norm import PartNorm


@dataclass
class Edges:
    """The edges of one pass: computed once, used by every layer."""

    index: Tensor  # [2, E]
    weight: Tensor | None  # [E] strength of each message; None means 1
    attr: Tensor | None  # [E, D]
    nodes: int
    border: int | None = None  # first node of the second part, see PartNorm

    def __post_init__(self) -> None:
        self._scale: Tensor | None = None

    def scale(self) -> Tensor:
        """GCN's 1/sqrt(degree + 1) of each node, [N, 1]: an edge's norm is the product of its ends'."""
        if self._scale is None:
            degree = torch.zeros(self.nodes, device=self.index.device)
            degree.index_add_(0, self.index[1], degree.new_ones(self.index.size(1)))
            self._scale = (degree + 1).rsqrt().unsqueeze(1)
        return self._scale

    def add(self, messages: Tensor) -> Tensor:
        """Sum the messages [E, d] at their targets, [N, d]."""
        return messages.new_zeros(self.nodes, messages.size(1)).index_add(0, self.index[1], messages)

    def weigh(self, messages: Tensor) -> Tensor:
        """Messages times edge weights."""
        return messages if self.weight is None else messages * self.weight.unsqueeze(1)

    def gather(self, h: Tensor) -> Tensor:
        """Each edge's source row, [E, d]."""
        return h.index_select(0, self.index[0])


class GCN(nn.Module):
    """Kipf & Welling's graph convolution; edge features are added to the messages."""

    def __init__(self, inputs: int, outputs: int, edge_inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.edge = nn.Linear(edge_inputs, outputs) if edge_inputs else None
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        # The norm is a product over an edge's two ends, so it is applied to nodes, of which there are fewer.
        scale = edges.scale()
        h = self.linear(x) * scale
        messages = edges.gather(h)
        if self.edge is not None:
            messages = messages + self.edge(edges.attr) * edges.gather(scale)
        return (edges.add(edges.weigh(messages)) + h) * scale + self.bias


class OGBGCN(nn.Module):
    """OGB's graph convolution: messages pass a ReLU, and a root vector stands for the self-loop."""

    def __init__(self, inputs: int, outputs: int, edge_inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.edge = nn.Linear(edge_inputs, outputs) if edge_inputs else None
        self.root = nn.Parameter(torch.randn(outputs))

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        scale = edges.scale()
        h = self.linear(x)
        if self.edge is None:  # the ReLU and the norm of a message depend on its source alone
            messages = edges.gather(h.relu() * scale)
        else:
            messages = (edges.gather(h) + self.edge(edges.attr)).relu() * edges.gather(scale)
        return (edges.add(edges.weigh(messages)) + (h + self.root).relu() * scale) * scale


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
        messages = edges.gather(x)
        if self.edge is not None:
            messages = (messages + self.edge(edges.attr)).relu()
        h = (1 + self.eps) * x + edges.add(edges.weigh(messages))
        return self.outer(self.norm(self.inner(h), edges.border).relu())


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


def sage(inputs: int, outputs: int, edge_inputs: int) -> nn.Module:
    """GraphSAGE (mean); it has no place for edge features and does not use them."""
    from torch_geometric.nn import SAGEConv

    return PyGConv(SAGEConv(inputs, outputs), False)


def pna(inputs: int, outputs: int, edge_inputs: int, degrees: tuple[int, ...]) -> nn.Module:
    """Principal neighbourhood aggregation, scaled by the training graphs' degree histogram."""
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
