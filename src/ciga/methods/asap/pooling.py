"""ASAP: pool a graph into clusters of neighbours, level by level (Ranjan et al., 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from ciga.graphs.ranking import top_within
from ciga.graphs.store import Batch
from ciga.graphs.topology import expand
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.gate import gate_of
from ciga.nn.networks import head
from ciga.nn.readout import Readout, max_of, sum_of

#: Numbers in a padded stack of adjacency matrices up to which coarsening multiplies them as they are.
DENSE = 2**26
#: Multiplications of padded matrices that take about as long as one pair of a join (measured, one CPU core).
JOIN = 4000
#: Graphs up to this size share a group.
SMALL = 64


class Pooling(nn.Module):
    """The layers of PyG's ASAPooling, with coarsened edge weights that carry their gradient.

    PyG (2.8) gives no weights where it gets none, and with weights its backward fails on the CPU; here
    S^T A S is differentiable in S and A. PyG ranks clusters by fitness times the sign of a random number
    that is never trained, so half of all networks keep the least fit; here the fittest stay.
    """

    def __init__(self, width: int, ratio: float) -> None:
        from torch_geometric.nn import ASAPooling

        super().__init__()
        self.ratio = ratio
        layers = ASAPooling(width, ratio)
        self.lin, self.att, self.gnn_score = layers.lin, layers.att, layers.gnn_score

    def forward(
        self, x: Tensor, edge_index: Tensor, weight: Tensor, batch: Tensor, graphs: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Clusters [K, d], their edges [2, M] with weights [M], and the graph [K] of each.

        Args:
            x: node embeddings [N, d].
            edge_index: the edges [2, E].
            weight: of the edges, [E].
            batch: graph of each node, [N], ascending.
            graphs: the number of graphs.
        """
        nodes, width = x.shape
        edges, weight = _with_loops(edge_index, weight, nodes)
        source, target = edges
        # Each node is the centre of the cluster of its in-neighbours; its members attend to their maximum.
        members = x.index_select(0, source)
        query = self.lin(max_of(members, target, nodes))
        # att([q ; x]) = a_q q + a_x x: two products over nodes instead of one over edges.
        of_query, of_member = self.att.weight.split(width, 1)
        score = (query @ of_query.T).index_select(0, target) + (x @ of_member.T).index_select(0, source)
        score = leaky_relu(score + self.att.bias, 0.2)
        score = (score - max_of(score.detach(), target, nodes).index_select(0, target)).exp()
        share = score / sum_of(score, target, nodes).index_select(0, target)
        clusters = sum_of(members * share, target, nodes)
        fitness = self._fitness(clusters, source, target).sigmoid()
        count = torch.bincount(batch, minlength=graphs)
        quota = (count * self.ratio - 1e-6).ceil().long()
        chosen = top_within(fitness.detach().flatten(), batch, count, quota).nonzero().flatten()
        pooled = clusters.index_select(0, chosen) * fitness.index_select(0, chosen)
        coarse, strength = coarsen(edges, weight, share.squeeze(1), chosen, batch, graphs)
        return pooled, coarse, strength, batch.index_select(0, chosen)

    def _fitness(self, clusters: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Of each cluster, [N, 1]: what it is, and how it differs from its neighbours (PyG's LEConv)."""
        layer = self.gnn_score
        differ = layer.lin1(clusters).index_select(0, source) - layer.lin2(clusters).index_select(0, target)
        return sum_of(differ, target, clusters.size(0)) + layer.lin3(clusters)


def _with_loops(edges: Tensor, weight: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """Every node in its own cluster: a self-loop of weight 1 each, after the edges between two nodes."""
    between = (edges[0] != edges[1]).nonzero().flatten()
    loops = torch.arange(nodes, device=edges.device)
    edges = torch.cat([edges.index_select(1, between), loops.expand(2, -1)], 1)
    return edges, torch.cat([weight.index_select(0, between), weight.new_ones(nodes)])


def coarsen(
    edges: Tensor, weight: Tensor, share: Tensor, chosen: Tensor, batch: Tensor, graphs: int
) -> tuple[Tensor, Tensor]:
    """S^T A S without its diagonal: edges [2, M] and weights [M] between the chosen clusters.

    Args:
        edges: [2, E] with self-loops; edge (u, v) puts u into the cluster of v with `share` [E].
        weight: A's entries, [E].
        share: of each edge, [E].
        chosen: rows of the K clusters that stay, ascending.
        batch: graph of each node, [N], ascending.
        graphs: the number of graphs.
    """
    sizes, kept = (torch.bincount(b, minlength=graphs) for b in (batch, batch.index_select(0, chosen)))
    place = torch.full_like(batch, -1)
    place.index_copy_(0, chosen, torch.arange(chosen.numel(), device=chosen.device))
    owner = batch.index_select(0, edges[0])
    # Graphs of about one size go together: a matrix is padded to the widest of its group.
    group = sizes.clamp(min=SMALL).log2().ceil()
    levels = group.unique()
    parts = []
    for level in levels:
        part = Part(edges, weight, share, owner)
        if levels.numel() > 1:
            part = part.take((group.index_select(0, owner) == level).nonzero().flatten())
        members = (group == level).nonzero().flatten()
        n, k = int(sizes[members].max()), int(kept[members].max())
        stays = (place.index_select(0, part.edges[1]) >= 0).nonzero().flatten()
        stack = members.numel() * n
        # A sparse graph of thousands of nodes has few pairs to join, and its matrix is almost all zeros.
        padded = stack * n <= DENSE and stack * k * (n + k) <= JOIN * _pairs(part.edges, stays, batch.numel())
        parts.append(
            _padded(part, stays, place, members, sizes, kept) if padded else _joined(part, stays, place)
        )
    if not parts:
        return edges.new_zeros(2, 0), weight.new_zeros(0)
    index, strength = zip(*parts, strict=True)
    return torch.cat(index, 1), torch.cat(strength)


class Part(NamedTuple):
    """The edges of one group of graphs."""

    edges: Tensor  # [2, E]
    weight: Tensor  # [E]
    share: Tensor  # [E]
    owner: Tensor  # [E] graph of each

    def take(self, rows: Tensor) -> Part:
        return Part(*(t.index_select(-1, rows) for t in self))


def _pairs(edges: Tensor, stays: Tensor, nodes: int) -> int:
    """How many pairs of clusters the edges join, those at `stays` being memberships in one that stays."""
    source, target = edges
    clusters = torch.bincount(source.index_select(0, stays), minlength=nodes)
    return int((clusters.index_select(0, source) * clusters.index_select(0, target)).sum())


def _padded(
    part: Part, stays: Tensor, place: Tensor, members: Tensor, sizes: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor]:
    """The product for the graphs `members` as two batched products of padded matrices.

    `stays` are the rows of the edges that lead to a cluster that stays.
    """
    first, first_kept = sizes.cumsum(0) - sizes, kept.cumsum(0) - kept
    graphs, n, k = members.numel(), int(sizes[members].max()), int(kept[members].max())
    local = torch.empty_like(sizes).index_copy_(0, members, torch.arange(graphs, device=members.device))
    graph = local.index_select(0, part.owner)
    u, v = part.edges - first.index_select(0, part.owner)
    row = graph * n + u
    a = part.weight.new_zeros(graphs * n * n).index_add(0, row * n + v, part.weight)
    cluster = (place.index_select(0, part.edges[1]) - first_kept.index_select(0, part.owner))[stays]
    at = row.index_select(0, stays) * k + cluster
    s = part.share.new_zeros(graphs * n * k).index_add(0, at, part.share.index_select(0, stays))
    a, s = a.view(graphs, n, n), s.view(graphs, n, k)
    dense = s.mT @ a @ s
    between = dense.detach().clone()
    between.diagonal(dim1=1, dim2=2).zero_()
    entry = between.flatten().nonzero().flatten()
    line = entry // k  # of the stacked matrices
    graph = line // k
    base = first_kept.index_select(0, members).index_select(0, graph)
    index = torch.stack([line - graph * k + base, entry - line * k + base])
    return index, dense.flatten().index_select(0, entry)


def _joined(part: Part, stays: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """The product as a join of index lists: an edge (u, v) of A joins each cluster of u to each of v."""
    u, v = part.edges
    stays = stays[u[stays].argsort(stable=True)]  # memberships, sorted by member
    count = torch.bincount(u[stays], minlength=place.numel())
    start = count.cumsum(0) - count
    edge, left = expand(start[u], count[u], stays)
    row, right = expand(start[v[edge]], count[v[edge]], stays)
    edge, left = edge[row], left[row]
    value = part.share[left] * part.weight[edge] * part.share[right]
    clusters = int(place.max()) + 1
    key, group = (place[v[left]] * clusters + place[v[right]]).unique(return_inverse=True)
    total = value.new_zeros(key.numel()).index_add(0, group, value)
    index = torch.stack([key // clusters, key % clusters])
    between = (index[0] != index[1]) & (total.detach() != 0)
    return index[:, between], total[between]


class PooledNetwork(nn.Module):
    """Conv, pool, conv, pool, …; the readouts of all levels are added up for the head."""

    def __init__(self, spec: Spec, backbone: Backbone, ratio: float) -> None:
        super().__init__()
        single = replace(backbone, layers=1, jk="last")
        width = backbone.width
        self.gate = gate_of(spec, backbone)
        self.convs = nn.ModuleList([Encoder(spec.features, spec.edge_features, single, spec.degrees)])
        above = replace(single, node_features=True, walks=0)  # what the level below says is always seen
        self.convs.extend(Encoder(width, 0, above, spec.degrees) for _ in range(backbone.layers - 1))
        self.pools = nn.ModuleList(Pooling(width, ratio) for _ in range(backbone.layers - 1))
        self.readout = Readout(backbone.readout, width)
        self.head = head(width, spec.classes)
        self.undirected = backbone.undirected

    def represent(self, batch: Batch) -> Tensor:
        """Graph embeddings, [G, d]: the sum of the readouts of all levels."""
        batch = self.gate(batch.both_ways if self.undirected else batch)
        level, weight = batch, torch.ones(batch.num_edges, device=batch.x.device)
        total = torch.zeros((), device=batch.x.device)
        for i, conv in enumerate(self.convs):
            h = conv(level, weight).relu()
            total = total + self.readout(h, level.batch, batch.num_graphs)
            if i < len(self.pools):
                x, edges, weight, owner = self.pools[i](
                    h, level.edge_index, weight, level.batch, batch.num_graphs
                )
                level = replace(
                    level, x=x, edge_index=edges, edge_attr=None, batch=owner, walks=None, symmetric=False
                )
        return total

    def forward(self, batch: Batch) -> Tensor:
        return self.head(self.represent(batch))
