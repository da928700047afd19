"""Some graphs as one: what every network sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ciga.data.links import Links


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

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    @property
    def num_pairs(self) -> int:
        return self.pair_batch.size(0)

    @cached_property
    def links(self) -> Links:
        """The edges, to sum along."""
        return Links(self.edge_index, self.num_nodes)

    @cached_property
    def both_ways(self) -> tuple[Batch, Tensor]:
        """The batch with every edge in both directions, and which edge each of its edges copies."""
        source, target = self.edge_index
        there = torch.zeros(2, self.num_pairs, dtype=torch.bool, device=source.device)
        there[(source > target).long(), self.pair] = True
        missing = (there[0] != there[1]).index_select(0, self.pair) & (source != target)
        back = missing.nonzero().flatten()
        origin = torch.cat([torch.arange(self.num_edges, device=back.device), back])

        def copied(value: Tensor | None) -> Tensor | None:
            return None if value is None else value.index_select(0, origin)

        mirrored = replace(
            self,
            edge_index=torch.cat([self.edge_index, self.edge_index.index_select(1, back).flip(0)], 1),
            edge_attr=copied(self.edge_attr),
            edge_batch=self.edge_batch.index_select(0, origin),
            pair=self.pair.index_select(0, origin),
            edge_truth=copied(self.edge_truth),
        )
        return mirrored, origin

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        if self.x.device == torch.device(device):
            return self
        moved: dict[str, Any] = {
            k: v.to(device, non_blocking=True) for k, v in vars(self).items() if isinstance(v, Tensor)
        }
        return replace(self, **moved)
