"""The same network twice more: in bare tensor operations, and over PyG's message passing.

Both take the weights of our `GraphNetwork`, so that a test can ask for equal logits.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing, global_add_pool, global_mean_pool

from ciga.data import Batch
from ciga.nn.encoder import Backbone
from ciga.nn.networks import GraphNetwork


def bare_logits(p: dict[str, Tensor], backbone: Backbone, batch: Batch, train: bool = True) -> Tensor:
    """`GraphNetwork.forward` with conv gcn-ogb or gin as one function of its state `p`."""
    x, (source, target) = batch.x, batch.edge_index
    nodes, graphs, attr = x.size(0), batch.num_graphs, batch.edge_attr

    def linear(h: Tensor, name: str) -> Tensor:
        return F.linear(h, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(h: Tensor, name: str) -> Tensor:
        mean, var = p[f"{name}.running_mean"], p[f"{name}.running_var"]
        return F.batch_norm(h, mean, var, p[f"{name}.weight"], p[f"{name}.bias"], train)

    def collect(messages: Tensor) -> Tensor:
        return messages.new_zeros(nodes, messages.size(1)).index_add(0, target, messages)

    if backbone.conv == "gcn-ogb":
        degree = torch.bincount(target, minlength=nodes).float().unsqueeze(1) + 1
        root = degree.rsqrt()
        x = linear(x, "encoder.embed")
    for i in range(backbone.layers):
        conv = f"encoder.convs.{i}"
        h = linear(x, f"{conv}.linear") if backbone.conv == "gcn-ogb" else x
        messages = h.index_select(0, source)
        if attr is not None:
            messages = messages + linear(attr, f"{conv}.edge")
        if backbone.conv == "gcn-ogb":
            sums = collect(messages.relu() * root.index_select(0, source)) * root
            h = sums + (h + p[f"{conv}.root"]).relu() / degree
        else:
            h = (1 + p[f"{conv}.eps"]) * h + collect(messages if attr is None else messages.relu())
            h = linear(norm(linear(h, f"{conv}.inner"), f"{conv}.norm.norms.0").relu(), f"{conv}.outer")
        x = norm(h, f"encoder.norms.{i}.norms.0")
        x = x if i == backbone.layers - 1 else x.relu()
    pooled = x.new_zeros(graphs, x.size(1)).index_add(0, batch.batch, x)
    if backbone.readout == "mean":
        pooled = pooled / torch.bincount(batch.batch, minlength=graphs).clamp(min=1).unsqueeze(1)
    return linear(linear(pooled, "head.0").relu(), "head.2")


class PyGConv(MessagePassing):
    """Our conv's weights, PyG's message passing."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__(aggr="add")
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        conv: Any = self.conv
        edge = None if conv.edge is None else conv.edge(edge_attr)
        if hasattr(conv, "root"):
            h = conv.linear(x)
            degree = torch.bincount(edge_index[1], minlength=x.size(0)).to(h.dtype) + 1
            norm = (degree[edge_index[0]] * degree[edge_index[1]]).rsqrt()
            sums = self.propagate(edge_index, x=h, edge=edge, norm=norm)
            out: Tensor = sums + (h + conv.root).relu() / degree.unsqueeze(1)
            return out
        h = (1 + conv.eps) * x + self.propagate(edge_index, x=x, edge=edge, norm=None)
        out = conv.outer(conv.norm(conv.inner(h), None).relu())
        return out

    def message(self, x_j: Tensor, edge: Tensor | None, norm: Tensor | None) -> Tensor:
        h = x_j if edge is None else x_j + edge
        h = h.relu() if edge is not None or norm is not None else h
        return h if norm is None else norm.unsqueeze(1) * h


class PyGNetwork(nn.Module):
    """`GraphNetwork` on batches of PyG's DataLoader."""

    def __init__(self, network: GraphNetwork) -> None:
        super().__init__()
        self.network = network
        self.convs = nn.ModuleList(PyGConv(conv) for conv in network.encoder.convs)
        self.pool = global_mean_pool if network.readout.kind == "mean" else global_add_pool

    def forward(self, data: Any) -> Tensor:
        encoder = self.network.encoder
        x = data.x if encoder.embed is None else encoder.embed(data.x)
        for i, (conv, norm) in enumerate(zip(self.convs, encoder.norms, strict=True)):
            x = norm(conv(x, data.edge_index, data.edge_attr), None)
            x = x if i == len(self.convs) - 1 else x.relu()
        out: Tensor = self.network.head(self.pool(x, data.batch, data.num_graphs))
        return out
