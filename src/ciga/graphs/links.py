"""Sums along the edges of a batch, forwards and backwards, as bags of rows.

Scattering E rows of messages onto N nodes is slow on a CPU, and so is the gradient of a gather, which is
a scatter. Once the edges are sorted by the end that collects them, both are `embedding_bag`: one pass
over the rows. The sort is made once for a batch and serves every layer and both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class Bags(NamedTuple):
    """The edges sorted by one of their ends."""

    order: Tensor  # [E] rows of the edges
    start: Tensor  # [N + 1] where each node's edges begin
    other: Tensor  # [E] the other end of each edge, in this order


class Links:
    """The edges between N nodes, with the sums and gathers of which convolutions are made."""

    def __init__(self, index: Tensor, nodes: int) -> None:
        self.source, self.target = index
        self.nodes = nodes
        # Other devices scatter well, and a traced graph has no numbers to sort.
        self.plain = not index.is_cpu or torch.compiler.is_compiling()

    @cached_property
    def into(self) -> Bags:
        """Sorted by target."""
        return _bags(self.target, self.source, self.nodes)

    @cached_property
    def out_of(self) -> Bags:
        """Sorted by source."""
        return _bags(self.source, self.target, self.nodes)

    @cached_property
    def degree(self) -> Tensor:
        """Edges into each node, [N]."""
        return _count(self.target, self.nodes) if self.plain else self.into.start.diff()

    @cached_property
    def out_degree(self) -> Tensor:
        """Edges out of each node, [N]."""
        return _count(self.source, self.nodes)

    def at_source(self, h: Tensor) -> Tensor:
        """Each edge's source row of h [N, d], [E, d]."""
        if self.plain:
            return h.index_select(0, self.source)
        return _gather(h, self.source, self.out_of)

    def at_target(self, h: Tensor) -> Tensor:
        """Each edge's target row of h [N, d], [E, d]."""
        if self.plain:
            return h.index_select(0, self.target)
        return _gather(h, self.target, self.into)

    def add(self, messages: Tensor) -> Tensor:
        """Sum the messages [E, d] at their targets, [N, d]."""
        if self.plain:
            return messages.new_zeros(self.nodes, messages.size(1)).index_add(0, self.target, messages)
        return _sum(messages, self.target, self.into)

    def pull(self, h: Tensor, strength: Tensor | None) -> Tensor:
        """Sum at each node the rows of h [N, d] at its edges' sources, times their strength [E]; [N, d]."""
        if self.plain:
            messages = self.at_source(h)
            return self.add(messages if strength is None else messages * strength.unsqueeze(1))
        return _pull(h, strength, self.source, self.target, self.into, self.out_of)


def _count(end: Tensor, nodes: int) -> Tensor:
    """How many edges have this end at each node, [N]."""
    return torch.zeros(nodes, dtype=end.dtype, device=end.device).index_add_(0, end, torch.ones_like(end))


def _bags(end: Tensor, other: Tensor, nodes: int) -> Bags:
    numbers = end.numpy()
    # NumPy sorts 16-bit numbers by radix, three times as fast as any sort of 64-bit ones.
    small = numbers.astype(np.uint16) if nodes <= 2**16 else numbers
    order = torch.from_numpy(small.argsort(kind="stable"))
    start = np.zeros(nodes + 1, dtype=np.int64)
    np.bincount(numbers, minlength=nodes).cumsum(out=start[1:])
    return Bags(order, torch.from_numpy(start), other.index_select(0, order))


def bag(rows: Tensor, which: Tensor, start: Tensor, weight: Tensor | None = None) -> Tensor:
    """out[i] = sum over j in start[i] … start[i + 1] of weight[j] * rows[which[j]].

    Args:
        rows: What is added up [n, d].
        which: The row of each summand [m].
        start: Where the summands of each sum begin, and the end of the last.
        weight: Of each summand [m]; None for 1.
    """
    if not which.numel():
        return rows.new_zeros(start.numel() - 1, rows.size(1))
    return torch.embedding_bag(rows, which, start, False, 0, False, weight, True)[0]


# The gradient of a gather is a sum and that of a sum a gather; that of a pull pulls against the edges.


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, end: Tensor, bags: Bags) -> Tensor:
        ctx.bags = bags
        return h.index_select(0, end)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return bag(grad, ctx.bags.order, ctx.bags.start), None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, messages: Tensor, end: Tensor, bags: Bags) -> Tensor:
        ctx.end = end
        return bag(messages.detach(), bags.order, bags.start)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad.index_select(0, ctx.end), None, None


class _Pull(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, strength: Tensor | None, source: Tensor, target: Tensor, into: Bags, out_of: Bags
    ) -> Tensor:
        ctx.save_for_backward(h, strength)
        ctx.ends = source, target, out_of
        weight = None if strength is None else strength.detach().index_select(0, into.order)
        return bag(h.detach(), into.other, into.start, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, strength = ctx.saved_tensors
        source, target, out_of = ctx.ends
        back, per_edge = None, None
        if ctx.needs_input_grad[0]:
            weight = None if strength is None else strength.index_select(0, out_of.order)
            back = bag(grad, out_of.other, out_of.start, weight)
        if ctx.needs_input_grad[1]:
            per_edge = (grad.index_select(0, target) * h.index_select(0, source)).sum(1)
        return back, per_edge, None, None, None, None


_gather: Callable[..., Tensor] = _Gather.apply
_sum: Callable[..., Tensor] = _Sum.apply
_pull: Callable[..., Tensor] = _Pull.apply
