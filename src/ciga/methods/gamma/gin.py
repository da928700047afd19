"""Gamma GIN and RPGIN: each subgraph encoded with its features, weighted by its density."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import factorial

import torch
from torch import Tensor, nn

from ciga.graphs.names import name_rows, row_names
from ciga.graphs.store import Batch
from ciga.graphs.topology import Adjacency
from ciga.methods.gamma.densities import Subgraphs, classify
from ciga.methods.gamma.kinds import Densities, first_of
from ciga.methods.gamma.network import DensityNetwork
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.readout import Readout

#: Kinds of subgraphs encoded at once in evaluation: bounds the memory, changes no result.
CHUNK = 2**16


class SubgraphGIN(DensityNetwork):
    """Encodes each subgraph, its node and edge features included, with GIN.

    Subgraphs of a batch that are alike are encoded once, as in the original: batch norm then sees each kind
    of them once. With `permutations` of 0, GIN does not see which node is which.
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
        return self.normalised(self.encode(batch, self.remembered(batch))[0])

    def densities(self, batch: Batch) -> Densities:
        """The subgraphs of known kinds; those that GIN cannot tell apart are joined."""
        found, adjacency = self.find(batch)
        kind = self.name(found, batch)
        share = self.known(kind, found.graph, found.density, batch.num_graphs)[1]
        names = kind if self.alike_within_kinds(batch) else self._as_stored(found, batch, adjacency)
        return Densities.of(replace(found, density=share), names, batch)

    def alike_within_kinds(self, batch: Batch) -> bool:
        """Are two subgraphs of one kind the same to GIN? Not if they have features that kinds do not show."""
        return batch.edge_attr is None and (bool(self.labelled) or not self.features)

    def _as_stored(self, found: Subgraphs, batch: Batch, adjacency: Adjacency) -> Tensor:
        """Names [S] of shape and all features: equal only where GIN gives the same."""
        node = row_names(batch.x[:, : self.features])
        parts = [found.shape.unsqueeze(1), torch.where(found.nodes >= 0, node[found.nodes], -1)]
        if batch.edge_attr is not None:
            edge = adjacency.place(found.nodes.unsqueeze(2), found.nodes.unsqueeze(1)).flatten(1)
            attr = row_names(batch.edge_attr)
            parts.append(torch.where(edge >= 0, attr[adjacency.edge[edge]], -1))
        return name_rows(torch.cat(parts, 1))

    def encode(self, batch: Batch, found: Densities) -> tuple[Tensor, Tensor]:
        """Gamma(G) [G, d], and the embedding [M, d] of each entry of the densities."""
        adjacency = Adjacency.of(batch.edge_index, batch.num_nodes)
        names, number = found.kind.unique(return_inverse=True)
        nodes = found.nodes(batch)[first_of(number, names.numel())]
        # All at once in training, where batch norm must see all of them; chunks bound the memory afterwards.
        size = max(CHUNK // factorial(self.tables.k), 1) if self.permutations else CHUNK
        parts = [nodes] if self.training else nodes.split(size)
        each = torch.cat([self._encode(part, batch, adjacency) for part in parts])[number]
        weighted = each * found.share.unsqueeze(1)
        whole = each.new_zeros(batch.num_graphs, each.size(1)).index_add(0, found.graph, weighted)
        return whole, each

    def spread(self, batch: Batch, found: Densities, each: Tensor) -> Tensor:
        """Mean over graphs of sum_S density_S * || f(S) - mean of f over its subgraphs shaped like S ||^2."""
        adjacency = Adjacency.of(batch.edge_index, batch.num_nodes)
        shape = classify(found.nodes(batch), adjacency, self.tables)[0]
        group = found.graph * self.tables.count + shape
        groups = batch.num_graphs * self.tables.count
        mass = each.new_zeros(groups).index_add(0, group, found.share)
        centre = each.new_zeros(groups, each.size(1)).index_add(0, group, each * found.share.unsqueeze(1))
        centre = centre / mass.clamp(min=1e-12).unsqueeze(1)
        gap = (each - centre.index_select(0, group)).square().sum(1)
        return (found.share * gap).sum() / batch.num_graphs

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
