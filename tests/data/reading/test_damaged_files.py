"""Damaged, forged and oversized files: one sentence each, and no memory taken before the size is known."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch_geometric.data import Data

from ciga.data.datasets.ego import read_node_data
from ciga.data.datasets.sentiment import read_features
from ciga.data.reading import json_graphs, limits, parquet
from ciga.data.reading.arrays import read_npz
from ciga.data.reading.graph_files import read_graphs
from ciga.data.reading.tables import columns_of, read_table
from ciga.errors import CigaError

GOOD = {"x": [[1.0], [2.0]], "edges": [[0, 1]], "y": 1}


def lines(path: Path, *graphs: Any) -> Path:
    path.write_text("".join((g if isinstance(g, str) else json.dumps(g)) + "\n" for g in graphs))
    return path


# ---------------------------------------------------------------- sizes


def npz_of_zeros(path: Path, declared: tuple[int, ...], stored: int) -> Path:
    """An `.npz` whose array says it has this shape, with this number of zero bytes, well compressed."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": declared})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(header.getvalue())
        for _ in range(stored >> 20):
            member.write(bytes(1 << 20))
    return path


def test_an_archive_that_unpacks_to_gigabytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FLOOR", 1 << 20)
    files = [
        npz_of_zeros(tmp_path / "declared.npz", (1 << 40,), 1 << 20),
        npz_of_zeros(tmp_path / "stored.npz", (2,), 64 << 20),
    ]
    for path in files:
        tracemalloc.start()
        for read in (read_npz, read_node_data, read_features):
            with pytest.raises(CigaError, match="of memory"):
                read(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
        tracemalloc.stop()


def test_a_graph_that_only_counts_its_nodes_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FLOOR", 1 << 28)
    path = lines(tmp_path / "g.jsonl", *[{"num_nodes": 10**9, "edges": [], "y": 0}] * 3)
    tracemalloc.start()
    with pytest.raises(CigaError, match="too many nodes"):
        read_graphs(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()
    many = [{"num_nodes": 3 * 10**6, "edges": [[0, 1]], "y": 0}] * 4  # each is fair, all of them are not
    found = read_graphs(lines(tmp_path / "many.jsonl", *many))
    assert [bad.reason for bad in found.rejected] == ["too many nodes"] * 3


def test_a_compressed_file_of_one_endless_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINE", 1 << 16)
    monkeypatch.setattr(limits, "FLOOR", 1 << 18)
    zeros = b"0" * (1 << 22)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"smiles,label\n" + zeros))
    (tmp_path / "b.csv.bz2").write_bytes(bz2.compress(zeros))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(zeros))
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(zeros))
    for name in ("a.csv.gz", "b.csv.bz2"):
        with pytest.raises(CigaError, match="row 1 is longer than"):
            read_table(tmp_path / name, ["smiles"])
    with pytest.raises(CigaError, match="row 1 is longer than"):
        read_graphs(tmp_path / "c.jsonl.gz")
    with pytest.raises(CigaError, match="of memory"):
        read_graphs(tmp_path / "d.json.gz")


# ---------------------------------------------------------------- damage


def test_nesting_too_deep_for_python(tmp_path: Path) -> None:
    deep = "[" * 100_000
    found = read_graphs(lines(tmp_path / "g.jsonl", GOOD, deep))
    assert [bad.reason for bad in found.rejected] == ["unreadable graph"]
    (tmp_path / "g.json").write_text(deep)
    with pytest.raises(CigaError, match="not JSON"):
        read_graphs(tmp_path / "g.json")


def test_a_large_file_is_not_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(json_graphs, "json_objects", lambda path: read.append(path.name) or iter(()))
    small, other = lines(tmp_path / "a.jsonl", GOOD), lines(tmp_path / "a.csv", GOOD)
    large = lines(tmp_path / "b.jsonl", *[GOOD] * 3)
    monkeypatch.setattr(json_graphs, "SMALL", small.stat().st_size)
    for path in (small, large, other, tmp_path / "absent.json", tmp_path):
        json_graphs.refuse_damaged(path)
    assert read == ["a.jsonl"]


def test_an_xz_header_cannot_ask_for_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv.xz"
    text = b"smiles,label\n" + b"C,1\nO,0\n" * 50_000
    greedy = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 26}]
    modest = lzma.compress(text, preset=0)
    path.write_bytes(modest[: len(modest)] + bytes(8) + lzma.compress(b"N,1\n", preset=0))  # two streams
    assert read_table(path, ["smiles"]).values["smiles"][-2:] == ["O", "N"]
    monkeypatch.setattr(limits, "FLOOR", 1 << 24)
    for packed in (
        lzma.compress(text, filters=greedy),
        modest + lzma.compress(text, filters=greedy),  # a later stream asks for it
    ):
        path.write_bytes(packed)
        with pytest.raises(CigaError, match="damaged or cut short"):
            read_table(path, ["smiles"])


