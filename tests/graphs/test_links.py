"""Sums along edges against a loop over the edges, their gradients, and the form for other devices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from ciga.graphs.links import Links
from ciga.nn.extractor import CHUNK, edge_logits

NODES, EDGES = 6, 14


def links_of(nodes: int = NODES, edges: int = EDGES, plain: bool = False) -> Links:
    """Random directed edges: repeated ones, loops and a node without edges (the last) among them."""
    index = torch.randint(nodes - 1, (2, edges), generator=torch.Generator().manual_seed(0))
    links = Links(index, nodes)
    links.plain = plain
    return links


def rows(number: int, seed: int, width: int = 3) -> Tensor:
    values = torch.randn(number, width, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return values.requires_grad_()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("edges", [EDGES, 1, 0])
def test_sums_and_gathers_by_a_loop(plain: bool, edges: int) -> None:
    links = links_of(edges=edges, plain=plain)
    h, messages = rows(NODES, 1), rows(edges, 2)
    strength = torch.rand(edges, dtype=torch.double)
    added, pulled, weighted = (torch.zeros(NODES, 3, dtype=torch.double) for _ in range(3))
    degree = [0] * NODES
    for e, (u, v) in enumerate(zip(links.source.tolist(), links.target.tolist(), strict=True)):
        added[v] += messages[e].detach()
        pulled[v] += h[u].detach()
        weighted[v] += strength[e] * h[u].detach()
        degree[v] += 1
    torch.testing.assert_close(links.add(messages), added)
    torch.testing.assert_close(links.pull(h, None), pulled)
    torch.testing.assert_close(links.pull(h, strength), weighted)
    assert links.degree.tolist() == degree
    assert torch.equal(links.at_source(h), h[links.source])
    assert torch.equal(links.at_target(h), h[links.target])


@pytest.mark.parametrize("edges", [EDGES, 0])
def test_gradients(edges: int) -> None:
    links = links_of(edges=edges)
    h, messages = rows(NODES, 1), rows(edges, 2)
    strength = torch.rand(edges, dtype=torch.double, requires_grad=True)
    jobs: list[tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = [
        (links.pull, (h, strength)),
        (lambda h: links.pull(h, None), (h,)),
        (links.at_source, (h,)),
        (links.at_target, (h,)),
        (links.add, (messages,)),
    ]
    for job, inputs in jobs:
        assert gradcheck(job, inputs)
        assert gradgradcheck(job, inputs)


@pytest.mark.parametrize("edges", [EDGES, 0])
def test_edge_logits_and_their_gradients(edges: int) -> None:
    links, plain = links_of(edges=edges), links_of(edges=edges, plain=True)
    u, v = rows(NODES, 1, width=5), rows(NODES, 2, width=5)
    w = torch.randn(5, dtype=torch.double, requires_grad=True)
    torch.testing.assert_close(edge_logits(u, v, w, links), edge_logits(u, v, w, plain))
    assert gradcheck(lambda u, v, w: edge_logits(u, v, w, links), (u, v, w))


@pytest.mark.parametrize("edges", [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 7])
def test_edge_logits_without_a_gradient_are_the_same(edges: int) -> None:
    links = links_of(edges=edges)
    u, v, w = torch.randn(NODES, 128), torch.randn(NODES, 128), torch.randn(128)
    with_gradient = edge_logits(u.requires_grad_(), v, w, links).detach()
    with torch.no_grad():
        torch.testing.assert_close(edge_logits(u, v, w, links), with_gradient, rtol=1e-6, atol=1e-5)


def test_more_nodes_than_sixteen_bits_can_number() -> None:
    nodes = 2**16 + 10
    index = torch.tensor([[0, nodes - 1, 3], [nodes - 1, 2**16, 2**16]])
    h = torch.arange(float(nodes)).unsqueeze(1)
    out = Links(index, nodes).pull(h, None).squeeze(1)
    assert out.nonzero().flatten().tolist() == [2**16]
    assert float(out[2**16]) == nodes - 1 + 3
