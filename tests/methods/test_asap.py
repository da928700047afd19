"""ASAP's pooling against dense matrices, and weights that carry a gradient."""

from __future__ import annotations

import pytest
import torch

from ciga.data import load
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.methods.asap import pooling as asap
from ciga.methods.asap.pooling import Pooling, coarsen
from ciga.methods.base import Step, make
from ciga.nn.encoder import Backbone, Spec


@pytest.fixture(scope="module")
def splits() -> Splits:
    return load("spmotif-struc", train_per_class=4, val_per_class=2, test_per_class=2)


def random_case() -> tuple[torch.Tensor, ...]:
    """Two graphs of 5 and 4 nodes with self-loops, random weights and shares, five clusters that stay."""
    generator = torch.Generator().manual_seed(0)
    loops = torch.arange(9)
    dense = torch.rand(9, 9, generator=generator) < 0.4
    dense[:5, 5:] = dense[5:, :5] = False
    dense[loops, loops] = True
    edges = dense.nonzero().T
    weight, share = torch.rand(2, edges.size(1), generator=generator)
    return edges, weight, share, torch.tensor([0, 2, 3, 6, 8]), torch.tensor([0] * 5 + [1] * 4)


@pytest.mark.parametrize("small", [64, 1])
@pytest.mark.parametrize(
    ("limits", "unused"), [((2**22, 2**22), "_joined"), ((0, 2**22), "_padded"), ((2**22, 0), "_padded")]
)
def test_coarsening_equals_dense_products(
    limits: tuple[int, int], unused: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Padded matrices, or a join of index lists where these are too large or too empty.
    monkeypatch.setattr(asap, "DENSE", limits[0])
    monkeypatch.setattr(asap, "JOIN", limits[1])
    monkeypatch.setattr(asap, unused, None)
    monkeypatch.setattr(asap, "SMALL", small)  # both graphs in one group, or one in each
    edges, weight, share, chosen, batch = random_case()
    a, s = torch.zeros(9, 9), torch.zeros(9, 9)
    for e in range(edges.size(1)):
        u, v = edges[:, e].tolist()
        a[u, v] += weight[e]
        s[u, v] += share[e]
    s = s[:, chosen]
    slow = s.T @ a @ s
    slow.fill_diagonal_(0)
    weight.requires_grad_()
    share.requires_grad_()
    index, value = coarsen(edges, weight, share, chosen, batch, 2)
    mine = torch.zeros(5, 5).index_put(tuple(index), value)
    torch.testing.assert_close(mine, slow)
    for gradient in torch.autograd.grad(value.sum(), [weight, share]):
        assert bool((gradient != 0).any())


def test_pooling_equals_pyg(splits: Splits) -> None:
    """Same clusters and edges as PyG's layer, which gives them without weights."""
    from torch_geometric.nn import ASAPooling

    torch.manual_seed(0)
    mine, theirs = Pooling(6, 0.5).eval(), ASAPooling(6, 0.5).eval()
    theirs.load_state_dict({**mine.state_dict(), "select.weight": torch.ones(1, 1)})  # the fittest stay
    batch = splits.train.batch(slice(None))
    x = torch.randn(batch.num_nodes, 6)
    pooled, edges, weight, owner = mine(
        x, batch.edge_index, torch.ones(batch.num_edges), batch.batch, batch.num_graphs
    )
    other, other_edges, _, other_owner, chosen = theirs(x, batch.edge_index, batch=batch.batch)
    order = chosen.argsort()
    torch.testing.assert_close(pooled, other[order], rtol=1e-4, atol=1e-5)
    assert torch.equal(owner, other_owner[order])
    place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel()))
    assert set(map(tuple, edges.T.tolist())) == set(map(tuple, place[other_edges].T.tolist()))
    assert bool((weight > 0).all())


def test_every_part_learns(splits: Splits) -> None:
    torch.manual_seed(0)
    method = make("asap")
    network = method.network(Spec.of(splits), Backbone(width=8))
    sum(method.loss(network, splits.train.batch(slice(None)), Step()).values()).backward()
    idle = {n for n, p in network.named_parameters() if p.grad is None or not bool((p.grad != 0).any())}
    # A bias before the softmax or before batch norm shifts nothing.
    assert all(n.endswith("bias") for n in idle), idle


def test_a_graph_alone_is_judged_alike(splits: Splits) -> None:
    torch.manual_seed(0)
    network = make("asap").network(Spec.of(splits), Backbone(width=8)).eval()
    whole = network(splits.train.batch(slice(None)))
    alone = torch.cat([network(splits.train.batch([i])) for i in range(len(splits.train))])
    torch.testing.assert_close(whole, alone)


@pytest.mark.parametrize("conv", ["gin", "gat", "k123"])
def test_other_convs_and_graphs_without_edges(conv: str) -> None:
    from torch_geometric.data import Data

    bare = Data(x=torch.rand(3, 2), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([1]))
    pair = Data(x=torch.rand(2, 2), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0]))
    method = make("asap")
    network = method.network(Spec(2, 0, 2), Backbone(conv=conv, width=8))
    loss = method.loss(network, GraphStore.from_pyg([bare, pair]).batch([0, 1]), Step())["risk"]
    loss.backward()
    assert bool(loss.isfinite())
