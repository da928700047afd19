"""Gamma GIN and RPGIN: each subgraph encoded with its features, weighted by its density."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import factorial

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.graphs.topology import Adjacency, number_features, number_rows
from ciga.methods.gamma.densities import Subgraphs
from ciga.methods.gamma.network import DensityNetwork
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.readout import Readout

#: Kinds of subgraphs encoded at once in evaluation: bounds the memory, changes no result.
CHUNK = 2**16


class SubgraphGIN(DensityNetwork):
    """Encodes each subgraph, its node and edge features included, with GIN.

    Subgraphs of a batch that are alike are encoded once, as in the original: batch norm then sees each kind
    of them once. In training, draws from a graph with more than `exact` subgraphs are fresh ones. With
    `permutations` of 0, GIN does not see which node is which.
    """

    def __init__(
        self,
        spec: Spec,
        backbone: Backbone,
        k: int,
        samples: int,
        exact: int,
        hidden: int,
        permutations: int = 0,
    ) -> None:
        super().__init__(spec.features if backbone.node_features else 0, k, samples, exact)
        inner = replace(backbone, conv="gin", node_features=True, walks=0)  # a subgraph is its own context
        self.permutations = permutations
        places = k if permutations else 0
        self.encoder = Encoder(self.features + places, spec.edge_features, inner, spec.degrees)
        self.readout = Readout(backbone.readout, self.encoder.dim)
        self.build_head(self.encoder.dim, hidden, spec.classes, backbone.dropout)

    def represent(self, batch: Batch) -> Tensor:
        return self.normalised(self.encode(batch)[0])

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Gamma(G) [G, d], and how much subgraphs of one shape differ within their graph."""
        fresh = None
        if self.training:
            fresh = torch.rand(batch.num_graphs, *self.uniform.shape, device=self.uniform.device)
        found, adjacency = self.find(batch, fresh)
        names = self.name(found, batch)
        found.density = self.known(names, found.graph, found.density, batch.num_graphs)[1]
        kind, example = self._kinds(found, batch, adjacency)
        # All at once in training, where batch norm must see all of them; chunks bound the memory afterwards.
        size = max(CHUNK // factorial(self.tables.k), 1) if self.permutations else CHUNK
        nodes = found.nodes[example]
        parts = [nodes] if self.training else nodes.split(size)
        each = torch.cat([self._encode(part, batch, adjacency) for part in parts])[kind]
        weighted = each * found.density.unsqueeze(1)
        whole = each.new_zeros(batch.num_graphs, each.size(1)).index_add(0, found.graph, weighted)
        return whole, self._spread(each, weighted, found, batch.num_graphs)

    def _kinds(self, found: Subgraphs, batch: Batch, adjacency: Adjacency) -> tuple[Tensor, Tensor]:
        """Number the subgraphs that differ in shape or features: (number of each [S], an example of each).

        Molecules have few.
        """
        node = number_features(batch.x[:, : self.features])
        parts = [found.shape.unsqueeze(1), torch.where(found.nodes >= 0, node[found.nodes], -1)]
        if batch.edge_attr is not None:
            edge = adjacency.place(found.nodes.unsqueeze(2), found.nodes.unsqueeze(1)).flatten(1)
            parts.append(torch.where(edge >= 0, number_features(batch.edge_attr)[adjacency.edge[edge]], -1))
        rows = torch.cat(parts, 1)
        return number_rows(rows + 1, max(batch.num_nodes, batch.num_edges, self.tables.count) + 1)

    def _spread(self, each: Tensor, weighted: Tensor, found: Subgraphs, graphs: int) -> Tensor:
        """Mean over graphs of sum_S density_S * || f(S) - mean of f over its subgraphs shaped like S ||^2."""
        group = found.graph * self.tables.count + found.shape
        groups = graphs * self.tables.count
        mass = each.new_zeros(groups).index_add(0, group, found.density)
        centre = each.new_zeros(groups, each.size(1)).index_add(0, group, weighted)
        centre = centre / mass.clamp(min=1e-12).unsqueeze(1)
        gap = (each - centre.index_select(0, group)).square().sum(1)
        return (found.density * gap).sum() / graphs

    def _encode(self, nodes: Tensor, batch: Batch, adjacency: Adjacency) -> Tensor:
        """Embeddings [S, d] of the subgraphs with these nodes [S, k].

        With `permutations`, the mean over as many random orders of the nodes in training, and over all
        orders in evaluation: what the original estimates by as many, but the same every time.
        """
        if not self.permutations:
            return self._gin(nodes, batch, adjacency)
        k, subs = nodes.size(1), nodes.size(0)
        if self.training:
            order = torch.rand(subs, self.permutations, k, device=nodes.device).argsort(2)
        else:
            every = torch.tensor(list(permutations(range(k))), device=nodes.device)
            order = every.expand(subs, -1, k)
        orders = order.size(1)
        row = torch.arange(subs, device=nodes.device).repeat_interleave(orders)
        moved = nodes[row].gather(1, order.reshape(-1, k))
        return self._gin(moved, batch, adjacency).view(subs, orders, -1).mean(1)

    def _gin(self, nodes: Tensor, batch: Batch, adjacency: Adjacency) -> Tensor:
        """One embedding per row of nodes [S, k]; with `permutations`, a node sees its place in the row."""
        subs, k = nodes.shape
        present = nodes >= 0
        place = (present.flatten().cumsum(0) - 1).view(subs, k)
        original = nodes[present]
        x = batch.x[:, : self.features].index_select(0, original)
        if self.permutations:
            at = torch.arange(k, device=nodes.device).expand(subs, k)[present]
            x = torch.cat([x, nn.functional.one_hot(at, k).to(x.dtype)], 1)
        edge = adjacency.place(nodes.unsqueeze(2), nodes.unsqueeze(1))  # [S, k, k]
        sub, i, j = (edge >= 0).nonzero().T
        rows = adjacency.edge[edge[sub, i, j]]
        inner = replace(
            batch,
            x=x,
            edge_index=torch.stack([place[sub, i], place[sub, j]]),
            edge_attr=None if batch.edge_attr is None else batch.edge_attr[rows],
            batch=torch.arange(subs, device=nodes.device).repeat_interleave(present.sum(1)),
            edge_batch=sub,
            num_graphs=subs,
            walks=None,
        )
        return self.readout(self.encoder(inner), inner.batch, subs)
