"""Node classification under a shift that is made: which motif does a node belong to?

Each part is one connected graph: a base of a family with a motif on it, again and again, joined in a line. A
node of each motif is classified by its ego-graph, as the paper's discussion proposes. In training the base
around a motif agrees with it with probability `bias`; in the shifted parts it says nothing, and the bases of
`ood_test` are larger. The motif's own edges are the true invariant subgraph.

| split | bias | bases | nodes per class |
|---|---|---|---|
| `train` | as asked | small | 1000 |
| `id_val`, `id_test` | as asked | small | 300, 300 |
| `ood_val` | none | small | 300 |
| `ood_test` | none | large (`size_shift`) | 300 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ciga.data.dataset import register
from ciga.data.datasets.ego import ego_graphs
from ciga.data.datasets.mechanism import Draw, Ints
from ciga.data.datasets.motifs import MOTIFS
from ciga.data.datasets.spmotif import MotifDataset
from ciga.graphs.store import GraphStore
from ciga.options import tunable


@register("node-motifs")
@dataclass
class NodeMotifs(MotifDataset):
    """Nodes of one large graph per part, each as its ego-graph; the base around a motif agrees with it."""

    summary: ClassVar[str] = "node classification: a node's motif; the base around it agrees in training"
    shift: ClassVar[str] = "structure (FIIF) + size"

    train_per_class: int = tunable(1000, low=1, help="training nodes per class")
    val_per_class: int = tunable(300, low=1, help="nodes per class in each validation part")
    test_per_class: int = tunable(300, low=1, help="nodes per class in each test part")
    hops: int = tunable(4, low=1, high=10, help="radius of an ego-graph; a motif fits into 2")
    mark_centre: bool = tunable(True, help="one more node feature: 1 at the node in question, else 0")
    most_nodes: int = tunable(1000, low=2, help="largest number of nodes of an ego-graph; the nearest stay")

    def graphs(self, split: str, draw: Draw, env: Ints, rng: np.random.Generator) -> GraphStore:
        """Join the graphs of this split to one, and cut out the ego-graph of one node of each motif.

        Args:
            split: The name of the part.
            draw: Cause, label and spurious factors of each motif.
            env: The environment of each, [n].
            rng: The source of randomness.
        """
        pieces = super().graphs(split, draw, env, rng)
        motif_nodes = torch.tensor([MOTIFS[m].nodes for m in self.motifs])[torch.from_numpy(draw.cause)]
        end = pieces.node_ptr[1:]
        first = end - motif_nodes  # a motif's nodes are numbered after its base's
        piece = torch.arange(len(pieces)).repeat_interleave(pieces.num_nodes)
        node = torch.arange(len(piece))
        whole = {
            "x": pieces.x,
            "edge_index": self._joined(pieces, first, rng),
            "y": pieces.y[piece],
            "motif": torch.where(node >= first[piece], piece, -1),
        }
        centres = first + (torch.from_numpy(rng.random(len(pieces))) * motif_nodes).long()
        store, _ = ego_graphs(whole, centres.numpy(), self.hops, self.most_nodes, self.mark_centre)
        store.columns |= pieces.columns
        return store

    def _joined(self, pieces: GraphStore, first: Tensor, rng: np.random.Generator) -> Tensor:
        """The edges of all pieces, and one from each base to the next, in random order."""
        start = pieces.node_ptr[:-1]
        inner = pieces.edge_index + start.repeat_interleave(pieces.num_edges)
        one, other = (
            start + (torch.from_numpy(rng.random(len(pieces))) * (first - start)).long() for _ in "ab"
        )
        order = torch.from_numpy(rng.permutation(len(pieces)))
        line = torch.stack([one[order[:-1]], other[order[1:]]]).sort(0).values
        both_ways = self.variant == "clean" if self.both_ways is None else self.both_ways
        return torch.cat([inner, line, *([line.flip(0)] if both_ways else [])], 1)
