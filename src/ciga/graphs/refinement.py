"""Weisfeiler-Lehman refinement: names of nodes that grow, step by step, to names of their neighbourhoods."""

from __future__ import annotations

import torch
from torch import Tensor

from ciga.graphs.names import mix
from ciga.graphs.topology import Adjacency


def refine(names: Tensor, adjacency: Adjacency, steps: int, edges: Tensor | None = None) -> Tensor:
    """The names of all nodes after 0 to `steps` steps, [steps + 1, N].

    A new name stands for the pair (own name, multiset of the neighbours' names): a sum of mixed names does
    not see their order. Names are 64 bits, so among a million names two collide with chance 3e-8.

    Args:
        names: The nodes' first names [N]. Without `edges`, none is 0: it would add nothing to a sum.
        adjacency: Who is whose neighbour.
        steps: The number of steps.
        edges: Names of the adjacency's edges [A], if the edge to a neighbour counts, too.
    """
    found = [names]
    for step in range(1, steps + 1):
        said = mix(names[adjacency.source])
        if edges is not None:
            said = mix(said + edges)
        around = torch.zeros_like(names).index_add_(0, adjacency.target, said)
        names = mix(mix(names + step) * 3 + mix(around))
        found.append(names)
    return torch.stack(found)
