"""SPMotif: which motif does the graph hold? In training the base graph, or the colour, gives it away.

Three classes, cycle, house and crane (K2,3), planted on a tree, a ladder or a wheel. In training the base
agrees with the motif with probability `bias`; the out-of-distribution parts are unbiased, and the test graphs
about four times larger. The motif's own edges are the true invariant subgraph.

| split | bias | sizes | graphs per class |
|---|---|---|---|
| `train` | as asked | small | 3000 |
| `id_val`, `id_test` | as asked | small | 1000, 1000 |
| `ood_val` | none | small | 1000 |
| `ood_test` | none | large (`size_shift`) | 1000 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ciga.data.dataset import register
from ciga.data.datasets.causal import SIZES, CausalDataset, check_names, check_range
from ciga.data.datasets.mechanism import KINDS, Draw, Ints
from ciga.data.datasets.motifs import BASES, MOTIFS, SHORT_TREES, Shape, plant, shapes
from ciga.errors import UsageError
from ciga.graphs.store import GraphStore
from ciga.options import tunable

#: Part of the hash of every run. Edition 1 numbered and joined house and crane unlike the released data.
EDITION = "motifs-2"


@dataclass
class MotifDataset(CausalDataset):
    """Motifs on bases under any FIIF, PIIF or MIIF mechanism; the named datasets below set its defaults."""

    classes: ClassVar[int] = 3

    variant: str = tunable("clean", choices=("clean", "paper"), help="the paper's text, or its released data")
    both_ways: bool | None = tunable(
        None, help="store edges in both directions; by default only `clean` does"
    )
    structure: str = tunable("fiif", choices=KINDS, help="the base follows cause (fiif) or label (piif)")
    feature_dim: int = tunable(4, low=1, help="features per node: random, or all equal to the attribute")
    extra_edges: float = tunable(0.05, low=0, high=1, help="random edges, as a share of a graph's edges")
    motifs: tuple[str, ...] = tunable(("cycle", "house", "crane"), help="one class each")
    bases: tuple[str, ...] = tunable(("tree", "ladder", "wheel"), help="the base each motif favours")
    train_nodes: tuple[int, ...] = tunable((), help="smallest and largest base, if not the paper's")
    test_nodes: tuple[int, ...] = tunable((), help="the same for the large graphs of ood_test")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names("motif", self.motifs, list(MOTIFS))
        check_names("base", self.bases, list(BASES))
        if len(self.motifs) < 2:
            raise UsageError(f"motifs={self.motifs[0]}: a task needs at least two motifs.")
        for split in ("train", "ood_test"):
            self._families(split)

    def identity(self) -> dict[str, str]:
        """Which edition of the generator drew the graphs: no run on other graphs has the same hash."""
        return {"graphs": EDITION}

    def cause_names(self) -> tuple[str, ...]:
        return self.motifs

    def structures(self) -> int:
        return len(self.bases)

    def kinds(self) -> dict[str, str]:
        return {"structure": self.structure, **super().kinds()}

    def graphs(self, split: str, draw: Draw, env: Ints, rng: np.random.Generator) -> GraphStore:
        """Plant motif `draw.cause` on a base of family `draw.structure`.

        Args:
            split: The name of the part.
            draw: Cause, label and spurious factors of each graph.
            env: The environment of each graph, [n].
            rng: The source of randomness.
        """
        bases, base = self._choose(split, draw, rng)
        motifs = [MOTIFS[m] for m in self.motifs]
        both_ways = self.variant == "clean" if self.both_ways is None else self.both_ways
        planted = plant(bases, motifs, base, draw.cause, rng, extra=self.extra_edges, both_ways=both_ways)
        columns = {"motif": draw.cause, "base": draw.structure}
        if self.attributes == "none":
            x = rng.random((int(planted.node_ptr[-1]), self.feature_dim), dtype=np.float32)
        else:
            columns["attribute"] = draw.attribute
            colour = np.repeat(draw.attribute, np.diff(planted.node_ptr)).astype(np.float32)
            x = np.repeat(colour[:, None], self.feature_dim, axis=1)
        if self.size != "none":
            columns["size"] = draw.size
        return planted.store(x, draw.label, columns)

    def _families(self, split: str) -> list[list[Shape]]:
        """The members of each family of bases that occur in this split, from small to large."""
        large = split == "ood_test" and self.size_shift
        name = "test_nodes" if large else "train_nodes"
        limits = getattr(self, name)
        if not limits:
            return [shapes(b, BASES[b].large if large else BASES[b].small) for b in self.bases]
        check_range(name, limits)
        families = [shapes(b, BASES[b].within(*limits)) for b in self.bases]
        for base, members in zip(self.bases, families, strict=True):
            if not members:
                raise UsageError(
                    f"{name}={limits[0]},{limits[1]}: no {base} has that number of nodes: widen the range."
                )
        return families

    def _choose(self, split: str, draw: Draw, rng: np.random.Generator) -> tuple[list[Shape], Ints]:
        """All base graphs of this split, and which of them each graph has."""
        families, family = self._families(split), draw.structure
        released = self.variant == "paper" and not split.startswith("ood") and not self.train_nodes
        if released and "tree" in self.bases:
            short = np.array([m != "cycle" for m in self.motifs])[draw.cause]
            family = np.where(short & (family == self.bases.index("tree")), len(families), family)
            families.append(shapes("tree", SHORT_TREES))
        count = np.array([len(f) for f in families])
        if self.size == "none":
            place = _spread(family, rng)
        else:  # the size factor says in which third of its family, by size, the base lies
            place = (draw.size + _spread(family * SIZES + draw.size, rng)) / SIZES
        member = np.minimum((place * count[family]).astype(np.int64), count[family] - 1)
        flat = [shape for members in families for shape in members]
        return flat, (np.cumsum(count) - count)[family] + member


def _spread(group: Ints, rng: np.random.Generator) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), [n], spread evenly over each group of `group` [n].

    The largest test tree has 364 nodes, the smallest 15: with independent draws the mean size of a test set,
    and with it its difficulty, would depend on the seed.
    """
    count = np.bincount(group)
    order = np.lexsort((rng.random(group.size), group))
    rank = np.empty_like(group)
    rank[order] = np.arange(group.size) - (np.cumsum(count) - count)[group[order]]
    out: NDArray[np.float64] = (rank + rng.random(group.size)) / count[group]
    return out


