"""The graphon model: the class is in the edges, equally dense; size and attributes shift."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ciga.data import load
from ciga.data.dataset import make
from ciga.data.datasets import graphon as module
from ciga.data.datasets.graphon import GRAPHONS, sample_edges
from ciga.errors import UsageError

SMALL = {"train_per_class": 300, "val_per_class": 100, "test_per_class": 60}


@pytest.fixture(scope="module")
def splits():
    return load("graphon", **SMALL)


@pytest.mark.parametrize("name", sorted(GRAPHONS))
def test_a_graphon_is_symmetric_has_mean_one_and_gives_probabilities(name):
    grid = (np.arange(800) + 0.5) / 800
    u, v = np.meshgrid(grid, grid)
    value = GRAPHONS[name](u, v)
    assert value.mean() == pytest.approx(1, abs=0.01)
    assert value.min() >= 0
    assert value.max() * 0.25 <= 1
    np.testing.assert_allclose(value, GRAPHONS[name](v, u))


def test_edges_come_with_the_probability_of_the_graphon():
    """A flat graphon of density 0.3 beside an empty one: the right share of edges, every pair as likely."""
    rng = np.random.default_rng(0)
    nodes, which = np.full(200, 30), np.arange(200) % 2
    edges, count = sample_edges([lambda u, v: np.ones_like(u), lambda u, v: 0.0 * u], which, nodes, 0.3, rng)
    assert count[which == 1].sum() == 0
    pairs = 100 * 30 * 29 / 2
    assert abs(count.sum() / 2 - 0.3 * pairs) < 5 * np.sqrt(pairs * 0.3 * 0.7)
    u, v = edges[:, ::2]
    assert (u < v).all()
    table = np.zeros((30, 30))
    np.add.at(table, (u, v), 1)
    each = table[np.triu_indices(30, 1)]
    assert each.min() > 30 - 5 * np.sqrt(21)
    assert each.max() < 30 + 5 * np.sqrt(21)


def test_one_place_a_node_not_a_pair():
    """Nodes of a two-block graphon keep their block: the graph falls into two cliques."""
    rng = np.random.default_rng(1)
    blocks = [lambda u, v: np.where((u < 0.5) == (v < 0.5), 1.0, 0.0)]
    nodes = np.array([1, 7, 2, 12, 9])
    edges, count = sample_edges(blocks, np.zeros(5, dtype=np.int64), nodes, 1.0, rng)
    start = np.concatenate([[0], np.cumsum(count)])
    for g, n in enumerate(nodes):
        dense = np.eye(n, dtype=bool)
        dense[tuple(edges[:, start[g] : start[g + 1]])] = True
        assert (dense == dense.T).all()
        assert (dense == (dense.astype(int) @ dense > 0)).all()  # transitive: a union of cliques
        assert np.unique(dense, axis=0).shape[0] <= 2


def test_many_chunks_hold_whole_graphs(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 50)
    nodes = np.array([0, 1, 2, 30, 3, 3, 20, 1])
    edges, count = sample_edges(
        [lambda u, v: np.ones_like(u)], np.zeros(8, dtype=np.int64), nodes, 1.0, np.random.default_rng(0)
    )
    assert count.tolist() == (nodes * (nodes - 1)).tolist()
    assert (edges.max(0) < np.repeat(nodes, count)).all()


def test_density_says_nothing_about_the_class(splits):
    store = splits["ood_test"]
    for c in range(3):
        nodes = store.num_nodes[store.y == c].double()
        assert float(store.num_edges[store.y == c].sum() / (nodes * (nodes - 1)).sum()) == pytest.approx(
            0.2, rel=0.05
        )


def test_the_pattern_of_edges_does_say_the_class(splits):
    """Triangles and degree variance tell the three default graphons apart, at both sizes."""
    for split in ("train", "ood_test"):
        store = splits[split]
        triangles, spread = [], []
        for row in range(150):
            at = slice(int(store.edge_ptr[row]), int(store.edge_ptr[row + 1]))
            n = int(store.num_nodes[row])
            dense = torch.zeros(n, n)
            dense[tuple(store.edge_index[:, at].long())] = 1
            triangles.append(float((dense @ dense @ dense).trace()) / n**3)
            spread.append(float((dense.sum(0) / n).var()))
        y = store.y[:150].numpy()
        three = [np.mean(np.array(triangles)[y == c]) for c in range(3)]
        wide = [np.mean(np.array(spread)[y == c]) for c in range(3)]
        assert three[1] < 0.5 * three[0]  # bipartite graphs have few triangles
        assert wide[2] > 1.5 * max(wide[:2])  # hubs


def test_attributes_follow_the_graphon_with_the_bias_of_the_environment():
    splits = load(
        "graphon", bias=0.8, bias_spread=0.1, train_per_class=2000, val_per_class=500, test_per_class=50
    )
    train, val = splits.train, splits["ood_val"]
    for e, strength in enumerate((0.7, 0.9)):
        agrees = (train.columns["attribute"] == train.y)[train.env == e].double()
        assert abs(float(agrees.mean()) - strength) < 5 * np.sqrt(strength * (1 - strength) / len(agrees))
    chance = (val.columns["attribute"] == val.y).double()
    assert abs(float(chance.mean()) - 1 / 3) < 5 * np.sqrt(2 / 9 / len(chance))
    # features are the attribute's, blurred
    of_node = train.columns["attribute"].repeat_interleave(train.num_nodes)
    for value in range(3):
        mean = train.x[of_node == value].mean(0)
        assert torch.allclose(mean, torch.eye(3)[value], atol=0.02)


def test_sizes_belong_to_environments(splits):
    train = splits.train
    assert [int(train.num_nodes[train.env == e].min()) for e in (0, 1)] == [15, 25]
    assert [int(train.num_nodes[train.env == e].max()) for e in (0, 1)] == [24, 34]
    assert (int(splits["ood_val"].num_nodes.min()), int(splits["ood_val"].num_nodes.max())) == (15, 34)
    assert int(splits["ood_test"].num_nodes.min()) >= 60
    assert splits["ood_test"].env is None
    same = load("graphon", size_shift=False, environments=1, **SMALL)
    assert int(same["ood_test"].num_nodes.max()) <= 34
    assert same.train.env is None


def test_size_can_follow_the_graphon():
    train = load("graphon", size="fiif", bias=0.9, environments=1, **SMALL).train
    mean = [float(train.num_nodes[train.y == c].float().mean()) for c in range(3)]
    assert mean[0] + 3 < mean[1] < mean[2] - 3


def test_same_seed_same_bytes(splits):
    assert load("graphon", **SMALL).fingerprint() == splits.fingerprint()
    assert load("graphon", seed=1, **SMALL).fingerprint() != splits.fingerprint()
    assert splits.task.class_names == ("communities", "bipartite", "hubs")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"bias": 2}, "bias=2"),
        ({"graphons": "hubs,flatt"}, "Did you mean flat"),
        ({"graphons": "hubs"}, "at least two"),
        ({"density": 0.6}, "density"),
        ({"train_nodes": "20"}, "smallest and the largest"),
        ({"test_nodes": "90,60"}, "smallest and the largest"),
        ({"train_nodes": "20,20"}, "widen train_nodes"),
        ({"bias": 0.99}, "smaller spread"),
    ],
)
def test_bad_arguments(values, words):
    with pytest.raises(UsageError, match=words):
        make("graphon", values)
