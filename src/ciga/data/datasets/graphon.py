"""Graphs from graphons: the label is in the pattern of the edges, size and attributes only seem to know it.

The causal model of Bevilacqua et al. (2021), as the CIGA paper's appendix writes it as a case of FIIF:

* the cause is a graphon C_W: [0, 1]^2 -> [0, 1], and the label its class;
* node v has a hidden place U_v, uniform on [0, 1], and u-v is an edge with probability C_W(U_u, U_v). (The
  paper prints the inequality the other way round, which makes C_W the probability of *no* edge.)
* environment and graphon together give the attributes: X_v := f_gen(S), S := f_spu(E, C_W);
* the environment gives the number of nodes.

All graphons here have the same edge density, so that neither density nor mean degree gives the class away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from ciga.data.dataset import register
from ciga.data.datasets.causal import SIZES, CausalDataset, check_names, check_range
from ciga.data.datasets.mechanism import KINDS, Draw, Ints
from ciga.errors import UsageError
from ciga.graphs.store import GraphStore
from ciga.options import tunable

Floats = NDArray[np.float64]
#: Pairs of nodes looked at together: bounds the memory, whatever the number of graphs.
CHUNK = 1_000_000


def _same_half(u: Floats, v: Floats) -> NDArray[np.bool_]:
    return np.asarray((u < 0.5) == (v < 0.5))


#: Symmetric functions of two places with mean 1 and at most 4; times the density they are graphons.
GRAPHONS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "flat": lambda u, v: np.ones_like(u),
    "communities": lambda u, v: np.where(_same_half(u, v), 1.8, 0.2),
    "bipartite": lambda u, v: np.where(_same_half(u, v), 0.2, 1.8),
    "hubs": lambda u, v: 4.0 * u * v,
    "ring": lambda u, v: np.where(np.minimum(np.abs(u - v), 1 - np.abs(u - v)) < 0.125, 4.0, 0.0),
}


@register("graphon")
@dataclass
class Graphon(CausalDataset):
    """Which graphon was the graph drawn from?"""

    summary: ClassVar[str] = (
        "which graphon the graph was drawn from; its attributes agree with it in training"
    )
    shift: ClassVar[str] = "attributes (FIIF or PIIF) + size"
    classes: ClassVar[int] = 3

    train_per_class: int = tunable(1000, low=1, help="training graphs per class")
    val_per_class: int = tunable(300, low=1, help="graphs per class in each validation part")
    test_per_class: int = tunable(300, low=1, help="graphs per class in each test part")
    attributes: str = tunable("fiif", choices=KINDS, help="node features follow cause (fiif) or label (piif)")
    environments: int = tunable(2, low=1, help="training environments, each with its own sizes and bias")
    bias_spread: float = tunable(0.05, low=0, high=0.5, help="their biases go from bias - … to bias + …")
    graphons: tuple[str, ...] = tunable(("communities", "bipartite", "hubs"), help="one class each")
    density: float = tunable(0.2, low=0.01, high=0.25, help="edges, as a share of all pairs of nodes")
    train_nodes: tuple[int, ...] = tunable(
        (15, 34), help="smallest and largest graph, shared out among environments"
    )
    test_nodes: tuple[int, ...] = tunable((60, 99), help="smallest and largest graph of ood_test")
    feature_noise: float = tunable(0.5, low=0, help="standard deviation of a node's features")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names("graphon", self.graphons, list(GRAPHONS))
        check_range("train_nodes", self.train_nodes)
        check_range("test_nodes", self.test_nodes)
        if len(self.graphons) < 2:
            raise UsageError(f"graphons={self.graphons[0]}: a task needs at least two graphons.")
        if self.train_nodes[1] - self.train_nodes[0] + 1 < self.environments:
            raise UsageError(
                f"{self.environments} environments need as many different sizes: widen train_nodes."
            )

    def cause_names(self) -> tuple[str, ...]:
        return self.graphons

    def graphs(self, split: str, draw: Draw, env: Ints, rng: np.random.Generator) -> GraphStore:
        """Draw the size from the environment, the edges from the graphon, the features from the attribute.

        Args:
            split: The name of the part.
            draw: Cause, label and spurious factors of each graph.
            env: The environment of each graph, [n].
            rng: The source of randomness.
        """
        nodes = self._sizes(split, draw, env, rng)
        edges, per_graph = sample_edges(
            [GRAPHONS[g] for g in self.graphons], draw.cause, nodes, self.density, rng
        )
        centre = np.eye(len(self.graphons), dtype=np.float32)[np.repeat(draw.attribute, nodes)]
        x = centre + np.float32(self.feature_noise) * rng.standard_normal(centre.shape, dtype=np.float32)
        columns = {"graphon": draw.cause, "attribute": draw.attribute}
        if self.size != "none":
            columns["size"] = draw.size
        return GraphStore(
            torch.from_numpy(x),
            torch.from_numpy(edges.astype(np.int32)),
            torch.from_numpy(np.concatenate([[0], np.cumsum(nodes)])),
            torch.from_numpy(np.concatenate([[0], np.cumsum(per_graph)])),
            torch.from_numpy(draw.label),
            columns={name: torch.from_numpy(values) for name, values in columns.items()},
        )

    def _sizes(self, split: str, draw: Draw, env: Ints, rng: np.random.Generator) -> Ints:
        """Nodes of each graph, [n]: environment e of training has the e-th part of the range of sizes."""
        low, high = self.test_nodes if split == "ood_test" and self.size_shift else self.train_nodes
        bounds = np.linspace(low, high + 1, self.environments + 1).astype(np.int64)
        first, last = bounds[:-1][env], bounds[1:][env]
        if split.startswith("ood"):
            first, last = np.full_like(env, low), np.full_like(env, high + 1)
        place = (draw.size + rng.random(env.size)) / SIZES
        return np.minimum(first + (place * (last - first)).astype(np.int64), last - 1)


def sample_edges(
    graphons: list[Callable[[Floats, Floats], Floats]],
    which: Ints,
    nodes: Ints,
    density: float,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Edges of graphs of these sizes [G] from these graphons [G]: [2, E] both ways, and edges per graph [G].

    Every pair of nodes is looked at, some `CHUNK` pairs at a time; a chunk holds whole graphs.

    Args:
        graphons: Symmetric functions of two places in [0, 1], with mean 1.
        which: The graphon of each graph [G].
        nodes: The number of nodes of each graph [G].
        density: Times a graphon, the chance of an edge.
        rng: The source of chance.
    """
    pairs = nodes * (nodes - 1) // 2
    chunk = (np.cumsum(pairs) - pairs) // CHUNK
    found, counts = [np.zeros((2, 0), dtype=np.int64)], [nodes[:0]]
    for rows in np.split(np.arange(nodes.size), np.flatnonzero(np.diff(chunk)) + 1):
        place = rng.random(int(nodes[rows].sum()))
        graph = np.repeat(np.arange(rows.size), pairs[rows])
        number = np.arange(graph.size) - (np.cumsum(pairs[rows]) - pairs[rows])[graph]
        # Pairs u < v are numbered v (v - 1) / 2 + u; the two corrections undo the rounding of the root.
        v = ((1 + np.sqrt(1 + 8 * number)) / 2).astype(np.int64)
        v -= v * (v - 1) // 2 > number
        v += (v + 1) * v // 2 <= number
        u = number - v * (v - 1) // 2
        first = (np.cumsum(nodes[rows]) - nodes[rows])[graph]
        at_u, at_v = place[first + u], place[first + v]
        kind = which[rows][graph]
        chance = density * np.select(
            [kind == k for k in range(len(graphons))], [w(at_u, at_v) for w in graphons]
        )
        edge = rng.random(graph.size) < chance
        ends = np.repeat(np.stack([u[edge], v[edge]]), 2, axis=1)
        ends[:, 1::2] = ends[::-1, 1::2]
        found.append(ends)
        counts.append(2 * np.bincount(graph[edge], minlength=rows.size))
    return np.concatenate(found, axis=1), np.concatenate(counts)
