"""The information barrier: with `classifier_input=raw`, G_c's logits do not depend on the rest of the graph.

Each test holds the partition, changes everything outside G_c, and compares bit by bit. Methods join by being
registered; one that extracts without a barrier has to say so.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from ciga.data import Batch
from ciga.methods.base import make, methods
from ciga.methods.extraction import ExtractingMethod
from ciga.nn import Backbone, InvariantNetwork, Parts, Spec
from ciga.nn.encoder import CONVS
from ciga.nn.extractor import Partition
from ciga.nn.readout import READOUTS
from tests.helpers import batch_of, gradient_size, random_graph

SPEC = Spec(features=4, edge_features=2, classes=3, environments=2, degrees=(1, 3, 4, 2), edges=14)
EXTRACTING = [name for name in methods if methods[name].extracts]
WITH_BARRIER = [name for name in EXTRACTING if methods[name].barrier]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"walks": 6},
    {"walks": 6, "node_features": False},
    {"virtual_node": True, "walks": 4},
    {"undirected": True, "walks": 4},
    {"edge_features": False},
    {"jk": "cat", "walks": 4},
    {"gate_price": 1.0, "walks": 4},
]
#: (nodes, undirected edges) of each graph, and how many of its first edges are kept.
SIZES = [(7, 9), (9, 14), (6, 8), (5, 4)]
KEPT = [3, 5, 2, 4]


def graphs_with(rest: int) -> tuple[list[Data], list[Tensor]]:
    """Graphs whose G_c is always the same, and whose rest is another for every number; and what is kept.

    G_c's nodes come first, its edges first as well. The rest differs in edges, features and size.
    """
    graphs, kept = [], []
    for seed, ((nodes, pairs), count) in enumerate(zip(SIZES, KEPT, strict=True)):
        whole = random_graph(nodes, pairs, seed, edge_features=2)
        once = whole.edge_index[:, whole.edge_index[0] < whole.edge_index[1]]
        own = once[:, :count]
        inside = own.unique()
        place = torch.full((nodes,), -1).index_copy(0, inside, torch.arange(inside.numel()))
        own, rng = place[own], torch.Generator().manual_seed(100 * rest + seed)
        more = 2 + rest * (seed + 1)  # nodes outside G_c
        total = inside.numel() + more
        ends = {(int(u), int(v)) for u, v in own.T}
        others: set[tuple[int, int]] = set()
        while len(others) < more + 2 * rest:
            u, v = sorted(torch.randint(total, (2,), generator=rng).tolist())
            if u != v and (u, v) not in ends:
                others.add((u, v))
        added = torch.tensor(sorted(others)).T
        edges = torch.cat([own, added], 1)
        fixed = torch.Generator().manual_seed(seed)
        x = torch.cat(
            [torch.randn(inside.numel(), 4, generator=fixed), 3 * torch.randn(more, 4, generator=rng)]
        )
        attr = torch.cat(
            [torch.randn(count, 2, generator=fixed), torch.randn(added.size(1), 2, generator=rng)]
        )
        graphs.append(
            Data(
                x=x, edge_index=torch.cat([edges, edges.flip(0)], 1), edge_attr=torch.cat([attr, attr]),
                y=torch.tensor([seed % 3]),
            )
        )  # fmt: skip
        kept.append(torch.arange(edges.size(1)) < count)
    return graphs, kept


@cache
def chosen_by_hand(rest: int, once: bool, scores: int) -> tuple[Batch, Partition]:
    """The graphs, and G_c with scores that are the same for every rest; `scores` gives others.

    They bring the walks of the whole graphs along, as in training: those must not reach the part.
    """
    graphs, kept = graphs_with(rest)
    if once:
        for graph in graphs:
            half = graph.edge_index.size(1) // 2
            graph.edge_index, graph.edge_attr = graph.edge_index[:, :half], graph.edge_attr[:half]
    batch = batch_of(graphs)
    batch.walks = batch.return_probabilities(6)
    chosen = torch.zeros(batch.num_pairs, dtype=torch.bool)
    score = torch.randn(batch.num_pairs, generator=torch.Generator().manual_seed(rest))
    for graph, mask in enumerate(kept):
        mine = (batch.edge_batch == graph).nonzero().flatten()
        pairs = batch.pair[mine[: mask.numel()]]  # in the order in which the edges were written
        chosen[pairs] = mask
        fixed = torch.Generator().manual_seed(graph + 50 * scores)
        score[pairs[mask]] = torch.randn(int(mask.sum()), generator=fixed)
    return batch, Partition(score, chosen)


def parts_of(network: InvariantNetwork, rest: int, once: bool, scores: int = 0) -> Parts:
    """What a network makes of them, with the part that was chosen by hand."""
    batch, partition = chosen_by_hand(rest, once, scores)
    parts = network.split(batch)
    return Parts(parts.batch, parts.hidden, partition)


def network_of(name: str, shape: dict[str, Any], **values: Any) -> InvariantNetwork:
    torch.manual_seed(0)
    method = make(name, {"classifier_input": "raw", **values})
    network = method.network(SPEC, Backbone(layers=2, width=8, **shape))
    assert isinstance(network, InvariantNetwork)
    with torch.no_grad():  # so that no running statistic is 0 or 1
        network.predict(parts_of(network, 1, False))
    return network.eval()


def logits(network: InvariantNetwork, rest: int, once: bool = False, **options: Any) -> Tensor:
    with torch.no_grad():
        return network.predict(parts_of(network, rest, once, **options)).logits


@pytest.mark.parametrize("name", EXTRACTING)
def test_an_extracting_method_says_whether_it_has_a_barrier(name: str) -> None:
    cls = methods[name]
    if issubclass(cls, ExtractingMethod):
        assert cls.barrier
    else:
        assert "barrier" in vars(cls), f"{name}: do its logits depend on the subgraph alone?"


@pytest.mark.parametrize("shape", OPTIONS, ids=str)
@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize("name", WITH_BARRIER)
def test_the_rest_of_the_graph_does_not_move_a_bit(name: str, conv: str, shape: dict[str, Any]) -> None:
    network = network_of(name, {"conv": conv, **shape})
    for once in (False, True):
        before = logits(network, 0, once)
        for rest in (1, 3):
            assert torch.equal(logits(network, rest, once), before)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("name", WITH_BARRIER)
def test_nor_with_any_readout_and_in_training(name: str, readout: str) -> None:
    network = network_of(name, {"readout": readout, "walks": 4})
    assert torch.equal(logits(network, 3), logits(network, 0))
    network.train()
    assert torch.equal(logits(network, 3), logits(network, 0))


@pytest.mark.parametrize("train", [False, True])
def test_nor_where_both_parts_are_read_in_one_pass(train: bool) -> None:
    """More rows may be added up in another order, so here the last bits are allowed to differ."""
    network = network_of("ciga-v2", {"conv": "sage", "walks": 4}).train(train)
    one, two = (network.predict_both(parts_of(network, rest, False)) for rest in (0, 3))
    torch.testing.assert_close(one.logits, two.logits, rtol=1e-5, atol=1e-6)
    assert one.spurious_logits is not None
    assert two.spurious_logits is not None
    assert not torch.allclose(one.spurious_logits, two.spurious_logits, atol=1e-3)


def test_one_graphs_rest_does_not_reach_another_graph() -> None:
    network = network_of("ciga-v1", {"conv": "sage", "walks": 6})
    parts, other = parts_of(network, 0, False), parts_of(network, 0, False)
    outside = torch.ones(other.batch.num_nodes, dtype=torch.bool)
    outside[other.kept_nodes] = False
    other.batch.x = torch.where(outside.unsqueeze(1), other.batch.x + 7.0, other.batch.x)
    assert outside.any()
    assert torch.equal(network.predict(other).logits, network.predict(parts).logits)


def test_the_test_sees_a_leak() -> None:
    """The embeddings of the featurizer carry the rest: with `feat` there is no barrier."""
    network = network_of("ciga-v1", {}, classifier_input="feat")
    assert not torch.allclose(logits(network, 3), logits(network, 0), atol=1e-3)


@pytest.mark.parametrize("name", WITH_BARRIER)
def test_soft_strengths_tell_of_the_scores_and_straight_ones_do_not(name: str) -> None:
    shape = {"conv": "sage", "walks": 6}
    soft, straight = (network_of(name, shape, strength=s) for s in ("soft", "straight"))
    assert not torch.equal(logits(soft, 0, scores=1), logits(soft, 0))
    assert torch.equal(logits(straight, 0, scores=1), logits(straight, 0))
    assert torch.equal(logits(straight, 3, scores=1), logits(straight, 0))


@pytest.mark.parametrize("conv", CONVS)
def test_the_gradient_reaches_the_scorer_through_straight_strengths(conv: str) -> None:
    network = network_of("ciga-v2", {"conv": conv}, strength="straight", size=0.4)
    batch: Batch = batch_of(graphs_with(1)[0])
    prediction = network.predict_both(network.split(batch))
    assert gradient_size(prediction.logits.square().sum(), network.extractor) > 0
    assert prediction.spurious_logits is not None
    assert gradient_size(prediction.spurious_logits.square().sum(), network.extractor) > 0
    _, weight = network._both(network.split(batch))
    assert torch.equal(weight, torch.ones_like(weight))


def test_a_graph_that_keeps_none_of_its_edges_is_not_read_at_all() -> None:
    network = network_of("ciga-v1", {"walks": 4}, budget="threshold", size=0.999)
    for rest in (0, 3):
        parts = network.split(batch_of(graphs_with(rest)[0]))
        assert not parts.partition.kept.any()
        found = network.predict(parts).logits
        assert torch.equal(found, network.head(torch.zeros(len(SIZES), network.classifier.dim)))
