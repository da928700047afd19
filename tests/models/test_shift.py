"""The shift flag: quiet on what is like training, loud on what is not, and for the right reason."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import Batch, GraphStore
from ciga.models import shift
from ciga.models.shift import MEASURES, SHRINKAGE, Gauge
from tests.helpers import permuted, random_graph
from tests.small_models import toy_model, toy_splits


def graphs(count: int, seed: int, nodes: int = 10, move: float = 0.0, far: float = 0.0) -> GraphStore:
    """Random graphs; `move` shifts a feature of every node, `far` one by which `embed` goes."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(count):
        size = int(nodes + rng.integers(-3, 4))
        graph = random_graph(size, 2 * size, seed * 10_000 + i, y=i % 2)
        graph.x[:, 0] += move
        graph.x[:, 3] += far
        out.append(graph)
    return GraphStore.from_pyg(out)


def embed(batch: Batch) -> list[torch.Tensor]:
    """A representation that depends on the last two features only."""
    total = torch.zeros(batch.num_graphs, 2).index_add_(0, batch.batch, batch.x[:, 2:].float())
    return [total / 10]


@pytest.fixture(scope="module")
def splits() -> Splits:
    return Splits({"train": graphs(300, 1), "id_val": graphs(300, 2)}, Task(2))


@pytest.fixture(scope="module")
def gauge(splits: Splits) -> Gauge:
    return Gauge.calibrate(embed, splits, level=0.06)


def flagged(gauge: Gauge, store: GraphStore) -> tuple[float, list[str]]:
    batch = store.batch(slice(None))
    shift = gauge.measure(batch, embed(batch))
    return float(shift.flag.double().mean()), shift.reasons()


def test_like_training_is_rarely_flagged(gauge: Gauge, splits: Splits) -> None:
    assert gauge.calibrated_on == "id_val"
    assert flagged(gauge, splits["id_val"])[0] <= 0.06
    assert flagged(gauge, graphs(400, 3))[0] < 0.12


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (graphs(30, 4, nodes=60), "size"),
        (graphs(30, 5, move=3.0), "features"),
        (graphs(30, 6, far=40.0), "embedding"),
    ],
)
def test_a_shift_is_flagged_for_its_reason(gauge: Gauge, store: GraphStore, reason: str) -> None:
    share, reasons = flagged(gauge, store)
    assert share > 0.95
    assert sum(reason in r for r in reasons) >= 28


@pytest.mark.parametrize("value", [1e18, 1e19, 1e25, 3e38, torch.inf, torch.nan])
def test_what_cannot_be_measured_is_flagged(gauge: Gauge, value: float) -> None:
    batch = graphs(12, 7).batch(slice(None))
    batch.x[:, 3] = value
    shift = gauge.measure(batch, embed(batch))
    assert bool(shift.flag.all())
    assert not bool(shift.score.isnan().any())
    assert all(shift.reasons())


def test_calibration_graphs_that_cannot_be_measured_do_not_silence_the_gauge(splits: Splits) -> None:
    spoiled = graphs(60, 8)
    spoiled.x[:, 3] = 3e38
    found = Gauge.calibrate(embed, Splits({"train": splits.train, "id_val": spoiled}, Task(2)))
    assert bool(torch.isfinite(found.tensors["threshold"]).all())
    batch = spoiled.batch(slice(None))
    assert bool(found.measure(batch, embed(batch)).flag.all())


def test_a_column_that_was_constant_speaks_up() -> None:
    def flat(store: GraphStore, value: float) -> GraphStore:
        store.x[:, 1] = value
        return store

    data = Splits({"train": flat(graphs(100, 1), 0.0), "id_val": flat(graphs(100, 2), 0.0)}, Task(2))
    gauge = Gauge.calibrate(embed, data)
    assert flagged(gauge, flat(graphs(20, 3), 1.0))[0] == 1.0


def test_training_graphs_are_known_again_in_any_node_order(gauge: Gauge, splits: Splits) -> None:
    turned = [permuted(graph, i)[0] for i, graph in enumerate(splits.train.to_pyg()[:20])]
    found = gauge.seen(GraphStore.concat([GraphStore.from_pyg(turned), graphs(15, 9)]))
    assert found is not None
    assert found.tolist() == [True] * 20 + [False] * 15


def test_large_training_sets_are_not_remembered(splits: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift, "REMEMBERED", 299)
    assert Gauge.calibrate(embed, splits).seen(splits.train) is None


@pytest.mark.parametrize("count", [10, 40, 160])
def test_few_calibration_graphs_flag_more_by_chance_and_the_gauge_says_so(count: int) -> None:
    """Ten thresholds, each from graphs of its own, asked about others of the same kind."""
    data, shares = graphs(300, 30), []
    for seed in range(10):
        found = Gauge.calibrate(embed, Splits({"train": data, "id_val": graphs(count, 40 + seed)}, Task(2)))
        shares.append(flagged(found, graphs(150, 60 + seed))[0])
    assert sum(shares) / len(shares) < found.chance + 0.03
    assert found.chance == pytest.approx(len(MEASURES) / (count + 1) if count <= 80 else 0.05, abs=0.02)


def test_the_neighbours_in_a_batch_do_not_matter(gauge: Gauge) -> None:
    store = graphs(12, 7)
    whole = store.batch(slice(None))
    together = gauge.measure(whole, embed(whole)).ratio
    for i in range(12):
        one = store.batch([i])
        torch.testing.assert_close(gauge.measure(one, embed(one)).ratio[0], together[i], rtol=1e-4, atol=1e-5)


def test_the_embedding_measure_is_mahalanobis_distance(gauge: Gauge, splits: Splits) -> None:
    train = splits.train.batch(slice(None))
    h, y = embed(train)[0].double().numpy(), splits.train.y.numpy()
    means = [h[y == c].mean(0) for c in (0, 1)]
    gaps = h - np.stack(means)[y]
    covariance = gaps.T @ gaps / len(h)
    covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.trace(covariance) / 2 * np.eye(2)
    other = graphs(9, 8).batch(slice(None))
    found = gauge.measure(other, embed(other)).ratio[:, 2] * gauge.tensors["threshold"][2]
    for row, e in zip(found.tolist(), embed(other)[0].double().numpy(), strict=True):
        distances = [np.sqrt((e - m) @ np.linalg.inv(covariance) @ (e - m)) for m in means]
        assert row == pytest.approx(min(distances), rel=1e-3)


def test_without_id_val_it_calibrates_on_what_there_is(splits: Splits) -> None:
    for parts, where in ((("train", "ood_val"), "ood_val"), (("train",), "train")):
        data = Splits({p: splits["id_val" if p != "train" else p] for p in parts}, Task(2))
        assert Gauge.calibrate(embed, data).calibrated_on == where


def test_larger_test_graphs_of_a_real_model_are_flagged_by_size() -> None:
    model = toy_model()
    assert model.gauge is not None
    batch = toy_splits()["ood_test"].batch(slice(None))
    ratio = model.gauge.measure(batch, model.embed(batch)).ratio
    assert float((ratio[:, MEASURES.index("size")] > 1).double().mean()) > 0.5
