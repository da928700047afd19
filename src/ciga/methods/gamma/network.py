"""Graph representations from the densities of small induced subgraphs (Bevilacqua et al., 2021)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch
from ciga.graphs.topology import Adjacency, number_features, number_rows
from ciga.methods.gamma.densities import Subgraphs, subgraphs
from ciga.methods.gamma.shapes import shapes
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.networks import head
from ciga.nn.norm import PartNorm
from ciga.nn.readout import Readout

#: Kinds of subgraphs encoded at once in evaluation: bounds the memory, changes no result.
CHUNK = 2**16


class DensityNetwork(nn.Module):
    """Sum over the connected induced k-node subgraphs of density times encoding, then a head.

    In training a graph with more than `samples` such subgraphs is seen through as many fresh draws of
    them; in evaluation one with at most `exact` is seen whole, and a larger one through draws that depend
    on nothing but itself.
    """

    uniform: Tensor

    def __init__(self, spec: Spec, backbone: Backbone, k: int, samples: int, exact: int) -> None:
        super().__init__()
        self.tables = shapes(k)
        self.samples, self.exact = samples, exact
        draws = torch.rand(samples, k, generator=torch.Generator().manual_seed(k))
        self.register_buffer("uniform", draws, persistent=False)
        self.build(spec, backbone)

    def build(self, spec: Spec, backbone: Backbone) -> None:
        """Make the layers."""
        self.norm = PartNorm(self.tables.count, 1)
        self.lift = nn.Sequential(nn.Linear(self.tables.count, backbone.width), nn.ReLU())
        self.head = head(backbone.width, spec.classes)

    def find(self, batch: Batch) -> tuple[Subgraphs, Adjacency]:
        """The subgraphs to look at."""
        adjacency = Adjacency.of(batch.edge_index, batch.num_nodes)
        uniform, limit = self.uniform, self.exact
        if self.training:
            uniform, limit = torch.rand(batch.num_graphs, *uniform.shape, device=uniform.device), self.samples
        return subgraphs(adjacency, batch.batch, batch.num_graphs, self.tables, limit, uniform), adjacency

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Graph representations [G, d], and how much subgraphs of one shape differ within their graph."""
        found, _ = self.find(batch)
        flat = batch.x.new_zeros(batch.num_graphs * self.tables.count)
        flat = flat.index_add(0, found.graph * self.tables.count + found.shape, found.density)
        densities = flat.view(batch.num_graphs, -1)
        return self.lift(self.norm(densities, None)), densities.new_zeros(())

    def forward(self, batch: Batch) -> Tensor:
        return self.head(self.encode(batch)[0])


class SubgraphGIN(DensityNetwork):
    """Encodes each subgraph, its node and edge features included, with GIN."""

    relational = False

    def build(self, spec: Spec, backbone: Backbone) -> None:
        inner = replace(backbone, conv="gin", node_features=True, walks=0)  # a subgraph is its own context
        places = self.tables.k if self.relational else 0
        self.features = spec.features if backbone.node_features else 0
        self.encoder = Encoder(self.features + places, spec.edge_features, inner, spec.degrees)
        self.readout = Readout(backbone.readout, self.encoder.dim)
        self.head = head(self.encoder.dim, spec.classes)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        found, adjacency = self.find(batch)
        if self.training:
            each = self._encode(found.nodes, found.shape, batch, adjacency)
        else:
            kind, example = self._kinds(found, batch, adjacency)
            chunks = zip(found.nodes[example].split(CHUNK), found.shape[example].split(CHUNK), strict=True)
            each = torch.cat([self._encode(n, s, batch, adjacency) for n, s in chunks])[kind]
        weighted = each * found.density.unsqueeze(1)
        whole = each.new_zeros(batch.num_graphs, each.size(1)).index_add(0, found.graph, weighted)
        return whole, self._spread(each, weighted, found, batch.num_graphs)

    def _kinds(self, found: Subgraphs, batch: Batch, adjacency: Adjacency) -> tuple[Tensor, Tensor]:
        """Number the subgraphs that differ in shape or features: (number of each [S], an example of each).

        Molecules have few, and where nothing is random it is enough to encode each kind once.
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

    def _encode(self, nodes: Tensor, shape: Tensor, batch: Batch, adjacency: Adjacency) -> Tensor:
        """Embeddings [S, d] of the subgraphs with these nodes [S, k]."""
        if not self.relational:
            return self._gin(nodes, batch, adjacency)
        tables, device = self.tables, nodes.device
        count, start = tables.symmetries.to(device)[shape], tables.symmetry_start.to(device)[shape]
        if self.training:
            row = torch.arange(shape.numel(), device=device)
            which = torch.minimum((torch.rand(row.numel(), device=device) * count).long(), count - 1)
        else:
            row = torch.arange(shape.numel(), device=device).repeat_interleave(count)
            which = torch.arange(row.numel(), device=device) - (count.cumsum(0) - count)[row]
        order = tables.symmetry.to(device)[start[row] + which]
        each = self._gin(nodes[row].gather(1, order), batch, adjacency)
        if self.training:
            return each
        total = each.new_zeros(shape.numel(), each.size(1)).index_add(0, row, each)
        return total / count.unsqueeze(1)

    def _gin(self, nodes: Tensor, batch: Batch, adjacency: Adjacency) -> Tensor:
        """One embedding per row of nodes [S, k]; with `relational`, a node also sees its place in the row."""
        subs, k = nodes.shape
        present = nodes >= 0
        place = (present.flatten().cumsum(0) - 1).view(subs, k)
        original = nodes[present]
        x = batch.x[:, : self.features].index_select(0, original)
        if self.relational:
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


class SubgraphRPGIN(SubgraphGIN):
    """Relational pooling: GIN that knows the order of the nodes, averaged over orders.

    The orders are those that show a subgraph in its canonical form, one to each of its automorphisms: one
    drawn in training, their mean in evaluation.
    """

    relational = True
