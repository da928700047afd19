"""Convolutions against PyG's own, and what an edge weight does to each of them (defect 12)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv, GraphConv, PNAConv, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from ciga.nn.conv import GCN, GIN, OGBGCN, Edges, PyGConv
from ciga.nn.encoder import CONVS, _conv
from tests.helpers import random_graph

NODES, WIDTH, OUT, EDGE = 9, 5, 8, 3
WITH_ATTR = [c for c in CONVS if c != "sage"]


@pytest.fixture(scope="module")
def graph() -> tuple[Tensor, Tensor, Tensor]:
    """Features, edges and edge features of one graph; node 0 has neighbours."""
    data = random_graph(NODES, 16, seed=3, features=WIDTH, edge_features=EDGE)
    return data.x, data.edge_index, data.edge_attr


def conv_of(name: str, edge_inputs: int = 0) -> nn.Module:
    torch.manual_seed(0)
    return _conv(name, (0, 2, 3, 2, 1))(WIDTH, OUT, edge_inputs, 1).eval()


def edges_of(index: Tensor, weight: Tensor | None = None, attr: Tensor | None = None) -> Edges:
    return Edges(index, weight, attr, NODES)


def weight_matters(conv: nn.Module, x: Tensor, index: Tensor, attr: Tensor | None) -> bool:
    """Does a weight change the output, and does it get a gradient of its own at every edge?"""
    weight = torch.full((index.size(1),), 0.5, requires_grad=True)
    plain = conv(x, edges_of(index, None, attr))
    weighted = conv(x, edges_of(index, weight, attr))
    if torch.allclose(plain, weighted) or not weighted.requires_grad:
        return False
    (gradient,) = torch.autograd.grad(weighted.square().sum(), weight, allow_unused=True)
    return gradient is not None and bool((gradient != 0).float().mean() > 0.9)


@pytest.mark.parametrize("with_attr", [False, True])
@pytest.mark.parametrize("name", CONVS)
def test_the_edge_weight_changes_the_output_and_gets_a_gradient(
    name: str, with_attr: bool, graph: tuple[Tensor, Tensor, Tensor]
) -> None:
    x, index, attr = graph
    used = with_attr and name in WITH_ATTR
    assert weight_matters(conv_of(name, EDGE if used else 0), x, index, attr if used else None)


def test_the_test_above_fails_on_weights_that_are_ignored(graph: tuple[Tensor, Tensor, Tensor]) -> None:
    """What PyG does since 2.5 with `_edge_mask` set by hand: nothing."""

    class Masked(PyGConv):
        def forward(self, x: Tensor, edges: Edges) -> Tensor:
            self.conv._explain, self.conv._edge_mask = True, edges.weight
            return self.conv(x, edges.index)

    x, index, _ = graph
    assert not weight_matters(Masked(SAGEConv(WIDTH, OUT), False), x, index, None)


@pytest.mark.parametrize("name", CONVS)
def test_weight_one_is_no_weight(name: str, graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, _ = graph
    conv = conv_of(name)
    plain, ones = (conv(x, edges_of(index, w)) for w in (None, torch.ones(index.size(1))))
    torch.testing.assert_close(plain, ones)


@pytest.mark.parametrize("name", CONVS)
def test_weight_zero_silences_the_neighbours(name: str, graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, _ = graph
    conv = conv_of(name)
    into_first = index[1] == 0
    assert into_first.any()
    moved = x.clone()
    moved[1:] += 1.0

    def at_first(weight: Tensor) -> Tensor:
        return torch.stack([conv(v, edges_of(index, weight))[0] for v in (x, moved)])

    silent = at_first((~into_first).float())
    torch.testing.assert_close(silent[0], silent[1])
    loud = at_first(torch.ones(index.size(1)))
    assert not torch.allclose(loud[0], loud[1])


@pytest.mark.parametrize("name", ["gin", "k123"])
def test_weight_zero_is_the_edge_removed(name: str, graph: tuple[Tensor, Tensor, Tensor]) -> None:
    """Exactly so where messages are summed without a count of neighbours."""
    x, index, attr = graph
    conv = conv_of(name, EDGE)
    on = torch.arange(index.size(1)) % 3 > 0
    zeroed = conv(x, edges_of(index, on.float(), attr))
    removed = conv(x, edges_of(index[:, on], None, attr[on]))
    torch.testing.assert_close(zeroed, removed)


def assert_same(ours: Callable[[Tensor], Tensor], theirs: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Equal outputs, and equal gradients by the features."""
    gradients = []
    for function in (ours, theirs):
        given = x.clone().requires_grad_()
        gradients.append(torch.autograd.grad(function(given).square().sum(), given)[0])
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_gcn_is_pygs(graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, _ = graph
    ours, theirs = GCN(WIDTH, OUT, 0), GCNConv(WIDTH, OUT)
    nn.init.normal_(ours.bias)
    theirs.lin.weight, theirs.bias = ours.linear.weight, ours.bias
    assert_same(lambda x: ours(x, edges_of(index)), lambda x: theirs(x, index), x)


def test_a_weight_in_gcn_scales_the_message_and_not_the_degrees(graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, _ = graph
    ours, theirs = GCN(WIDTH, OUT, 0), GCNConv(WIDTH, OUT, normalize=False)
    theirs.lin.weight, theirs.bias = ours.linear.weight, ours.bias
    weight = torch.rand(index.size(1), generator=torch.Generator().manual_seed(1))
    weight[::4] = 0.0
    with_loops, norm = gcn_norm(index, None, NODES)
    norm = norm * torch.cat([weight, torch.ones(NODES)])
    heard = norm != 0  # an edge of weight 0 is left out of the reference: its message is gone
    assert_same(
        lambda x: ours(x, edges_of(index, weight)), lambda x: theirs(x, with_loops[:, heard], norm[heard]), x
    )


def test_gin_is_pygs(graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, attr = graph
    for edge_inputs, kind in ((0, GINConv), (EDGE, GINEConv)):
        ours = GIN(WIDTH, OUT, edge_inputs)
        nn.init.constant_(ours.eps, 0.3)
        inner = nn.Sequential(ours.inner, ours.norm.norms[0], nn.ReLU(), ours.outer)
        theirs = kind(inner, eps=0.3, **({"edge_dim": EDGE} if edge_inputs else {}))
        extra = {}
        if edge_inputs:
            theirs.lin = ours.edge
            extra = {"edge_attr": attr}
        ours.eval()
        assert_same(
            partial(ours, edges=edges_of(index, None, attr)), partial(theirs, edge_index=index, **extra), x
        )


def test_ogb_gcn_by_a_loop(graph: tuple[Tensor, Tensor, Tensor]) -> None:
    """sum over edges of relu(h_u + e) / sqrt((d_u + 1)(d_v + 1)), plus relu(h_v + root) / (d_v + 1)."""
    x, index, attr = graph
    conv = OGBGCN(WIDTH, OUT, EDGE)
    weight = torch.rand(index.size(1), generator=torch.Generator().manual_seed(2))
    h, e = conv.linear(x), conv.edge(attr)
    degree = torch.bincount(index[0], minlength=NODES) + 1.0  # of the edges that leave a node
    expected = [(h[v] + conv.root).relu() / degree[v] for v in range(NODES)]
    for i, (u, v) in enumerate(index.T.tolist()):
        expected[v] = expected[v] + weight[i] * (h[u] + e[i]).relu() / (degree[u] * degree[v]).sqrt()
    torch.testing.assert_close(conv(x, edges_of(index, weight, attr)), torch.stack(expected))


def test_degrees_are_of_the_edges_that_leave_where_ogb_counts_those() -> None:
    """On edges stored once the two are different networks; where every edge goes both ways they are one."""
    once = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2]])
    edges = Edges(once, None, None, 4)
    assert edges.received.own.flatten().tolist() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 2])
    assert edges.sent.own.flatten().tolist() == pytest.approx([1 / 4, 1 / 2, 1, 1])
    both = Edges(torch.cat([once, once.flip(0)], 1), None, None, 4)
    for one, other in zip(both.received, both.sent, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("name", "kind"), [("gat", GATConv), ("pna", PNAConv)])
