"""A small file may not become gigabytes: what it would take is checked before it is taken."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from ciga.data import GraphStore
from ciga.data.reading import limits, tables
from ciga.data.reading.graph_files import read_graph_chunks, read_graphs
from ciga.errors import CigaError
from ciga.files import read_tensors, write_tensors
from ciga.runs.records import read_lines

#: In place of half a gigabyte, so that small bombs do.
FLOOR = 1 << 20
ROWS = b"smiles,active\n" + b"CCO,1\nCCN,0\n" * 20_000


def graph(x: torch.Tensor) -> Data:
    return Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0]))


def packed(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(gzip.compress(content))


def saved(*graphs: Data) -> Callable[[Path], object]:
    return lambda path: torch.save(list(graphs), path)


def dictionary(texts: list[str], rows: int) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra: tables)")
        import pyarrow.parquet

        places = arrow.array([i % len(texts) for i in range(rows)], arrow.int32())
        column = arrow.DictionaryArray.from_arrays(places, arrow.array(texts))
        pyarrow.parquet.write_table(arrow.table({"smiles": column, "active": [0] * rows}), path)

    return write


WHOLE = graph(torch.ones(300, 300))
BOMBS: dict[str, Callable[[Path], object]] = {
    "rows.csv.gz": packed(ROWS),
    "rows.csv.bz2": lambda path: path.write_bytes(bz2.compress(ROWS)),
    "rows.csv.xz": lambda path: path.write_bytes(lzma.compress(ROWS, preset=0)),
    "rows.smi.gz": packed(b"CCO x\n" * 40_000),
    "bad-rows.csv.gz": packed(b"smiles,active\n" + b"CCO\n" * 20_000),
    "rows.parquet": dictionary(["CCO"], 40_000),
    "one-long-text.parquet": dictionary(["C" * 20_000, "CCO"], 400),
    "empty-lists.json.gz": packed(b"[" + b"[]," * 20_000 + b"1]"),
    "one-line.jsonl.gz": packed(b'{"x": [' + b"{}," * 20_000 + b"1]}"),
    "many-lines.jsonl.gz": packed(b'{"x": [1], "edges": []}\n' * 3000),
    "every-line-another-name.jsonl": lambda path: path.write_text(
        "\n".join(json.dumps({"x": [1], "edges": [], f"a{i}": 1}) for i in range(500))
    ),
    "repeated-by-a-stride.pt": saved(graph(torch.ones(1, 1).expand(1_000_000, 2))),
    "sparse.pt": lambda path: saved(graph(torch.eye(2000).to_sparse()))(path),
    "the-same-many-times.pt": saved(*[WHOLE] * 50),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_by_what_it_would_take(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / name
    BOMBS[name](file)
    assert 30 * file.stat().st_size < 1 << 25
    columns = ["smiles", "name" if ".smi" in name else "active"]

    def read() -> int:
        if tables.is_table(file):
            found = tables.read_table(file, columns)
            return len(found) + len(found.rejected)
        return len(read_graphs(file).rows)

    if name not in ("empty-lists.json.gz", "one-line.jsonl.gz"):
        assert read() > 0  # within the limits it is a file like others
    monkeypatch.setattr(limits, "FLOOR", FLOOR)
    monkeypatch.setattr(limits, "KEPT", limits.FACTOR)
    with pytest.raises(CigaError, match=f"{name} has 0.. MB but would take 0.. GB of memory"):
        read()


def test_rows_are_handed_on_before_they_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty cells of a million letters, packed into nothing, come one row at a time, not 8,192."""
    monkeypatch.setattr(limits, "HELD", 10_000)
    for name, row in (("wide.csv.gz", b"C" * 3000 + b",1\n"), ("wide.smi.gz", b"C" * 3000 + b" x\n")):
        head = b"smiles,active\n" if "csv" in name else b""
        (tmp_path / name).write_bytes(gzip.compress(head + row * 40))
        sizes = [len(chunk) for chunk in tables.read_chunks(tmp_path / name, ["smiles"])]
        assert sum(sizes) == 40
        assert max(sizes) <= 5


def test_a_row_over_many_lines_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINE", 1000)
    (tmp_path / "t.csv").write_text("smiles,active\nCCO,1\n" + '"a\nb",' * 500 + "\n")
    with pytest.raises(CigaError, match="is longer than 1,000 characters"):
        tables.read_table(tmp_path / "t.csv", ["smiles"])
    (tmp_path / "t.csv").write_text("smiles,active\n" + 'CCO,"a\nb"\n' * 500)
    assert len(tables.read_table(tmp_path / "t.csv", ["smiles"])) == 500  # many rows are not one row


def test_equal_texts_of_a_parquet_file_are_one_object(tmp_path: Path) -> None:
    dictionary(["C" * 1000, "CCO"], 100)(tmp_path / "t.parquet")
    found = tables.read_table(tmp_path / "t.parquet", ["smiles", "active"]).values
    assert found["smiles"] == ["C" * 1000, "CCO"] * 50
    assert found["active"] == ["0"] * 100
    assert len({id(text) for text in found["smiles"]}) == 2


def test_texts_that_overlap_are_refused(tmp_path: Path) -> None:
    """Ends in disorder would have one text read over and over: gigabytes from a file of megabytes."""
    store = GraphStore.from_pyg([graph(torch.ones(1, 1))] * 4)
    store.columns = {"smiles": ["C", "N", "O", "F"]}
    file = tmp_path / "g.safetensors"
    store.save(file)
    tensors, notes = read_tensors(file)
    for ends in ([4, 0, 4, 0], [1, 2, 3, 9], [-1, 2, 3, 4]):
        write_tensors(file, {**tensors, "ends.smiles": torch.tensor(ends)}, notes)
        with pytest.raises(CigaError, match="ends of texts are not in order"):
            GraphStore.open(file)


def test_a_list_of_records_is_unpacked_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed(b"\n" * 3 * FLOOR)(tmp_path / "records.jsonl.gz")
    assert list(read_lines(tmp_path / "records.jsonl.gz")) == []
    monkeypatch.setattr(limits, "FLOOR", FLOOR)
    with pytest.raises(CigaError, match="would take"):
        list(read_lines(tmp_path / "records.jsonl.gz"))


def test_graphs_are_counted_chunk_by_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long file may be predicted, though it could not be kept whole."""
    packed(b'{"x": [1], "edges": []}\n' * 3000)(tmp_path / "long.jsonl.gz")
    monkeypatch.setattr(limits, "FLOOR", FLOOR)
    monkeypatch.setattr(limits, "KEPT", limits.FACTOR)
    assert sum(len(chunk.rows) for chunk in read_graph_chunks(tmp_path / "long.jsonl.gz", 100)) == 3000
