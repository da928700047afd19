"""The linear FIIF example: ERM and IRM accept a whole range of classifiers, and few of them generalise.

C is one number with a margin around zero, Y = [C > 0], flipped with a fixed probability. S has the sign of C
in training and the other one in test, so the supports do not overlap. A classifier is a direction: it
answers [cos(a) C + sin(a) S > 0]. Risks are exact sums over a grid of C and S.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

FLIP = 0.1
ANGLES: Values = np.linspace(-np.pi / 2, np.pi / 2, 721)
#: |S| in two training environments; |C| in every environment.
TRAINING = ((1.0, 2.0), (2.0, 3.0))
CAUSE = (0.5, 1.5)
GRID = 41


def risks(sizes: tuple[float, float], sign: float) -> Values:
    """The 0-1 risk of every angle in an environment where S has `sign` times the sign of C."""
    c, s = np.meshgrid(np.linspace(*CAUSE, GRID), np.linspace(*sizes, GRID))
    score = np.cos(ANGLES)[:, None, None] * c + np.sin(ANGLES)[:, None, None] * sign * s  # for C > 0
    right = (score > 0).mean(axis=(1, 2))  # by symmetry the same for C < 0
    out: Values = right * FLIP + (1 - right) * (1 - FLIP)
    return out


def accepted_angles() -> NDArray[np.bool_]:
    """Angles with the smallest training risk there is, in each environment.

    They minimise the mean risk, so ERM accepts them. Each is optimal in every single environment, so IRM's
    constraint holds for them too.
    """
    every = np.stack([risks(sizes, 1.0) for sizes in TRAINING])
    out: NDArray[np.bool_] = (every <= every.min(axis=1, keepdims=True) + 1e-12).all(axis=0)
    return out


def share_that_generalises(largest: float) -> float:
    """Of the angles that ERM and IRM accept, the share that keeps its risk where |S| <= `largest`."""
    accepted, test = accepted_angles(), risks((largest - 1.0, largest), -1.0)
    return float((test[accepted] <= FLIP + 1e-12).mean())