def test_pyg_convs_are_used_as_they_are(name: str, kind: type, graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, _ = graph
    conv = conv_of(name)
    assert isinstance(conv, PyGConv)
    assert isinstance(conv.conv, kind)
    torch.testing.assert_close(conv(x, edges_of(index)), conv.conv(x, index))


def test_sage_is_pygs_sage(graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, _ = graph
    ours, theirs = conv_of("sage"), SAGEConv(WIDTH, OUT)
    theirs.lin_l.weight, theirs.lin_l.bias = ours.neighbours.weight, ours.neighbours.bias
    theirs.lin_r.weight = ours.own.weight
    assert_same(lambda x: ours(x, edges_of(index)), lambda x: theirs(x, index), x)


def test_a_mean_of_neighbours_does_not_grow_with_their_number() -> None:
    conv = conv_of("sage")

    def hub(leaves: int) -> Tensor:
        x = torch.ones(leaves + 1, WIDTH)
        index = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)])
        return conv(x, Edges(index, None, None, leaves + 1))[0]

    torch.testing.assert_close(hub(3), hub(300))


def test_k_gnn_layer_is_pygs_weighted_graph_conv(graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, _ = graph
    ours, theirs = conv_of("k123"), GraphConv(WIDTH, OUT)
    theirs.lin_rel.weight, theirs.lin_root.weight = ours.others.weight, ours.own.weight
    theirs.lin_rel.bias = ours.own.bias
    weight = torch.rand(index.size(1), generator=torch.Generator().manual_seed(4))
    assert_same(lambda x: ours(x, edges_of(index, weight)), lambda x: theirs(x, index, weight), x)


@pytest.mark.parametrize("name", ["gcn", "gcn-ogb", "gin", "sage", "k123"])
@pytest.mark.parametrize("with_attr", [False, True])
def test_gradients_by_finite_differences(
    name: str, with_attr: bool, graph: tuple[Tensor, Tensor, Tensor]
) -> None:
    """By features, edge weights and edge features, whatever shortcut a convolution takes."""
    x, index, attr = (t.double() if t.is_floating_point() else t for t in graph)
    conv = conv_of(name, EDGE if with_attr else 0).double()
    weight = torch.rand(index.size(1), dtype=torch.double, generator=torch.Generator().manual_seed(5))
    given = [t.requires_grad_() for t in (x.clone(), weight, attr.clone())][: 3 if with_attr else 2]

    def run(x: Tensor, weight: Tensor, attr: Tensor | None = None) -> Tensor:
        return conv(x, edges_of(index, weight, attr))

    assert torch.autograd.gradcheck(run, given, fast_mode=True)


def test_a_hook_is_gone_after_its_pass(graph: tuple[Tensor, Tensor, Tensor]) -> None:
    x, index, _ = graph
    conv = conv_of("gat")
    before = conv(x, edges_of(index))
    conv(x, edges_of(index, torch.zeros(index.size(1))))
    torch.testing.assert_close(conv(x, edges_of(index)), before)
