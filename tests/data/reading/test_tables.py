from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from ciga.data.reading import tables
from ciga.data.reading.tables import (
    Rejected,
    columns_of,
    is_missing,
    is_table,
    read_chunks,
    read_rejected,
    read_table,
)
from ciga.errors import CigaError, UsageError

TEXT = "smiles,label,name\nCCO,1,ethanol\nC,0,methane\n"


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text", "pack"),
    [
        ("a.csv", TEXT, bytes),
        ("a.CSV", TEXT, bytes),
        ("a.csv", TEXT.replace(",", ";"), bytes),
        ("a.tsv", TEXT.replace(",", "\t"), bytes),
        ("a.txt", TEXT.replace(",", "\t"), bytes),
        ("a.csv", TEXT.replace("\n", "\r\n"), bytes),
        ("a.csv", "\ufeff" + TEXT, bytes),
        ("a.csv.gz", TEXT, gzip.compress),
        ("a.csv.xz", TEXT, lzma.compress),
        ("a.tsv.bz2", TEXT.replace(",", "\t"), bz2.compress),
    ],
)
def test_every_kind_of_text_table_reads_the_same(tmp_path: Path, name: str, text: str, pack: type) -> None:
    path = write(tmp_path / name, pack(text.encode()))
    table = read_table(path, ["label", "smiles"])
    assert table.values == {"label": ["1", "0"], "smiles": ["CCO", "C"]}
    assert table.rows == [2, 3]
    assert table.rejected == []
    assert columns_of(path) == ["smiles", "label", "name"]
    assert is_table(path)


@pytest.mark.parametrize("suffix", [".parquet", ".parquet.gz"])
def test_parquet(tmp_path: Path, suffix: str) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"smiles": ["CCO", "C", None], "label": [1.0, None, 0.0]}), tmp_path / "a.parquet"
    )
    path = tmp_path / f"a{suffix}"
    if suffix.endswith(".gz"):
        path.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert read_table(path, ["smiles", "label"]).values == {
        "smiles": ["CCO", "C", ""],
        "label": ["1.0", "", "0.0"],
    }
    assert columns_of(path) == ["smiles", "label"]
    with pytest.raises(UsageError, match="Did you mean smiles"):
        read_table(path, ["smile"])
    damaged = write(tmp_path / "b.parquet", (tmp_path / "a.parquet").read_bytes()[:-20])
    with pytest.raises(CigaError, match="damaged"):
        read_table(damaged, ["smiles"])


def test_chunks_join_to_the_whole_and_keep_line_numbers(tmp_path: Path) -> None:
    lines = [f"C{'C' * (i % 5)},{i}" for i in range(25)]
    path = write(tmp_path / "a.csv", "smiles,label\n" + "\n".join(lines))
    chunks = list(read_chunks(path, ["label"], size=10))
    assert [len(c) for c in chunks] == [10, 10, 5]
    assert [v for c in chunks for v in c.values["label"]] == [str(i) for i in range(25)]
    assert [r for c in chunks for r in c.rows] == list(range(2, 27))


def test_a_row_is_called_by_the_line_an_editor_shows(tmp_path: Path) -> None:
    text = 'smiles,name\n\nCCO,"two\nlines"\nC,a,b\nCC\n'
    table = read_table(write(tmp_path / "a.csv", text), ["smiles", "name"])
    assert table.rows == [3]
    assert table.values["name"] == ["two\nlines"]
    assert [(r.row, r.reason) for r in table.rejected] == [(5, "too many cells"), (6, "too few cells")]
    assert "3 cells for 2 columns" in table.rejected[0].detail


def test_one_bad_row_spoils_no_other(tmp_path: Path) -> None:
    text = b'smiles,label\nCCO,1\nC\xff,0\nC\0,0\n"C"x,1\nCC,0\n'
    table = read_table(write(tmp_path / "a.csv", text), ["smiles", "label"])
    assert table.values["smiles"] == ["CCO", "CC"]
    expected = [(3, "not UTF-8"), (4, "a NUL byte"), (5, "broken quotation marks")]
    assert [(r.row, r.reason) for r in table.rejected] == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\n\n", "is empty"),
        ("a.csv", b"smiles,label\n", "no rows"),
        ("a.csv", b"smiles,smiles,label\nC,C,1\n", r"several columns called 'smiles' \(1, 2\)"),
        ("a.csv", b"smile,label\nC,1\n", "Did you mean smile"),
        ("a.csv", "smiles,label\nC,1\n".encode("utf-16"), "UTF-16"),
        ("a.csv", b"sm\xffiles,label\nC,1\n", "row 1: the column names are not UTF-8"),
        ("a.csv", b"smiles,label\rC,1\rCC,0\r", "column names cannot be read"),
        ("a.csv", b'smiles,label\nC,1\n"CC,1\nCCC,0\nCO,1\n', "row 3: a quotation mark opens here"),
        ("a.csv", b'smiles,label\n"CC,1\nC,0\n"CO",1\n', "row 2: a quotation mark opens here"),
        ("a.csv.gz", gzip.compress(TEXT.encode() * 99, mtime=0)[:-12], "damaged or cut short"),
        ("a.csv.gz", TEXT.encode(), "damaged or cut short"),
        ("a.csv.xz", lzma.compress(TEXT.encode())[:-5], "damaged or cut short"),
        ("a.csv.bz2", bz2.compress(TEXT.encode())[:-5], "damaged or cut short"),
        ("a.xlsx", b"PK", "is not a table"),
    ],
)
def test_unusable_files_say_why(tmp_path: Path, name: str, text: bytes, message: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(CigaError, match=message) as caught:
        read_table(path, ["smiles", "label"])
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        read_table(tmp_path / "a.csv", ["smiles"])


def test_a_column_asked_for_twice_is_read_once(tmp_path: Path) -> None:
    assert read_table(write(tmp_path / "a.csv", TEXT), ["label", "label"]).values == {"label": ["1", "0"]}


@pytest.mark.parametrize("cell", ["", "NA", "n/a", "NaN", "nan", "NULL", "None"])
def test_what_counts_as_missing(cell: str) -> None:
    assert is_missing(cell)


@pytest.mark.parametrize("cell", ["0", "none", "no", "N", "-"])
def test_what_does_not(cell: str) -> None:
    assert not is_missing(cell)


def test_rejected_rows_survive_being_written(tmp_path: Path) -> None:
    rows = [
        Rejected(3, "not UTF-8", "C\udcff,1", "save the file as UTF-8", "a.csv"),
        Rejected(4, "a NUL byte", "C\0", "", "a.csv"),
        Rejected(7, "missing label", "", 'say "which"', "b, c.csv"),
    ]
    tables.write_rejected(tmp_path / "out" / "x.csv", rows)
    again = read_rejected(tmp_path / "out" / "x.csv")
    assert [(r.row, r.reason, r.file, r.detail) for r in again] == [
        (r.row, r.reason, r.file, r.detail) for r in rows
    ]
    assert again[0].value == "C\\udcff,1"
    assert str(again[2]) == 'b, c.csv, row 7: missing label: say "which"'
    assert tables.summary([*rows, rows[0]]) == "4 rows: 2 x not UTF-8, 1 x a NUL byte, 1 x missing label"
    assert tables.summary([]) == "0 rows"
