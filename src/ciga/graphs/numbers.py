"""The door for numbers: what cannot be kept exactly is refused, and never wrapped round, cut or dropped."""

from __future__ import annotations

import torch
from torch import Tensor

from ciga.errors import CigaError


def whole_numbers(values: Tensor, what: str, dtype: torch.dtype = torch.int64) -> Tensor:
    """The same numbers as `dtype`; complex, fractional, NaN and infinite ones and those too large are errors.

    `what` begins the sentence, as in "y".
    """
    if values.dtype == dtype:
        return values
    if values.is_complex():
        raise CigaError(f"{what} holds complex numbers: it takes whole numbers.")
    if values.dtype == torch.bool or not values.numel():
        return values.to(dtype)
    limits = torch.iinfo(dtype)
    if values.is_floating_point():
        # Written so that NaN, which is equal to nothing, fails it too.
        bad = ~((values == values.floor()) & values.isfinite())
        if bool(bad.any()):
            found = float(values[bad].flatten()[0])
            raise CigaError(f"{what} holds {found:g}: it takes whole numbers.")
        # The largest number of the type has no exact float: stay below the next power of two.
        outside = (values < float(limits.min)) | (values >= -float(limits.min))
    else:
        wide = values.long()  # an unsigned number of 64 bits turns negative here
        outside = (wide < limits.min) | (wide > limits.max)
        if values.dtype == torch.uint64:
            outside |= wide < 0
    if bool(outside.any()):
        found = int(values[outside].flatten()[0].item())
        raise CigaError(f"{what} holds {found}: it takes numbers from {limits.min} to {limits.max}.")
    return values.to(dtype)


def no_complex(values: Tensor, what: str) -> Tensor:
    """The values as they are, unless they have an imaginary part, which would be lost."""
    if values.is_complex():
        raise CigaError(f"{what} holds complex numbers: give their real and imaginary parts as columns.")
    return values


def real_numbers(values: Tensor, what: str) -> Tensor:
    """The same numbers as 32-bit floats, where one that is too large becomes infinite."""
    return no_complex(values, what).float()
