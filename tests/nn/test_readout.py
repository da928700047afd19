"""Readouts against a loop over graphs; graphs without nodes; no graph sees another."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ciga.nn.readout import READOUTS as KINDS
from ciga.nn.readout import Readout

BATCH = torch.tensor([0, 0, 0, 1, 3, 3, 4, 4, 4, 4])  # graph 2 and graph 5 have no node
GRAPHS, WIDTH = 6, 5


def readout_of(kind: str) -> Readout:
    torch.manual_seed(0)
    return Readout(kind, WIDTH)


def nodes() -> Tensor:
    return torch.randn(BATCH.numel(), WIDTH, generator=torch.Generator().manual_seed(1)) - 2.0


def by_a_loop(readout: Readout, h: Tensor) -> Tensor:
    out = []
    for graph in range(GRAPHS):
        mine = h[graph == BATCH]
        if not len(mine):
            out.append(torch.zeros(WIDTH))
        elif readout.gate is not None:
            out.append((readout.gate(mine).softmax(0) * mine).sum(0))
        else:
            simple = {"mean": mine.mean(0), "sum": mine.sum(0), "max": mine.amax(0)}
            simple["mean-max"] = torch.cat([simple["mean"][::2], simple["max"][1::2]])
            out.append(simple[readout.kind])
    return torch.stack(out)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_a_loop_over_graphs(kind: str) -> None:
    readout, h = readout_of(kind), nodes()
    torch.testing.assert_close(readout(h, BATCH, GRAPHS), by_a_loop(readout, h))


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_changes_its_own_graph_only(kind: str) -> None:
    readout, h = readout_of(kind), nodes()
    moved = h.clone()
    moved[4] += 10.0
    changed = (readout(h, BATCH, GRAPHS) != readout(moved, BATCH, GRAPHS)).any(1)
    assert changed.nonzero().flatten().tolist() == [3]


def test_attention_withstands_large_scores() -> None:
    readout = readout_of("attention")
    h = nodes() * 1e4
    out = readout(h, BATCH, GRAPHS)
    assert out.isfinite().all()
    torch.testing.assert_close(out, by_a_loop(readout, h))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_with_empty_graphs(kind: str) -> None:
    h = nodes().requires_grad_()
    readout_of(kind)(h, BATCH, GRAPHS).square().sum().backward()
    assert h.grad is not None
    assert h.grad.isfinite().all()
    assert h.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_those_of_a_loop(kind: str) -> None:
    readout = readout_of(kind)
    h = nodes().round()  # several nodes of a graph share a maximum,
    h[:3, 0] = torch.tensor([0.0, -1.0, 0.0])  # and one is exactly 0
    h.requires_grad_()
    weight = torch.randn(GRAPHS, WIDTH, generator=torch.Generator().manual_seed(2))
    mine, theirs = (
        torch.autograd.grad((out * weight).sum(), h)[0]
        for out in (readout(h, BATCH, GRAPHS), by_a_loop(readout, h))
    )
    torch.testing.assert_close(mine, theirs)
