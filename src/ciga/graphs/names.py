"""Names of 64 bits for things too many to list: rows of features, and what is built from them.

Equal things have equal names wherever they occur; among a million names two collide with chance 3e-8.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mix(x: Tensor) -> Tensor:
    """A permutation of the 64-bit integers without visible pattern (the finaliser of splitmix64)."""
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


def name_rows(numbers: Tensor) -> Tensor:
    """A name [N] for each row of integers [N, F]; the order within a row counts."""
    place = mix(torch.arange(1, numbers.size(1) + 1, device=numbers.device))
    return mix(mix(numbers + place).sum(1) + 1)


def row_names(x: Tensor) -> Tensor:
    """A name [N] for each row of features [N, F]: equal rows, equal names."""
    return name_rows((x.float() + 0.0).view(torch.int32).long())  # + 0.0 makes -0.0 and 0.0 one number


def are_labels(x: Tensor) -> bool:
    """Whether rows of features [N, F] are labels rather than measurements: ten nodes or more to a value."""
    return x.size(1) > 0 and 10 * row_names(x).unique().numel() <= x.size(0)
