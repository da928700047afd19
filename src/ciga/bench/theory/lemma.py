"""The lemma I(C;Y) >= I(S;Y), on which theorem (ii) rests, tried on random worlds.

The printed proof writes I(C;Y) = H(Y) - H(C|Y); the identity is H(C) - H(C|Y), or H(Y) - H(Y|C).
What is true:

- FIIF: S depends on Y through C alone, so the data processing inequality gives the lemma, with or without
  label noise.
- No label noise: Y is a function of C, so I(C;Y) = H(Y), and nothing can exceed it.
- PIIF and MIIF with label noise: S follows the noisy label itself and can know more of it than C does,
  whether H(C|Y) <= H(S|Y) holds or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ciga.bench.theory.world import CAUSE, KINDS, SPURIOUS, World, make_world


@dataclass(frozen=True)
class LemmaCount:
    """Random worlds of one kind that meet the lemma's assumption H(C|Y) <= H(S|Y)."""

    kind: str
    label_noise: bool
    worlds: int
    violated: int
    gap: tuple[float, ...]  # I(C;Y) - I(S;Y) of each world


def random_world(kind: str, label_noise: bool, draw: np.random.Generator) -> World:
    """Random P(C), f_inv, label noise up to 0.4 and spurious noise up to 0.5 in two environments."""
    label = [0]
    while len(set(label)) < 2:
        label = [int(v) for v in draw.integers(0, 2, 4)]
    noise = draw.uniform(0.0, 0.5, (2, 2))
    return make_world(
        kind,
        label_noise=float(draw.uniform(0.0, 0.4)) if label_noise else 0.0,
        spurious_noise=[[float(v) for v in row] for row in noise],
        label=label,
        cause=[float(v) for v in draw.dirichlet(np.ones(4))],
    )


def count_violations(worlds: int = 500, seed: int = 1) -> list[LemmaCount]:
    """The lemma on `worlds` random worlds of every kind, without and with label noise."""
    counts = []
    for kind in KINDS:
        for noisy in (False, True):
            draw = np.random.default_rng(seed)
            gaps: list[float] = []
            while len(gaps) < worlds:
                world = random_world(kind, noisy, draw)
                if world.entropy(CAUSE, ["y"]) <= world.entropy(SPURIOUS, ["y"]):
                    gap = world.information(CAUSE, ["y"]) - world.information(SPURIOUS, ["y"])
                    gaps.append(gap)
            violated = sum(gap < -1e-9 for gap in gaps)
            counts.append(LemmaCount(kind, noisy, worlds, violated, tuple(gaps)))
    return counts
