"""Predictions as a file: CSV or TSV, also packed, or Parquet. It appears when it is complete."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ciga.errors import MissingExtra, UsageError
from ciga.files import atomic

#: Endings of formats that a reader would expect, and that we do not write.
NOT_WRITTEN = (
    ".json", ".jsonl", ".ndjson", ".xls", ".xlsx", ".ods", ".feather", ".arrow", ".orc", ".pt", ".pkl",
    ".npz", ".npy", ".safetensors", ".sqlite", ".db", ".html", ".zip", ".bz2", ".xz", ".zst",
)  # fmt: skip
#: Added columns that are numbers in Parquet; all others are text.
NUMBERS = ("probability", "p(", "uncertainty", "shift_score")
Write = Callable[[list[list[str]]], object]


def check_output(out: str | Path) -> None:
    """Refuse a name that promises another format than we write."""
    suffix = Path(out).suffix.lower()
    if suffix in NOT_WRITTEN:
        raise UsageError(
            f"Predictions are not written as {suffix}: choose .csv, .tsv, .csv.gz or .parquet for --out."
        )
    if suffix == ".parquet":
        parquet()


@contextmanager
def writer(out: str | Path, header: Sequence[str], added: Sequence[str]) -> Iterator[Write]:
    """Writes rows to a file that appears when it is complete, or to standard output."""
    if str(out) == "-":
        yield _csv(sys.stdout, ",", [*header, *added])
        return
    path = Path(out)
    mark = "\t" if ".tsv" in path.suffixes else ","
    with atomic(path) as temporary:
        if path.suffix.lower() == ".parquet":
            with temporary.open("wb") as file, _parquet(file, header, added) as write:
                yield write
        elif path.suffix == ".gz":
            # Without name and time in its header, equal predictions are equal files.
            with (
                temporary.open("wb") as plain,
                gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed,
                io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
            ):
                yield _csv(text, mark, [*header, *added])
        else:
            with temporary.open("w", encoding="utf-8", newline="") as text:
                yield _csv(text, mark, [*header, *added])


def _csv(file: Any, mark: str, header: Sequence[str]) -> Write:
    rows = csv.writer(file, delimiter=mark, lineterminator="\n")
    rows.writerow(header)
    return rows.writerows


def parquet() -> Any:
    """PyArrow with its Parquet module."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "tables") from None
    return pyarrow


@contextmanager
def _parquet(file: Any, header: Sequence[str], added: Sequence[str]) -> Iterator[Write]:
    arrow = parquet()
    kinds = [arrow.string()] * len(header)
    kinds += [
        arrow.float64() if name.removeprefix("ciga_").startswith(NUMBERS) else arrow.string()
        for name in added
    ]
    names = [*header, *added]
    schema = arrow.schema(list(zip(names, kinds, strict=True)))

    def column(cells: Sequence[str], kind: Any) -> Any:
        values = cells if kind == arrow.string() else [float(cell) if cell else None for cell in cells]
        return arrow.array(values, kind)

    with arrow.parquet.ParquetWriter(file, schema) as writer:

        def write(rows: list[list[str]]) -> None:
            columns = zip(*rows, strict=True)
            arrays = [column(cells, kind) for cells, kind in zip(columns, kinds, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))

        yield write
