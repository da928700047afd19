"""Fingerprints of graphs: how often each kind of neighbourhood occurs, hashed to a fixed number of columns.

A neighbourhood is a node, its neighbours, their neighbours, up to `radius` steps (Weisfeiler and Lehman; for
molecules, Morgan's and ECFP's rule). The bonds that lead to the neighbours count, too. Beside them stand
totals: the number of nodes and edges, and the sum of each feature over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ciga.graphs.names import are_labels, mix, row_names
from ciga.graphs.refinement import refine
from ciga.graphs.store import Batch, GraphStore
from ciga.graphs.topology import Adjacency
from ciga.nn.readout import sum_of

#: What a node or an edge is called at first: all alike, by its row of features, or as ECFP names it.
CONSTANT, ROWS, CHEMICAL = range(3)
#: Features of molecules (`ciga.data.reading.featurise`): how many, and those that ECFP looks at.
WIDTHS = (39, 10)
ELEMENT, BOND = slice(0, 16), slice(0, 4)
ATOM = (*range(16), *range(16, 22), 22, *range(31, 36))  # element, degree, charge, hydrogens
RING = 5


@dataclass(frozen=True)
class Naming:
    """How nodes and edges are called before the first step."""

    nodes: int = CONSTANT
    edges: int = CONSTANT

    @classmethod
    def of(cls, store: GraphStore) -> Naming:
        """ECFP's names for molecules; rows of features where they are labels; else none."""
        attr = store.edge_attr
        if attr is not None and (store.num_features, store.edge_features) == WIDTHS:
            one_hot = store.x[:, ELEMENT]
            if bool(((one_hot == 0) | (one_hot == 1)).all()) and bool((one_hot.sum(1) == 1).all()):
                return cls(CHEMICAL, CHEMICAL)
        edges = ROWS if attr is not None and are_labels(attr) else CONSTANT
        return cls(ROWS if are_labels(store.x) else CONSTANT, edges)


def first_names(batch: Batch, naming: Naming) -> tuple[Tensor, Tensor]:
    """The names of the nodes [N] and of the edges [E] of a batch."""
    nodes, edges = torch.zeros_like(batch.batch), torch.zeros_like(batch.edge_index[0])
    attr = batch.edge_attr
    if naming.nodes == CHEMICAL and attr is not None:
        in_ring = torch.zeros_like(batch.x[:, 0])
        for end in batch.edge_index:
            in_ring.index_add_(0, end, attr[:, RING])
        nodes = row_names(torch.cat([batch.x[:, list(ATOM)], (in_ring > 0).float().unsqueeze(1)], 1))
    elif naming.nodes == ROWS and batch.x.size(1):
        nodes = row_names(batch.x)
    if naming.edges and attr is not None and attr.size(1):
        edges = row_names(attr[:, BOND] if naming.edges == CHEMICAL else attr)
    return nodes, edges


def neighbourhoods(batch: Batch, naming: Naming, radius: int) -> tuple[Tensor, Tensor]:
    """The neighbourhoods of every node, of 0 to `radius` steps: (the graph of each, its name), [(r + 1) N].

    The name of a neighbourhood is made from that of its centre one step earlier and the multiset of pairs
    (bond, neighbour) around it. The number of steps is in it: a lone node is not a node whose neighbours are
    unknown.
    """
    node, edge = first_names(batch, naming)
    around = Adjacency.of(batch.edge_index, node.numel())
    names = refine(node, around, radius, mix(edge[around.edge] + 1))
    steps = torch.arange(radius + 1, device=node.device).unsqueeze(1)
    return batch.batch.repeat(radius + 1), mix(names + steps).flatten()


def fingerprints(batch: Batch, naming: Naming, radius: int, bits: int) -> Tensor:
    """How often each column's neighbourhoods occur in each graph, [G, bits].

    Args:
        batch: The graphs.
        naming: How nodes and edges are named at first.
        radius: The largest distance from a centre.
        bits: The number of columns.
    """
    graph, name = neighbourhoods(batch, naming, radius)
    table = torch.zeros(batch.num_graphs * bits, device=name.device)
    table.index_add_(0, graph * bits + name.remainder(bits), torch.ones(name.numel(), device=name.device))
    return table.view(batch.num_graphs, bits)


def totals(batch: Batch) -> Tensor:
    """The numbers of nodes and edges of each graph, and the sums of their features, [G, 2 + F + D]."""
    graphs = batch.num_graphs
    counts = [torch.bincount(where, minlength=graphs) for where in (batch.batch, batch.edge_batch)]
    columns = [torch.stack(counts, 1).to(batch.x.dtype), sum_of(batch.x, batch.batch, graphs)]
    if batch.edge_attr is not None:
        columns.append(sum_of(batch.edge_attr, batch.edge_batch, graphs))
    return torch.cat(columns, 1)
