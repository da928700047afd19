"""One score per undirected edge, and the right number of edges kept under every budget."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from ciga.data import Batch
from ciga.graphs.ranking import rank_within
from ciga.nn import Extractor
from ciga.nn.extractor import BUDGETS, SCORERS
from tests.helpers import batch_of, mixed_graphs, permuted, random_graph

WIDTH = 4
SIZES = {"ratio": 0.3, "count": 4, "capped": 0.3, "threshold": 0.5}

batches = st.lists(st.tuples(st.integers(1, 7), st.integers(0, 21)), min_size=1, max_size=6).map(
    lambda sizes: batch_of([random_graph(n, p, seed) for seed, (n, p) in enumerate(sizes)])
)


def extractor_of(scorer: str = "mlp", budget: str = "ratio", size: float | None = None) -> Extractor:
    torch.manual_seed(0)
    return Extractor(WIDTH, scorer, budget, SIZES[budget] if size is None else size)


def scores(batch: Batch, seed: int) -> Tensor:
    return torch.randn(batch.num_pairs, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=60, deadline=None)
@given(batch=batches, percent=st.integers(1, 100), seed=st.integers(0, 99))
def test_ratio_keeps_the_best_share(batch: Batch, percent: int, seed: int) -> None:
    score = scores(batch, seed)
    kept = extractor_of(budget="ratio", size=percent / 100).keep(score, batch)
    check_best(batch, score, kept, lambda pairs: math.ceil(Fraction(percent, 100) * pairs))


@settings(max_examples=60, deadline=None)
@given(batch=batches, size=st.integers(1, 25), seed=st.integers(0, 99))
def test_count_keeps_so_many(batch: Batch, size: int, seed: int) -> None:
    score = scores(batch, seed)
    kept = extractor_of(budget="count", size=size).keep(score, batch)
    check_best(batch, score, kept, lambda pairs: min(size, pairs))


@settings(max_examples=60, deadline=None)
@given(batch=batches, percent=st.integers(1, 100), most=st.integers(1, 25), seed=st.integers(0, 99))
def test_capped_keeps_no_more_than_of_the_largest_training_graph(
    batch: Batch, percent: int, most: int, seed: int
) -> None:
    score, extractor = scores(batch, seed), Extractor(WIDTH, "mlp", "capped", percent / 100, most=most)
    share = Fraction(percent, 100)
    check_best(batch, score, extractor.keep(score, batch), lambda pairs: math.ceil(share * min(pairs, most)))


@settings(max_examples=60, deadline=None)
@given(batch=batches, size=st.floats(0.01, 1.0), seed=st.integers(0, 99))
def test_threshold_keeps_what_is_likely_enough(batch: Batch, size: float, seed: int) -> None:
    score = scores(batch, seed)
    kept = extractor_of(budget="threshold", size=size).keep(score, batch)
    expected = [1 / (1 + math.exp(-s)) >= size for s in score.tolist()]
    near = (score.sigmoid() - size).abs() < 1e-6  # rounding may decide these
    assert torch.equal(kept[~near], torch.tensor(expected)[~near])


def check_best(batch: Batch, score: Tensor, kept: Tensor, quota: Any) -> None:
    """In each graph the kept edges are as many as allowed, and none left out scores higher."""
    assert kept.shape == (batch.num_pairs,)
    assert kept.dtype == torch.bool
    for graph in range(batch.num_graphs):
        mine = batch.pair_batch == graph
        assert int(kept[mine].sum()) == quota(int(mine.sum()))
        inside, outside = score[mine & kept], score[mine & ~kept]
        if inside.numel() and outside.numel():
            assert inside.min() >= outside.max()


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=30, unique=True),
    cuts=st.integers(1, 4),
)
def test_rank_within_by_a_loop(values: list[float], cuts: int) -> None:
    """Over all floats: negative ones, infinities, denormal ones."""
    score = torch.tensor(values)
    graph = torch.arange(len(values)) * cuts // len(values)
    found = rank_within(score, graph, torch.bincount(graph, minlength=cuts))
    for i, g in enumerate(graph.tolist()):
        assert int(found[i]) == sum(values[j] > values[i] for j in range(len(values)) if graph[j] == g)


@pytest.mark.parametrize("scorer", SCORERS)
def test_both_directions_share_one_score(scorer: str) -> None:
    extractor, batch = extractor_of(scorer), batch_of(mixed_graphs())
    found = extractor(batch.x, batch).score
    assert found.shape == (batch.edge_index.size(1) // 2,)
    expected: dict[frozenset[int], list[float]] = {}
    for u, v in batch.edge_index.T.tolist():
        if extractor.mlp is None:
            logit = batch.x[u] @ batch.x[v]
        else:
            source, target, out = (extractor.mlp[k] for k in ("source", "target", "out"))
            logit = out((source(batch.x[u]) + target(batch.x[v])).relu())
        expected.setdefault(frozenset((u, v)), []).append(logit.item())
    for (u, v), pair in zip(batch.edge_index.T.tolist(), batch.pair.tolist(), strict=True):
        both = expected[frozenset((u, v))]
        assert len(both) == 2
        assert found[pair].item() == pytest.approx(sum(both) / 2, abs=1e-5)


def kept_edges(extractor: Extractor, graph: Data) -> dict[frozenset[int], tuple[float, bool]]:
    """Score and choice of each undirected edge of one graph."""
    batch = batch_of([graph])
    found = extractor(batch.x, batch)
    ends = zip(batch.edge_index.T.tolist(), batch.pair.tolist(), strict=True)
    return {frozenset(e): (float(found.score[p]), bool(found.kept[p])) for e, p in ends}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("seed", range(4))
def test_the_choice_does_not_depend_on_the_order_of_nodes_and_edges(
    scorer: str, budget: str, seed: int
) -> None:
    extractor = extractor_of(scorer, budget)
    graph = random_graph(9, 15, seed, features=WIDTH)
    if budget == "threshold":
        extractor.size = float(extractor(graph.x, batch_of([graph])).score.sigmoid().quantile(0.6))
    other, place, _ = permuted(graph, seed + 10)
    one, two = kept_edges(extractor, graph), kept_edges(extractor, other)
    assert 0 < sum(kept for _, kept in one.values()) < len(one)
    for edge, (score, kept) in one.items():
        renamed = two[frozenset(int(place[v]) for v in edge)]
        assert renamed == (pytest.approx(score, abs=1e-5), kept)


def test_scores_have_a_gradient_and_the_choice_has_none() -> None:
    extractor, batch = extractor_of(), batch_of(mixed_graphs())
    found = extractor(batch.x, batch)
    assert found.score.requires_grad
    assert not found.kept.requires_grad
    found.score.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in extractor.parameters())


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_batch_without_any_edge(budget: str) -> None:
    batch = batch_of([random_graph(3, 0, 0), random_graph(1, 0, 1)])
    found = extractor_of(budget=budget)(batch.x, batch)
    assert found.score.shape == found.kept.shape == (0,)


def test_noise_samples_edges_by_their_score_in_training_only() -> None:
    batch = batch_of([random_graph(6, 7, seed=0)])
    h = torch.randn(batch.num_nodes, WIDTH, generator=torch.Generator().manual_seed(3))
    extractor = extractor_of(budget="count", size=1)
    extractor.noise = 0.5
    best = extractor.eval()(h, batch)
    assert torch.equal(best.kept, extractor.keep(best.score, batch))
    extractor.train()
    torch.manual_seed(0)
    often = torch.stack([extractor(h, batch).kept for _ in range(4000)]).float().mean(0)
    # The largest of score + noise * Gumbel is a draw from softmax(score / noise).
    torch.testing.assert_close(often, (best.score / 0.5).softmax(0), atol=0.03, rtol=0)
