"""The encoder: jumping knowledge, virtual node, missing features, and graphs that do not see each other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ciga.data import Splits
from ciga.nn import Backbone, Encoder, Spec
from ciga.nn.encoder import CONVS
from tests.helpers import batch_of, mixed_graphs, permuted

DEGREES = (1, 2, 3, 2)


def encoder_of(inputs: int = 4, edge_inputs: int = 0, **options: object) -> Encoder:
    torch.manual_seed(0)
    backbone = Backbone(**{"layers": 3, "width": 8, **options})
    encoder = Encoder(inputs, edge_inputs, backbone, DEGREES)
    with torch.no_grad():  # some steps, so that the running statistics are not those of a fresh network
        for _ in range(3):
            encoder(batch_of(mixed_graphs(features=inputs, edge_features=edge_inputs)))
    return encoder.eval()


@pytest.mark.parametrize("conv", CONVS)
def test_a_node_changes_its_own_graph_only(conv: str) -> None:
    encoder, batch = encoder_of(conv=conv, virtual_node=True), batch_of(mixed_graphs())
    before = encoder(batch)
    row = int((batch.batch == 2).nonzero()[0])
    batch.x[row] += 1.0
    changed = (encoder(batch) - before).abs().amax(1) > 1e-6
    assert changed[row]
    assert set(batch.batch[changed].tolist()) == {2}


@pytest.mark.parametrize("conv", CONVS)
def test_renamed_nodes_get_renamed_embeddings(conv: str) -> None:
    encoder = encoder_of(conv=conv, edge_inputs=2)
    graph = mixed_graphs(edge_features=2)[2]
    other, place, _ = permuted(graph, seed=5)
    one, two = (encoder(batch_of([g])) for g in (graph, other))
    torch.testing.assert_close(two[place], one, rtol=1e-4, atol=1e-5)
    assert one.detach().std(0).max() > 1e-3


@pytest.mark.parametrize("jk", ["last", "sum", "cat", "max"])
def test_jumping_knowledge(jk: str) -> None:
    encoder, batch = encoder_of(jk=jk), batch_of(mixed_graphs())
    seen: list[Tensor] = []
    for i, norm in enumerate(encoder.norms):
        last = i == len(encoder.norms) - 1
        norm.register_forward_hook(lambda _, __, h, last=last: seen.append(h if last else h.relu()))
    found = encoder(batch)
    expected = {
        "last": seen[-1],
        "sum": sum(seen),
        "cat": torch.cat(seen, 1),
        "max": torch.stack(seen).amax(0),
    }
    torch.testing.assert_close(found, expected[jk])
    assert found.size(1) == encoder.dim


def test_a_virtual_node_carries_news_across_a_graph_without_edges() -> None:
    batch = batch_of(mixed_graphs())
    first, other = (batch.batch == 1).nonzero().flatten()[:2].tolist()  # graph 1 has five nodes and no edge
    for virtual in (False, True):
        encoder = encoder_of(virtual_node=virtual)
        before = encoder(batch)[other]
        moved = batch_of(mixed_graphs())
        moved.x[first] += 1.0
        assert torch.allclose(encoder(moved)[other], before) is not virtual


def test_nodes_without_features_get_the_constant_one() -> None:
    bare, ones = (mixed_graphs(features=n) for n in (0, 1))
    for graph in ones:
        graph.x = torch.ones_like(graph.x)
    without, plain = encoder_of(0), encoder_of(1)
    without.load_state_dict(plain.state_dict())
    torch.testing.assert_close(without(batch_of(bare)), plain(batch_of(ones)))


@pytest.mark.parametrize("used", [True, False])
def test_edge_features_are_used_where_asked(used: bool) -> None:
    encoder = encoder_of(edge_inputs=2, edge_features=used)
    batch = batch_of(mixed_graphs(edge_features=2))
    before = encoder(batch)
    batch.edge_attr += 1.0
    assert torch.allclose(encoder(batch), before) is not used


def test_dropout_is_for_training_only() -> None:
    encoder, batch = encoder_of(dropout=0.5), batch_of(mixed_graphs())
    assert torch.equal(encoder(batch), encoder(batch))
    encoder.train()
    assert not torch.equal(encoder(batch), encoder(batch))
    assert float((encoder(batch) == 0).float().mean()) == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("conv", ["gcn-ogb", "gin"])
def test_one_node_can_be_trained_on(conv: str) -> None:
    """A single row has no variance: batch norm falls back on its running statistics."""
    encoder = encoder_of(conv=conv).train()
    out = encoder(batch_of(mixed_graphs()[4:5]))
    out.square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


def test_spec_is_read_off_the_training_part(toy: Splits) -> None:
    counts: dict[int, int] = {}
    for graph in toy.train.to_pyg():
        for node in range(graph.num_nodes):
            degree = int((graph.edge_index[1] == node).sum())
            counts[degree] = counts.get(degree, 0) + 1
    expected = tuple(counts.get(d, 0) for d in range(max(counts) + 1))
    largest = max(graph.edge_index.size(1) // 2 for graph in toy.train.to_pyg())
    assert Spec.of(toy) == Spec(
        features=4, edge_features=0, classes=3, environments=1, degrees=expected, edges=largest
    )
