"""Sentiment graphs: the degree split, and features that cannot run code."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ciga.data import load
from ciga.data.dataset import make
from ciga.data.datasets.sentiment import SentimentGraphs, read_features
from ciga.data.reading.array_pickles import read_array_pickle
from ciga.errors import CigaError

#: train, ood_val, ood_test of the files made with another parser (the paper's: 6090/1186/2240, 3238/694/1509)
COUNTS = {"graph-sst5": (6094, 1186, 2240), "graph-twitter": (3242, 694, 1507)}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_counts_labels_and_degrees_of_the_real_files(name: str) -> None:
    dataset = make(name)
    assert isinstance(dataset, SentimentGraphs)
    if dataset.missing_files():
        pytest.skip(f"the files of {name} are not in CIGA_DATA")
    splits = load(name)
    assert tuple(splits[part].num_graphs for part in splits) == COUNTS[name]
    assert list(splits) == ["train", "ood_val", "ood_test"]
    nodes, edges = {"graph-sst5": (19.85, 37.70), "graph-twitter": (21.10, 40.20)}[name]
    assert (float(splits.notes["all.nodes_mean"]), float(splits.notes["all.edges_mean"])) == (nodes, edges)
    raw = Path(os.environ["CIGA_DATA"]) / dataset.original / "raw"
    labels = np.loadtxt(raw / f"{dataset.original}_graph_labels.txt", dtype=int)
    rows = []
    for part in splits:
        index = splits[part].columns["original_index"]
        assert splits[part].y.tolist() == labels[index].tolist()
        rows += index.tolist()
        assert int(splits[part].num_edges.min()) > 2
    assert len(set(rows)) == len(rows)
    degree = {part: (splits[part].num_edges / splits[part].num_nodes).numpy() for part in splits}
    inner, outer = ("ood_test", "train") if name == "graph-twitter" else ("train", "ood_test")
    assert degree[inner].max() < degree["ood_val"].min()
    assert degree["ood_val"].max() < degree[outer].min() + 1e-9
    words = splits.train.columns["sentence"][0].split(" ")
    assert len(words) >= 3
    assert load(name).fingerprint() == splits.fingerprint()


def write(folder: Path, sizes: list[int], features: str = "npz") -> Path:
    """Paths of the given sizes in DIG's layout, as Graph-Twitter."""
    raw = folder / "Graph-Twitter" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    stem = str(raw / "Graph-Twitter_")
    start, edges, graph = 0, [], []
    for number, size in enumerate(sizes, 1):
        for u in range(start, start + size - 1):
            edges += [f"{u} {u + 1}", f"{u + 1} {u}"]
        graph += [str(number)] * size
        start += size
    Path(stem + "edge_index.txt").write_text("\n".join(edges))
    Path(stem + "node_indicator.txt").write_text("\n".join(graph))
    Path(stem + "graph_labels.txt").write_text("\n".join(str(i % 3) for i in range(len(sizes))))
    Path(stem + "split_indices.txt").write_text("\n".join("0" for _ in sizes))
    Path(stem + "sentence_tokens.json").write_text(
        json.dumps({str(i): ["w"] * n for i, n in enumerate(sizes)})
    )
    x = np.arange(start * 2, dtype=np.float32).reshape(start, 2)
    if features == "npz":
        np.savez(
            stem + "node_features_minilm128.npz", q=x.astype(np.int8), scale=np.array([1, 0.5], np.float32)
        )
    else:
        Path(stem + "node_features.pkl").write_bytes(pickle.dumps(x))
    return raw


SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]


def test_a_small_set_is_split_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    write(tmp_path, SIZES)
    splits = load("graph-twitter")
    # 20 trees: the longer half trains, the first two of the band below validate, the shortest four test, but
    # for the one with two edges.
    sizes = {part: splits[part].num_nodes.tolist() for part in splits}
    assert sizes == {"train": list(range(12, 22)), "ood_val": [6, 7], "ood_test": [3, 4, 5]}
    assert splits.train.x[1].tolist() == [
        float(np.int8(np.uint8(2 * 65 + 2))),
        0.5 * np.int8(np.uint8(2 * 65 + 3)),
    ]
    assert "20 of 6940" in splits.notes["partial"]
    assert "MiniLM" in splits.notes["features"]


def test_bert_pickles_are_preferred_when_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    write(tmp_path, SIZES)
    raw = write(tmp_path, SIZES, "pkl")
    splits = load("graph-twitter")
    assert splits.train.x[0].tolist() == [130.0, 131.0]
    assert "BERT" in splits.notes["features"]
    assert "MiniLM" in load("graph-twitter", features="minilm").notes["features"]
    (raw / "Graph-Twitter_node_features.pkl").unlink()
    with pytest.raises(CigaError, match=r"Graph-Twitter_node_features\.pkl .* DIG"):
        load("graph-twitter", features="bert")


