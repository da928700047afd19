"""Both theorems by enumeration: every featurizer there is, and which of them solve CIGAv1 and CIGAv2.

A featurizer picks some of the four bits of a graph. The contrastive term needs a partner G~ of each graph.
The paper draws it by the label: then G and G~ are independent given Y, and I(G_c; G~_c | Y) is zero for
*every* featurizer. Its proof argues with two graphs of the same cause, so `partner="cause"` draws G~ from
P(G | C).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ciga.bench.theory.world import CAUSE, SPURIOUS, Joint, World, information

BITS = (*CAUSE, *SPURIOUS)
#: Differences below this are rounding.
SAME = 1e-9


@dataclass(frozen=True)
class Featurizer:
    """One choice of bits as G_c, and the information terms of the two objectives."""

    kept: tuple[str, ...]
    contrast: float  # I(G_c; G~_c | Y)
    invariant: float  # I(G_c; Y)
    spurious: float  # I(G_s; Y), of the bits left over

    @property
    def is_cause(self) -> bool:
        return self.kept == CAUSE


def featurizers(world: World, partner: str = "cause") -> list[Featurizer]:
    """All sixteen."""
    pairs = _with_partner(world, partner)
    found = []
    for size in range(len(BITS) + 1):
        for kept in combinations(BITS, size):
            mine = [BITS.index(bit) for bit in kept]
            theirs = [len(BITS) + i for i in mine]
            rest = [bit for bit in BITS if bit not in kept]
            found.append(
                Featurizer(
                    kept,
                    information(pairs, mine, theirs, [2 * len(BITS)]) if kept else 0.0,
                    world.information(kept, ["y"]),
                    world.information(rest, ["y"]),
                )
            )
    return found


def _with_partner(world: World, partner: str) -> Joint:
    """P(G, G~, Y), axes: four bits of G, four of G~, the label; environments are drawn independently."""
    joint = world.joint.sum(axis=5)  # [c1, c2, s1, s2, y]
    label = joint.sum(axis=(0, 1, 2, 3))
    if partner == "label":
        given = joint / np.where(label > 0, label, 1)
        return np.einsum("abcdy,efghy,y->abcdefghy", given, given, label)
    shared = joint.sum(axis=(2, 3))  # P(C, Y): the partner has the same cause and the same label
    given = joint / np.where(shared > 0, shared, 1)[:, :, None, None, :]  # P(S | C, Y)
    out: Joint = np.zeros((2,) * 9)
    for c1 in range(2):
        for c2 in range(2):
            block = np.einsum("cdy,ghy,y->cdghy", given[c1, c2], given[c1, c2], shared[c1, c2])
            out[c1, c2, :, :, c1, c2] = block
    return out


def solutions_v1(world: World, size: int, partner: str = "cause") -> list[Featurizer]:
    """CIGAv1: of those with at most `size` bits and the largest contrast, the ones most informative of Y."""
    allowed = [f for f in featurizers(world, partner) if len(f.kept) <= size]
    return _best(_best(allowed, lambda f: f.contrast), lambda f: f.invariant)


def solutions_v2(world: World, partner: str = "cause") -> list[Featurizer]:
    """CIGAv2: no bound on the size; the rest explains Y as well as it can, but never better than G_c."""
    feasible = [
        f
        for f in _best(featurizers(world, partner), lambda f: f.contrast)
        if f.spurious <= f.invariant + SAME
    ]
    return _best(feasible, lambda f: f.invariant + f.spurious)


def _best(found: list[Featurizer], value: Callable[[Featurizer], float]) -> list[Featurizer]:
    most = max(map(value, found), default=0.0)
    return [f for f in found if value(f) >= most - SAME]
