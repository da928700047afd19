"""Some graphs as one: what every network sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ciga.graphs.links import Links
from ciga.graphs.walks import return_probabilities


@dataclass
class Batch:
    """Some graphs as one disconnected graph; PyG's attribute names, plus ours.

    `pair` numbers the undirected edges of the batch: u->v and v->u share one number, so that a score
    per pair is a score per undirected edge.
    """

    x: Tensor  # [N, F] node features (F may be 0)
    edge_index: Tensor  # [2, E]
    edge_attr: Tensor | None  # [E, D]
    batch: Tensor  # [N] graph of each node
    edge_batch: Tensor  # [E] graph of each edge
    pair: Tensor  # [E] undirected edge of each edge
    pair_batch: Tensor  # [P] graph of each undirected edge
    y: Tensor  # [G] labels
    env: Tensor | None  # [G] environments
    edge_truth: Tensor | None  # [E] True on the edges of the invariant subgraph, where it is known
    index: Tensor  # [G] row of each graph in the store it came from
    num_graphs: int
    walks: Tensor | None = None  # [N, steps] return probabilities, where the store has them ready
    symmetric: bool = False  # is every edge known to be there in both directions?

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    @property
    def num_pairs(self) -> int:
        return self.pair_batch.size(0)

    @property
    def pair_truth(self) -> Tensor | None:
        """[P] True on the undirected edges of the invariant subgraph, where it is known."""
        if self.edge_truth is None:
            return None
        truth = torch.zeros(self.num_pairs, dtype=torch.bool, device=self.pair.device)
        truth[self.pair[self.edge_truth]] = True
        return truth

    @cached_property
    def links(self) -> Links:
        """The edges, to sum along."""
        return Links(self.edge_index, self.num_nodes)

    def return_probabilities(self, steps: int) -> Tensor:
        """[N, steps] of each node (see `ciga.graphs.walks`); a column does not depend on `steps`."""
        if self.walks is not None and self.walks.size(1) >= steps:
            return self.walks[:, :steps]
        return return_probabilities(self.edge_index, self.num_nodes, steps)

    @property
    def both_ways(self) -> Batch:
        """The batch with every edge in both directions."""
        if self.symmetric:
            return self
        edge_index, origin = mirrored(self.edge_index, self.num_nodes)

        def copied(value: Tensor | None) -> Tensor | None:
            return None if value is None else value.index_select(0, origin)

        return replace(
            self,
            edge_index=edge_index,
            edge_attr=copied(self.edge_attr),
            edge_batch=self.edge_batch.index_select(0, origin),
            pair=self.pair.index_select(0, origin),
            edge_truth=copied(self.edge_truth),
            symmetric=True,
        )

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        if self.x.device == torch.device(device):
            return self
        moved: dict[str, Any] = {
            k: v.to(device, non_blocking=True) for k, v in vars(self).items() if isinstance(v, Tensor)
        }
        return replace(self, **moved)


def mirrored(edge_index: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """The edges and the reverse of those that have none, [2, F], and which edge each of them copies, [F]."""
    source, target = edge_index
    there, back = source * nodes + target, target * nodes + source
    alone = (torch.isin(back, there, invert=True) & (source != target)).nonzero().flatten()
    origin = torch.cat([torch.arange(source.numel(), device=source.device), alone])
    return torch.cat([edge_index, edge_index.index_select(1, alone).flip(0)], 1), origin