@register("spmotif-struc")
@dataclass
class SPMotifStruc(MotifDataset):
    """SPMotif with a structural shift: the base agrees with the motif; random node features."""

    summary: ClassVar[str] = "which motif is in the graph; the base graph agrees with it in training"
    shift: ClassVar[str] = "structure (FIIF) + size"


@register("spmotif-mixed")
@dataclass
class SPMotifMixed(MotifDataset):
    """SPMotif with a mixed shift: base and node colour both agree with the motif."""

    summary: ClassVar[str] = (
        "which motif is in the graph; base graph and node colour agree with it in training"
    )
    shift: ClassVar[str] = "structure (FIIF) + attributes (FIIF or PIIF) + size"

    attributes: str = tunable("fiif", choices=KINDS, help="node features follow cause (fiif) or label (piif)")


@dataclass
class FailureStudy(MotifDataset):
    """The paper's failure study: fewer graphs."""

    train_per_class: int = tunable(600, low=1, help="training graphs per class")
    val_per_class: int = tunable(200, low=1, help="graphs per class in each validation part")
    test_per_class: int = tunable(200, low=1, help="graphs per class in each test part")


@register("failure-struc")
@dataclass
class FailureStruc(FailureStudy):
    """Failure study, structural shift alone."""

    summary: ClassVar[str] = "the failure study: the base graph agrees with the motif in training"
    shift: ClassVar[str] = "structure (FIIF), size optional"


@register("failure-fiif")
@dataclass
class FailureFIIF(FailureStudy):
    """Failure study, structure and an attribute that follows the motif."""

    summary: ClassVar[str] = "the failure study: base graph and node colour agree with the motif in training"
    shift: ClassVar[str] = "structure (FIIF) + attributes (FIIF), size optional"

    attributes: str = tunable("fiif", choices=KINDS, help="node features follow cause (fiif) or label (piif)")


@register("failure-piif")
@dataclass
class FailurePIIF(FailureStudy):
    """Failure study, structure and an attribute that follows the noisy label."""

    summary: ClassVar[str] = "the failure study: the node colour agrees with the noisy label in training"
    shift: ClassVar[str] = "structure (FIIF) + attributes (PIIF), size optional"

    attributes: str = tunable("piif", choices=KINDS, help="node features follow cause (fiif) or label (piif)")
