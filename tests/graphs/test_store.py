"""Every operation of the store against the obvious loop over graphs, by property."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from ciga.errors import CigaError
from ciga.graphs.store import GraphStore
from tests.graphs.plain_graphs import (
    assert_batch,
    assert_store,
    by_property,
    example,
    packed,
    packed_again,
    plain_graphs,
)

FIELDS = (
    "x",
    "edge_index",
    "edge_attr",
    "batch",
    "edge_batch",
    "pair",
    "pair_batch",
    "y",
    "env",
    "edge_truth",
    "index",
)

some_rows = st.lists(st.integers(0, 10**6), max_size=8)


@by_property
@given(plain_graphs(), some_rows)
def test_batch(graphs, numbers):
    store = packed(graphs)
    rows = [n % len(graphs) for n in numbers]  # in any order, with repetitions, possibly none
    for form in (rows, tuple(rows), torch.tensor(rows), np.array(rows, dtype=np.int32)):
        assert_batch(store.batch(form), graphs, rows)
    everything = list(range(len(graphs)))
    assert_batch(store.batch(slice(1, None, 2)), graphs, everything[1::2])
    mask = torch.tensor([i in rows for i in everything], dtype=torch.bool)
    assert_batch(store.batch(mask), graphs, sorted(set(rows)))
    assert_batch(store.batch([r - len(graphs) for r in rows]), graphs, rows)


@by_property
@given(plain_graphs(), some_rows, st.integers(1, 4), st.integers(1, 3))
def test_batches_are_views_of_the_same_thing(graphs, numbers, batch_size, chunk):
    store = packed(graphs)
    rows = [n % len(graphs) for n in numbers]
    for order, expected in ((None, list(range(len(graphs)))), (torch.tensor(rows, dtype=torch.long), rows)):
        got = list(store.batches(batch_size, order, chunk))
        wanted = [expected[i : i + batch_size] for i in range(0, len(expected), batch_size)]
        assert [b.index.tolist() for b in got] == wanted
        for batch, some in zip(got, wanted, strict=True):
            assert_batch(batch, graphs, some)
            direct = store.batch(some)
            for name in FIELDS:
                one, two = getattr(batch, name), getattr(direct, name)
                assert (one is None) == (two is None)
                assert one is None or torch.equal(one, two), name


@by_property
@given(plain_graphs(), some_rows)
def test_subset(graphs, numbers):
    store = packed(graphs)
    rows = [n % len(graphs) for n in numbers]
    part = store.subset(rows)
    if rows:
        assert_store(part, [graphs[r] for r in rows])
        assert part.fingerprint() == packed([graphs[r] for r in rows]).fingerprint()
    else:
        assert len(part) == 0
        assert part.x.shape == (0, store.num_features)
    assert store.subset(slice(None)).fingerprint() == store.fingerprint()
    with pytest.raises(CigaError, match=f"no graph {len(graphs)}"):
        store.subset([len(graphs)])


@by_property
@given(st.data())
def test_concat(data):
    width, attr = data.draw(st.integers(0, 2)), data.draw(st.sampled_from([None, 1]))
    env, truth = data.draw(st.booleans()), data.draw(st.booleans())
    several = [data.draw(plain_graphs(width=width, attr=attr, env=env, truth=truth)) for _ in range(3)]
    joined = GraphStore.concat([packed(graphs) for graphs in several])
    flat = [g for graphs in several for g in graphs]
    assert_store(joined, flat)
    assert joined.fingerprint() == packed(flat).fingerprint()


def test_concat_keeps_what_all_have():
    graphs = [{"x": np.ones((2, 1), np.float32), "edges": [(0, 1)], "attr": None, "truth": np.array([True]),
               "y": 1, "env": 0, "text": "a", "number": 1.0}]  # fmt: skip
    full = packed(graphs)
    bare = GraphStore(full.x, full.edge_index, full.node_ptr, full.edge_ptr, full.y)
    bare.columns["name.of"] = torch.tensor([7])
    joined = GraphStore.concat([full, bare])
    assert joined.env is None
    assert joined.edge_truth is None
    assert joined.columns == {"name.of": ["a", "7"]}
    with pytest.raises(CigaError, match="empty"):
        GraphStore.concat([])
    wide = GraphStore(torch.ones(2, 3), full.edge_index, full.node_ptr, full.edge_ptr, full.y)
    with pytest.raises(CigaError, match="features"):
        GraphStore.concat([full, wide])


@by_property
@given(plain_graphs())
def test_to_and_from_pyg(graphs):
    store = packed(graphs)
    objects = store.to_pyg()
    for graph, made in zip(graphs, objects, strict=True):
        assert made.num_nodes == len(graph["x"])
        np.testing.assert_array_equal(made.x.numpy(), graph["x"])
        assert list(zip(*made.edge_index.tolist(), strict=True)) == graph["edges"]
        assert int(made.y) == graph["y"]
        assert ("env" in made) == (graph["env"] is not None)
        assert ("edge_truth" in made) == (graph["truth"] is not None)
        made.validate()
    again = GraphStore.from_pyg(objects)
    assert_store(again, graphs, columns=False)
    relabelled = GraphStore.from_pyg(objects, y=[g["y"] + 1 for g in graphs])
    assert relabelled.y.tolist() == [g["y"] + 1 for g in graphs]


def test_pyg_copies_do_not_reach_back():
    store = packed([{"x": np.ones((2, 1), np.float32), "edges": [(0, 1)], "attr": None, "truth": None,
                     "y": 1, "env": None, "text": "", "number": 0.0}])  # fmt: skip
    before = store.fingerprint()
    made = store.to_pyg()[0]
    made.x.zero_()
    made.edge_index.zero_()
    made.y.zero_()
    assert packed_again(store) == before


def test_pyg_graphs_without_features_edges_or_labels():
    lonely = Data(num_nodes=3)
    pair = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    store = GraphStore.from_pyg([lonely, pair])
    assert (store.num_features, store.num_nodes.tolist(), store.num_edges.tolist()) == (0, [3, 2], [0, 1])
    assert store.y.tolist() == [-1, -1]
    flat = GraphStore.from_pyg(
        [Data(x=torch.tensor([1.0, 2.0]), edge_index=torch.zeros(2, 0, dtype=torch.long), y=1)]
    )
    assert flat.x.shape == (2, 1)


# ---------------------------------------------------------------- fingerprint, environments, summary


def test_fingerprint_sees_every_part():
    store = example()
    prints = {store.fingerprint()}
    for name, tensor in store.tensors().items():
        if name in ("node_ptr", "edge_ptr", "pair", "pair_ptr", "text.name.of", "ends.name.of"):
            continue
        other = example()
        changed = tensor.contiguous().clone()
        changed.view(-1)[0] = (
            (1 - changed.view(-1)[0]) if changed.dtype != torch.bool else ~changed.view(-1)[0]
        )
        if name.startswith("column."):
            other.columns[name.removeprefix("column.")] = changed
        else:
            setattr(other, name, changed)
        prints.add(other.fingerprint())
    other = example()
    other.columns["name.of"] = ["", *other.columns["name.of"][1:]]
    prints.add(other.fingerprint())
    assert len(prints) == 9
    moved = example()
    moved.columns["name.of"] = ["ab", "c", "", "", ""]
    shifted = example()
    shifted.columns["name.of"] = ["a", "bc", "", "", ""]
    assert moved.fingerprint() != shifted.fingerprint()
    assert example().fingerprint() == store.fingerprint()


def test_with_env_changes_the_environments_alone():
    store = example()
    before = store.fingerprint()
    other = store.with_env(torch.tensor([5, 6, 7, 8, 9]))
    assert other.env.tolist() == [5, 6, 7, 8, 9]
    assert other.batch([4, 0]).env.tolist() == [9, 5]
    assert other.x is store.x
    assert other.fingerprint() != before
    assert other.with_env(store.env).fingerprint() == before
    assert store.fingerprint() == before
    assert store.env.tolist() == [1, 2, 0, 1, 2]
    assert store.with_env(None).env is None
    with pytest.raises(CigaError, match="env"):
        store.with_env(torch.tensor([1, 2]))


def test_stats_and_repr():
    store = example()
    assert store.stats() == {
        "graphs": 5, "nodes_mean": 3.0, "edges_mean": 3.0, "class_counts": {"0": 2, "1": 3},
    }  # fmt: skip
    assert repr(store) == "GraphStore(5 graphs, 15 nodes x 2, 15 edges x 1)"
    assert store.edge_features == 1


def test_a_batch_moves_whole():
    batch = example().batch([1, 2]).to("meta")
    for name in FIELDS:
        assert getattr(batch, name).device.type == "meta"
    assert batch.num_graphs == 2


# ---------------------------------------------------------------- bad graphs


def data(**parts: Any) -> Data:
    return Data(**{"x": torch.ones(2, 1), "edge_index": torch.tensor([[0], [1]]), "y": 0, **parts})


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        ([], "list is empty"),
        ([data(), data(edge_index=torch.tensor([[0], [2]]))], "Graph 1 has an edge 0-2 but only 2 nodes"),
        ([data(edge_index=torch.tensor([[-1], [0]]))], "Graph 0 has an edge -1-0"),
        ([data(), data(x=torch.tensor([[1.0], [float("nan")]]))], "Graph 1 has NaN"),
        ([data(x=torch.tensor([[1.0], [float("inf")]]))], "Graph 0 has NaN, infinite"),
        ([data(edge_attr=torch.tensor([[float("nan")]]))], "Graph 0 has NaN, .* in edge_attr"),
        ([data(), data(x=torch.ones(2, 3))], "Graph 1 has 3 columns of x, the first has 1"),
        ([data(), data(x=None, num_nodes=2)], "Graph 1 has no x but others do"),
        ([data(edge_attr=torch.ones(4, 1))], "Graph 0 has 4 rows of edge_attr for 1"),
        ([data(edge_attr=torch.ones(1, 1)), data()], "Graph 1 has no edge_attr"),
        ([data(edge_truth=torch.tensor([True])), data()], "Graph 1 has no edge_truth"),
        ([data(), data(y=None)], "Graph 1 needs one whole number as y"),
        ([data(), data(y=0.5)], "Graph 1: y holds 0.5: it takes whole numbers"),
        ([data(y=float("nan"))], "Graph 0: y holds nan: it takes whole numbers"),
        ([data(y=torch.tensor([0, 1]))], "Graph 0 needs one whole number as y"),
        ([data(env=1), data()], "Graph 1 needs one whole number as env"),
        ([data(), data(edge_index=torch.zeros(3, 2, dtype=torch.long))], "Graph 1 .*edge_index"),
        ([data(edge_index=torch.tensor([[0.5], [1.0]]))], "Graph 0 .*edge_index"),
    ],
)  # fmt: skip
def test_bad_graphs_are_named(graphs, words):
    with pytest.raises(CigaError, match=words):
        GraphStore.from_pyg(graphs)


@pytest.mark.parametrize(
    ("y", "words"),
    [([0], "2 graphs .*1 labels"), ([0.5, 1.0], "whole numbers"), ([0, float("nan")], "whole numbers")],
)
def test_bad_labels(y, words):
    with pytest.raises(CigaError, match=words):
        GraphStore.from_pyg([data(), data()], y=y)
    assert GraphStore.from_pyg([data(), data()], y=np.array([1.0, 0.0])).y.tolist() == [1, 0]


def test_parts_of_the_wrong_length_are_refused():
    parts = {"x": torch.ones(2, 1), "edge_index": torch.tensor([[0], [1]])}
    node_ptr, edge_ptr = torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0])
    with pytest.raises(CigaError, match="pointers do not end"):
        GraphStore(**parts, node_ptr=node_ptr, edge_ptr=edge_ptr)
    edge_ptr = torch.tensor([0, 1])
    node_ptr = torch.tensor([0, 2])
    for extra, words in (
        ({"y": torch.tensor([1, 2])}, "2 labels"),
        ({"env": torch.tensor([1, 2])}, "env"),
        ({"edge_truth": torch.tensor([True, False])}, "edge_truth"),
        ({"edge_attr": torch.ones(3, 1)}, "edge_attr"),
        ({"columns": {"size": torch.ones(2)}}, "size"),
        ({"columns": {"size": ["a", "b"]}}, "size"),
    ):
        with pytest.raises(CigaError, match=words):
            GraphStore(**parts, node_ptr=node_ptr, edge_ptr=edge_ptr, **extra)
    with pytest.raises(CigaError, match="pointers"):
        GraphStore(torch.ones(2, 1), torch.zeros(2, 0), torch.tensor([0, 3, 2]), torch.tensor([0, 0, 0]))
    with pytest.raises(CigaError, match="pointers"):
        GraphStore(torch.ones(2, 1), torch.zeros(2, 0), torch.tensor([1, 2]), torch.tensor([0, 0]))