@pytest.mark.parametrize(
    "file", ["edge_index.txt", "graph_labels.txt", "node_features_minilm128.npz", "sentence_tokens.json"]
)
def test_truncated_files_are_detected(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    path = write(tmp_path, SIZES) / f"Graph-Twitter_{file}"
    content = path.read_bytes()
    path.write_bytes(
        content[
            : len(content) // 2 - len(content) // 2 % 2 - 1 if file == "edge_index.txt" else len(content) // 2
        ]
    )
    with pytest.raises(CigaError):
        load("graph-twitter")


# ---------------------------------------------------------------- pickles


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
def test_arrays_are_read(protocol: int, dtype: str, tmp_path: Path) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(array, protocol))
    assert np.array_equal(read_array_pickle(path), array)
    assert read_features(path).dtype == np.float32


def test_tensors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.pkl"
    path.write_bytes(pickle.dumps(torch.arange(6.0).view(2, 3)))
    assert read_features(path).tolist() == [[0, 1, 2], [3, 4, 5]]


class Evil:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_and_does_nothing(protocol: int, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = tmp_path / "evil.pkl"
    for evil in (
        Evil(os.system, f"touch {trace}"),
        Evil(exec, f"open({str(trace)!r}, 'w')"),
        Evil(open, str(trace), "w"),
        Evil(__import__, "os"),
        [np.zeros(2), Evil(os.mkdir, str(trace))],
    ):
        path.write_bytes(pickle.dumps(evil, protocol))
        with pytest.raises(CigaError, match="refused"):
            read_array_pickle(path)
        assert not trace.exists()


def test_a_pickle_within_a_pickle_is_refused(tmp_path: Path) -> None:
    from torch.storage import _load_from_bytes

    trace, path = tmp_path / "trace", tmp_path / "evil.pkl"
    inner = pickle.dumps(Evil(os.mkdir, str(trace)))
    path.write_bytes(pickle.dumps(Evil(_load_from_bytes, inner)))
    with pytest.raises(CigaError):
        read_array_pickle(path)
    assert not trace.exists()


def test_what_is_no_array_of_numbers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    for value, words in (
        ({"a": 1}, "instead of an array"),
        ([1, 2], "instead of an array"),
        (np.array(["x"]), "refused"),
        (np.array([{}]), "refused"),
        (np.zeros(2, dtype=[("a", "f4")]), "refused"),
    ):
        path.write_bytes(pickle.dumps(value))
        with pytest.raises(CigaError, match=words):
            read_array_pickle(path)
    path.write_bytes(pickle.dumps(np.zeros(1000))[:-500])
    with pytest.raises(CigaError, match="cut short"):
        read_array_pickle(path)
    path.write_bytes(pickle.dumps(np.array([[1.0, np.nan]])))
    with pytest.raises(CigaError, match="NaN or infinite features at node 0"):
        read_features(path)


def test_a_forged_type_is_never_built(tmp_path: Path) -> None:
    """The state of a type says that its bytes are objects: NumPy followed them as pointers, and crashed."""
    plain = pickle.dumps(np.full(2, 1.5), 2)
    good = b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t"
    at = plain.index(b"(K\x03X\x01\x00\x00\x00<")
    end = plain.index(b"K\x00t", at) + 3
    objects = b"cnumpy\ndtype\nX\x02\x00\x00\x00O8\x89\x88\x87R"
    field = b"}X\x01\x00\x00\x00f" + objects + b"K\x00\x86s"
    forged = b"(K\x03X\x01\x00\x00\x00|NX\x01\x00\x00\x00f\x85" + field + b"K\x08K\x01K\x01t"
    path = tmp_path / "forged.pkl"
    path.write_bytes(plain[:at] + good + plain[end:])
    assert read_array_pickle(path).tolist() == [1.5, 1.5]
    path.write_bytes(plain[:at] + forged + plain[end:])
    with pytest.raises(CigaError, match="refused"):
        read_array_pickle(path)


def test_small_pickles_take_little_memory(tmp_path: Path) -> None:
    """Nine bytes asked for 4.2 GB: a place in a table that was made as long as the number says."""
    import tracemalloc

    path = tmp_path / "bomb.pkl"
    bombs = [
        b"\x80\x02Nr\xff\xff\xff\x0f.",
        b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"abc.",
        # tuples of themselves, forty deep, as the name of a type: written out they would fill every disk
        b"\x80\x02cnumpy\ndtype\n" + b"K\x01" + b"q\x00h\x00\x86" * 40 + b"\x85R.",
        pickle.dumps(np.zeros(2)).replace(b"K\x02\x85", b"J\xff\xff\xff\x7f\x85"),
    ]
    for bomb in bombs:
        path.write_bytes(bomb)
        tracemalloc.start()
        with pytest.raises(CigaError):
            read_array_pickle(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
        tracemalloc.stop()