def test_parquet_with_fewer_rows_than_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"smiles": ["C", "O"]}), path)
    monkeypatch.setattr(parquet, "read_batches", lambda *_: iter(()))
    with pytest.raises(CigaError, match="0 of 2 rows are there"):
        read_table(path, ["smiles"])


def test_damaged_archives(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "smiles,label\n" + "".join(f"{'C' * n},{n % 2}\n" for n in rng.integers(1, 200, 2000))
    graphs = "".join(json.dumps({**GOOD, "x": [[v], [1.0]]}) + "\n" for v in rng.random(2000))
    for name, pack, content in (
        ("a.csv.bz2", bz2.compress, text),
        ("a.csv.gz", gzip.compress, text),
        ("a.csv.xz", lzma.compress, text),
        ("g.jsonl.gz", gzip.compress, graphs),
    ):
        whole = pack(content.encode())
        for broken in (
            whole[: len(whole) // 2],
            whole[:20] + bytes(len(whole) - 20),
            whole[: len(whole) // 2] + bytes(40) + whole[len(whole) // 2 + 40 :],
        ):
            path = tmp_path / name
            path.write_bytes(broken)
            with pytest.raises(CigaError):
                read_table(path, ["smiles"]) if ".csv" in name else read_graphs(path)


def test_damaged_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    table = pa.table({"smiles": [f"C{'C' * (i % 50)}" for i in range(5000)]})
    pq.write_table(table, path, compression="snappy", use_dictionary=False)
    whole = path.read_bytes()
    for start in (4, 60, len(whole) // 2):
        path.write_bytes(whole[:start] + b"\xff" * 300 + whole[start + 300 :])
        with pytest.raises(CigaError, match="damaged"):
            read_table(path, ["smiles"])


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez_compressed(path, edge_index=np.zeros((2, 500), int), y=np.arange(900) % 2)
    whole = path.read_bytes()
    for broken in (whole[:100], whole[:60] + b"\xff" * 40 + whole[100:], b"PK\x03\x04", b""):
        path.write_bytes(broken)
        with pytest.raises(CigaError):
            read_node_data(path)
    np.savez(path, x=np.array([{}], dtype=object))
    with pytest.raises(CigaError, match="more than plain arrays"):
        read_npz(path)


# ---------------------------------------------------------------- .pt files and odd numbers


def test_pt_files_that_do_not_fit_together(tmp_path: Path) -> None:
    path = tmp_path / "g.pt"
    data = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0, 1]))
    for value, words in (
        ([], "empty list"),
        ((data, {}), "slices do not fit"),
        ((data, {"x": torch.tensor([0, 2, 400]), "y": 3}), "slices do not fit"),
        ((data, {"x": [0, 2, 4], "edge_index": None}), "slices do not fit"),
    ):
        torch.save(value, path)
        with pytest.raises(CigaError, match=words):
            read_graphs(path)


def test_numbers_that_would_change_are_set_aside(tmp_path: Path) -> None:
    ends = torch.tensor([[0], [1]])
    graphs = [
        Data(x=torch.ones(2, 1, requires_grad=True), edge_index=ends, y=0),
        Data(x=torch.ones(2, 1) * 1j, edge_index=ends, y=0),
        Data(x=torch.tensor([[1.0], [1e300]], dtype=torch.double), edge_index=ends, y=0),
        Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [2**40]]), y=1),
    ]
    torch.save(graphs, tmp_path / "g.pt")
    found = read_graphs(tmp_path / "g.pt")
    assert found.rows == [1]
    assert [bad.reason for bad in found.rejected] == [
        "x is not a table of numbers",
        "NaN, infinite or too large feature",
        "edge to a node that does not exist",
    ]
    found = read_graphs(
        lines(
            tmp_path / "g.jsonl",
            GOOD,
            {**GOOD, "x": [[1e300], [1]]},
            {**GOOD, "edges": [[0, 2**70]]},
            {**GOOD, "edges": [[0, 0.5]]},
            {**GOOD, "x": [[10**400], [1]]},
            {"num_nodes": 10**400, "edges": []},
        )
    )
    assert found.rows == [1]
    assert [bad.reason for bad in found.rejected] == [
        "NaN, infinite or too large feature",
        "edges are not pairs of node numbers",
        "edges are not pairs of node numbers",
        "x is not a table of numbers",
        "too many nodes",
    ]


@pytest.mark.parametrize("packing", ["gz", "bz2", "xz"])
def test_the_header_of_a_cut_table_is_one_sentence(tmp_path: Path, packing: str) -> None:
    module: Any = {"gz": gzip, "bz2": bz2, "xz": lzma}[packing]
    rows = "".join(f"{i},{i * 7919 % 1000}\n" for i in range(2000))
    whole = module.compress(f"smiles,label\n{rows}".encode())
    for content in (whole[:30], whole[:10] + b"\0" * 20 + whole[30:], b""):
        file = tmp_path / f"t.csv.{packing}"
        file.write_bytes(content)
        with pytest.raises(CigaError):
            columns_of(file)
