"""Causal models over a few bits, as joint distributions that can be written down in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Joint = NDArray[np.float64]

#: How the spurious part depends on the rest: on the cause (FIIF), on the label (PIIF), or one bit on each.
KINDS = ("FIIF", "PIIF", "MIIF")
#: Axes of a joint distribution: two bits of the cause, two of the spurious part, label, environment.
AXES = ("c1", "c2", "s1", "s2", "y", "e")
CAUSE, SPURIOUS = ("c1", "c2"), ("s1", "s2")


def entropy(joint: Joint, axes: Sequence[int]) -> float:
    """H of the variables on these axes, in bits."""
    rest = tuple(i for i in range(joint.ndim) if i not in axes)
    p = joint.sum(axis=rest).ravel() if axes else np.ones(1)
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())


def information(joint: Joint, a: Sequence[int], b: Sequence[int], given: Sequence[int] = ()) -> float:
    """I(A; B | given), in bits.

    Args:
        joint: The joint distribution.
        a: The variables A, by their place in it.
        b: The variables B.
        given: The variables that are known.
    """
    both, left, right = {*a, *b, *given}, {*a, *given}, {*b, *given}
    found = entropy(joint, [*left]) + entropy(joint, [*right]) - entropy(joint, [*both])
    return found - entropy(joint, [*given]) if given else found


@dataclass(frozen=True)
class World:
    """P(C, S, Y, E), C and S of two bits each. A graph is the four bits of C and S: f_gen is invertible."""

    kind: str
    joint: Joint  # [2, 2, 2, 2, 2, E], axes as in AXES

    def axes(self, names: Sequence[str]) -> list[int]:
        return [AXES.index(name) for name in names]

    def entropy(self, names: Sequence[str], given: Sequence[str] = ()) -> float:
        """H(names | given)."""
        both = entropy(self.joint, self.axes([*names, *given]))
        return both - entropy(self.joint, self.axes(given)) if given else both

    def information(self, a: Sequence[str], b: Sequence[str], given: Sequence[str] = ()) -> float:
        """I(a; b | given)."""
        return information(self.joint, self.axes(a), self.axes(b), self.axes(given))


def make_world(
    kind: str,
    *,
    label_noise: float = 0.0,
    spurious_noise: Sequence[Sequence[float]] = ((0.1, 0.2), (0.2, 0.3)),
    label: Sequence[int] = (0, 1, 1, 1),
    cause: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
) -> World:
    """A world whose environments are equally frequent, as the theorems ask.

    Args:
        kind: FIIF, PIIF or MIIF.
        label_noise: probability that the label is not f_inv(C).
        spurious_noise: for each environment, the probability that s1 and s2 differ from what they follow.
        label: f_inv as a table over (c1, c2) = 00, 01, 10, 11.
        cause: P(C) over the same four values.
    """
    environments = len(spurious_noise)
    joint = np.zeros((2, 2, 2, 2, 2, environments))
    for c1, c2, s1, s2, y, e in product(*map(range, joint.shape)):
        clean = label[2 * c1 + c2]
        p = cause[2 * c1 + c2] / environments * (label_noise if y != clean else 1 - label_noise)
        # In FIIF each spurious bit follows a bit of the cause, in PIIF the label, in MIIF one of each.
        followed = {"FIIF": (c1, c2), "PIIF": (y, y), "MIIF": (c1, y)}[kind]
        for bit, source, noise in zip((s1, s2), followed, spurious_noise[e], strict=True):
            p *= noise if bit != source else 1 - noise
        joint[c1, c2, s1, s2, y, e] = p
    return World(kind, joint)
