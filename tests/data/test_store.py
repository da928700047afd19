"""Every operation of the store against the obvious loop over graphs, by property; and damaged files."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from ciga.data.store import FORMAT, GraphStore
from ciga.errors import CigaError

by_property = settings(max_examples=60, deadline=None)

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


# ---------------------------------------------------------------- graphs, one by one


@st.composite
def plain_graphs(draw: Any, least: int = 1, **fixed: Any) -> list[dict[str, Any]]:
    """A few graphs as plain dictionaries: with no node, one node, no edge, no feature, loops, multi-edges."""
    width = fixed.get("width", draw(st.integers(0, 3)))
    attr = fixed.get("attr", draw(st.sampled_from([None, 1, 2])))
    with_env = fixed.get("env", draw(st.booleans()))
    with_truth = fixed.get("truth", draw(st.booleans()))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    out = []
    for _ in range(draw(st.integers(least, 6))):
        nodes = draw(st.integers(0, 5))
        end = st.integers(0, max(nodes - 1, 0))
        edges = draw(st.lists(st.tuples(end, end), max_size=8 if nodes else 0))
        out.append(
            {
                "x": rng.standard_normal((nodes, width)).astype(np.float32),
                "edges": edges,
                "attr": None if attr is None else rng.standard_normal((len(edges), attr)).astype(np.float32),
                "truth": rng.integers(0, 2, len(edges)).astype(bool) if with_truth else None,
                "y": draw(st.integers(0, 3)),
                "env": draw(st.integers(0, 2)) if with_env else None,
                "text": draw(st.text(max_size=5)),
                "number": float(rng.standard_normal()),
            }
        )
    return out


def packed(graphs: list[dict[str, Any]]) -> GraphStore:
    """The store of these graphs, put together by hand."""

    def rows(key: str, dtype: torch.dtype) -> torch.Tensor | None:
        if graphs[0][key] is None:
            return None
        return torch.from_numpy(np.concatenate([g[key] for g in graphs])).to(dtype)

    edges = [e for g in graphs for e in g["edges"]]
    x = rows("x", torch.float32)
    assert x is not None
    return GraphStore(
        x,
        torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T,
        torch.tensor(np.cumsum([0] + [len(g["x"]) for g in graphs])),
        torch.tensor(np.cumsum([0] + [len(g["edges"]) for g in graphs])),
        torch.tensor([g["y"] for g in graphs]),
        edge_attr=rows("attr", torch.float32),
        edge_truth=rows("truth", torch.bool),
        env=None if graphs[0]["env"] is None else torch.tensor([g["env"] for g in graphs]),
        columns={
            "name.of": [g["text"] for g in graphs],
            "number": torch.tensor([g["number"] for g in graphs], dtype=torch.float64),
        },
    )


def assert_batch(batch: Any, graphs: list[dict[str, Any]], rows: list[int]) -> None:
    """`batch` is the graphs at `rows`, one after the other, by a plain loop."""
    node, edge, pairs, seen = 0, 0, 0, {}
    for place, row in enumerate(rows):
        graph = graphs[row]
        size = len(graph["x"])
        np.testing.assert_array_equal(batch.x[node : node + size].numpy(), graph["x"])
        assert batch.batch[node : node + size].tolist() == [place] * size
        for i, (u, v) in enumerate(graph["edges"]):
            assert batch.edge_index[:, edge].tolist() == [u + node, v + node]
            assert int(batch.edge_batch[edge]) == place
            if graph["attr"] is not None:
                np.testing.assert_array_equal(batch.edge_attr[edge].numpy(), graph["attr"][i])
            if graph["truth"] is not None:
                assert bool(batch.edge_truth[edge]) == graph["truth"][i]
            # u->v, v->u and every repetition share one number, which nothing else has
            pair = int(batch.pair[edge])
            key = (place, min(u, v), max(u, v))
            assert seen.setdefault(pair, key) == key
            assert int(batch.pair_batch[pair]) == place
            edge += 1
        pairs += len({(min(e), max(e)) for e in graph["edges"]})
        assert int(batch.y[place]) == graph["y"]
        if graph["env"] is not None:
            assert int(batch.env[place]) == graph["env"]
        node += size
    assert (batch.num_nodes, batch.num_edges, batch.num_graphs) == (node, edge, len(rows))
    assert batch.num_pairs == pairs == len(seen)
    assert batch.index.tolist() == rows
    if graphs[0]["attr"] is None:
        assert batch.edge_attr is None
    if graphs[0]["truth"] is None:
        assert batch.edge_truth is None
    if graphs[0]["env"] is None:
        assert batch.env is None


def assert_store(store: GraphStore, graphs: list[dict[str, Any]], columns: bool = True) -> None:
    """`store` holds exactly these graphs."""
    assert len(store) == store.num_graphs == len(graphs)
    assert_batch(store.batch(slice(None)), graphs, list(range(len(graphs))))
    if columns:
        assert store.columns["name.of"] == [g["text"] for g in graphs]
        assert store.columns["number"].tolist() == [g["number"] for g in graphs]


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


def packed_again(store: GraphStore) -> str:
    """The fingerprint computed anew, not remembered."""
    return store.with_env(store.env).fingerprint()


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


# ---------------------------------------------------------------- files


@by_property
@given(plain_graphs())
def test_save_and_open(tmp_path_factory, graphs):
    path = tmp_path_factory.mktemp("store") / "graphs.safetensors"
    store = packed(graphs)
    store.save(path)
    opened = GraphStore.open(path)
    assert_store(opened, graphs)
    assert opened.fingerprint() == store.fingerprint()
    for name, tensor in store.tensors().items():
        assert torch.equal(opened.tensors()[name], tensor)
        assert opened.tensors()[name].dtype == tensor.dtype
    opened.save(path)  # over the very file it is mapped from
    assert GraphStore.open(path, verify=True).fingerprint() == store.fingerprint()
    assert_store(opened, graphs)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def example() -> GraphStore:
    rng = np.random.default_rng(0)
    graphs = [
        {"x": rng.standard_normal((n, 2)).astype(np.float32), "edges": [(i, (i + 1) % n) for i in range(n)],
         "attr": rng.standard_normal((n, 1)).astype(np.float32), "truth": rng.integers(0, 2, n).astype(bool),
         "y": n % 2, "env": n % 3, "text": "Größe 𝔊 " + "x" * n, "number": n / 7}
        for n in range(1, 6)
    ]  # fmt: skip
    return packed(graphs)


def test_tensors_that_share_memory_can_be_saved(tmp_path):
    store = example()
    store.columns["same"] = store.y
    store.columns["reversed"] = store.y.flip(0)
    store.save(tmp_path / "a")
    opened = GraphStore.open(tmp_path / "a")
    assert torch.equal(opened.columns["same"], store.y)
    assert opened.fingerprint() == store.fingerprint()


def test_every_altered_byte_is_noticed(tmp_path):
    """Whatever byte changes, opening fails with our error, or (spaces of the header) gives the same store."""
    path = tmp_path / "graphs"
    store = example()
    store.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    header = 8 + struct.unpack("<Q", content[:8])[0]
    places = [*range(header), *rng.choice(np.arange(header, len(content)), 100, replace=False)]
    refused = []
    for place in places:
        altered = bytearray(content)
        altered[place] ^= int(rng.choice([1, 2, 4, 16, 64]))
        path.write_bytes(altered)
        try:
            opened = GraphStore.open(path)
        except CigaError as error:
            refused.append(str(error))
        else:
            assert packed_again(opened) == store.fingerprint(), f"byte {place} changed unnoticed"
    assert len(refused) > 0.9 * len(places)
    assert all(str(path) in message for message in refused)


def test_every_truncated_file_is_noticed(tmp_path):
    path = tmp_path / "graphs"
    example().save(path)
    content = path.read_bytes()
    for length in [*range(0, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(CigaError, match="damaged"):
            GraphStore.open(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(CigaError, match="damaged"):
        GraphStore.open(path)


EMPTY = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}


def head(value: Any) -> bytes:
    text = json.dumps(value).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 64,
        pickle.dumps({"x": [1, 2, 3]}),
        b"PK\x03\x04" + b"\0" * 100,
        head([1, 2]),
        head("text"),
        head({"x": 3}),
        head({"x": {"dtype": "F32"}}),
        head({"x": {"dtype": "F32", "shape": [], "data_offsets": [0]}}),
        head({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}) + b"\0" * 8,
        head({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}) + b"\0" * 4,
        head({"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 4]}}) + b"\0" * 4,
        head({"x": {"dtype": "F32", "shape": ["a"], "data_offsets": ["0", 4]}}) + b"\0" * 4,
        head({"x": {"dtype": "C64", "shape": [1], "data_offsets": [0, 4]}}) + b"\0" * 4,
        head({"__metadata__": 5}),
        head({"__metadata__": {"format": FORMAT}}),
        head({"__metadata__": {"format": FORMAT}, "text.a": EMPTY}),
        head({"__metadata__": {"format": FORMAT}, "text.a": EMPTY, "ends.a": EMPTY}),
        head({"__metadata__": {"format": "something else"}}),
    ],
)  # fmt: skip
def test_files_that_are_no_stores_are_refused(tmp_path, content):
    path = tmp_path / "graphs"
    path.write_bytes(content)
    with pytest.raises(CigaError) as caught:
        GraphStore.open(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CigaError, match="There is no file"):
        GraphStore.open(tmp_path / "nothing")


def test_opening_maps_the_file_and_reads_little(tmp_path):
    path = tmp_path / "large"
    nodes = 1_000_000
    x = torch.zeros(nodes, 16)  # 64 MB
    ptr = torch.tensor([0, nodes])
    GraphStore(x, torch.zeros(2, 0), ptr, torch.tensor([0, 0]), torch.tensor([1])).save(path)
    del x
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("memory is read from /proc/self/status, which this system does not have")

    def resident() -> int:
        return next(int(s.split()[1]) for s in status.read_text().splitlines() if s.startswith("VmRSS"))

    before = resident()
    store = GraphStore.open(path, verify=False)
    assert resident() - before < 16_000  # kB
    assert str(path) in Path("/proc/self/maps").read_text()
    assert store.num_nodes.tolist() == [nodes]
    assert float(store.x[-1].sum()) == 0


def test_a_large_file_is_verified_on_request_only(tmp_path, monkeypatch):
    path = tmp_path / "graphs"
    store = example()
    store.save(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr("ciga.data.store.VERIFY_BELOW", 0)
    GraphStore.open(path)
    with pytest.raises(CigaError, match="checksum"):
        GraphStore.open(path, verify=True)


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
        ([data(x=torch.tensor([[1.0], [float("inf")]]))], "Graph 0 has NaN or infinite"),
        ([data(edge_attr=torch.tensor([[float("nan")]]))], "Graph 0 has NaN or infinite values in edge_attr"),
        ([data(), data(x=torch.ones(2, 3))], "Graph 1 has 3 columns of x, the first has 1"),
        ([data(), data(x=None, num_nodes=2)], "Graph 1 has no x but others do"),
        ([data(edge_attr=torch.ones(4, 1))], "Graph 0 has 4 rows of edge_attr for 1"),
        ([data(edge_attr=torch.ones(1, 1)), data()], "Graph 1 has no edge_attr"),
        ([data(edge_truth=torch.tensor([True])), data()], "Graph 1 has no edge_truth"),
        ([data(), data(y=None)], "Graph 1 needs one whole number as y"),
        ([data(), data(y=0.5)], "Graph 1 needs one whole number as y"),
        ([data(y=float("nan"))], "Graph 0 needs one whole number as y"),
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
