"""Gradient reversal: one backward pass trains an adversary and what it plays against."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: Tensor) -> Tensor:
        ctx.save_for_backward(strength)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (strength,) = ctx.saved_tensors
        return -strength * gradient, None


def reverse(x: Tensor, strength: float | Tensor) -> Tensor:
    """`x` itself; the gradient that flows back through it is multiplied by -strength (Ganin et al., 2016)."""
    strength = torch.as_tensor(strength, dtype=x.dtype, device=x.device)
    out: Tensor = _Reverse.apply(x, strength)  # type: ignore[no-untyped-call]
    return out
