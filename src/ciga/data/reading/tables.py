"""Tables on disk (CSV, TSV, Parquet; plain, .gz, .xz, .bz2), read in chunks, every bad row accounted for.

A row that cannot be used is never dropped in silence: it becomes a `Rejected` with its file, its line as an
editor shows it, and the reason. What makes the whole file unusable is an error.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ciga.data.reading import limits, parquet, text_tables
from ciga.data.reading.xz import open_xz
from ciga.errors import CigaError, UsageError, unknown
from ciga.files import atomic

COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".xz": open_xz, ".bz2": bz2.open}
SUFFIXES = (*text_tables.SUFFIXES, ".parquet", ".pq")
MISSING = frozenset({"", "na", "n/a", "nan", "null"})
DAMAGE = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class Rejected:
    """A row that was set aside: its line in the file (from 1), why, and the value that is to blame."""

    row: int
    reason: str
    value: str = ""
    detail: str = ""
    file: str = ""
    cells: tuple[str, ...] = field(default=(), compare=False, repr=False)  # as read, where they could be

    def __str__(self) -> str:
        where = f"{self.file}, row {self.row}" if self.file else f"row {self.row}"
        blame = f" ({short(self.value)!r})" if self.value else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"{where}: {self.reason}{blame}{detail}"


@dataclass
class Table:
    """Some rows of a table: the asked-for columns as text, the line of each row, and the rows set aside."""

    values: dict[str, list[str]]
    rows: list[int] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)


def is_table(path: str | Path) -> bool:
    """Whether the name of a file is that of a table."""
    return _suffixes(Path(path))[0] in SUFFIXES


def is_missing(text: str) -> bool:
    """Whether a cell holds nothing: empty, NA, N/A, NaN, null, or Python's None."""
    return text.lower() in MISSING or text == "None"


def read_table(path: str | Path, columns: Sequence[str]) -> Table:
    """The named columns of the whole file."""
    columns = list(dict.fromkeys(columns))
    whole, taken = Table({name: [] for name in columns}), 0
    for chunk in read_chunks(path, columns):
        taken += sum(limits.TEXT * len(texts) + sum(map(len, texts)) for texts in chunk.values.values())
        taken += limits.GRAPH * len(chunk.rejected)
        limits.check(Path(path), taken, limits.KEPT)
        whole.rows += chunk.rows
        whole.rejected += chunk.rejected
        for name in columns:
            whole.values[name] += chunk.values[name]
    return whole


def read_chunks(path: str | Path, columns: Sequence[str], size: int = 8192) -> Iterator[Table]:
    """The named columns, `size` rows at a time: a file larger than memory can be read."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"There is no file {path}.")
    kind, packing = _suffixes(path)
    if kind not in SUFFIXES:
        raise UsageError(
            f"{path} is not a table: give one of {', '.join(SUFFIXES)} (also with .gz, .xz or .bz2)."
        )
    if not path.stat().st_size:
        raise CigaError(f"{path} is empty.")
    columns = list(dict.fromkeys(columns))
    with _whole(path):
        if kind in text_tables.SUFFIXES:
            with COMPRESSED.get(packing, open)(path, "rb") as binary:
                names, rows = text_tables.rows_of(binary, path, kind)
                yield from _text_chunks(names, rows, path, columns, size)
        else:
            yield from _parquet_chunks(path, packing, columns, size)


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """What libraries say of a damaged file, in one sentence."""
    try:
        yield
    except DAMAGE as error:
        raise CigaError(f"{path} is damaged or cut short ({error}): get it again.") from error
    except OSError as error:
        # bz2 has no error of its own; one of the system has a number
        if error.errno is not None:
            raise
        raise CigaError(f"{path} is damaged or cut short ({error}): get it again.") from error


def columns_of(path: str | Path) -> list[str]:
    """The names of the columns of a table."""
    path = Path(path)
    kind, packing = _suffixes(path)
    with _whole(path):
        if kind not in text_tables.SUFFIXES:
            return list(_parquet(path, packing).schema_arrow.names)
        with COMPRESSED.get(packing, open)(path, "rb") as binary:
            return text_tables.names_of(binary, path, kind)


def summary(rejected: Iterable[Rejected]) -> str:
    """How many rows were set aside for each reason: `3 rows: 2 x missing label, 1 x …`."""
    counts = Counter(r.reason for r in rejected)
    total = sum(counts.values())
    listed = ", ".join(f"{count} x {reason}" for reason, count in counts.most_common())
    return f"{total} {'row' if total == 1 else 'rows'}: {listed}" if total else "0 rows"


REJECTED_COLUMNS = ("file", "row", "reason", "value", "detail")


def write_rejected(path: Path, rejected: Sequence[Rejected]) -> None:
    """The rows set aside, as a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(REJECTED_COLUMNS)
    writer.writerows([r.file, r.row, r.reason, _one_line(r.value), _one_line(r.detail)] for r in rejected)
    with atomic(path) as temporary:
        # bytes that were not UTF-8 come out as \udcXX: show them, do not fail on them
        temporary.write_bytes(text.getvalue().encode("utf-8", "backslashreplace"))


def read_rejected(path: Path) -> list[Rejected]:
    """What `write_rejected` wrote."""
    table = read_table(path, REJECTED_COLUMNS)
    cells = zip(*(table.values[c] for c in REJECTED_COLUMNS), strict=True)
    return [Rejected(int(row), reason, value, detail, file) for file, row, reason, value, detail in cells]


# ---------------------------------------------------------------- chunk by chunk


def _text_chunks(
    names: Sequence[str], rows: Iterable[text_tables.TextRow], path: Path, columns: Sequence[str], size: int
) -> Iterator[Table]:
    """The wanted columns of rows that were read as text.

    Args:
        names: of all columns of the file.
        rows: of the file, good ones and bad ones.
        path: where it is, for messages.
        columns: the wanted ones.
        size: rows of a chunk, those set aside included.
    """
    places = _places(names, columns, path)
    chunk, some, held = Table({name: [] for name in columns}), False, 0
    for line, cells, fault, text in rows:
        some = True
        held += sum(map(len, cells))
        if fault:
            reason, detail = fault
            chunk.rejected.append(Rejected(line, reason, short(text), detail, str(path), tuple(cells)))
        else:
            chunk.rows.append(line)
            for name, place in places.items():
                chunk.values[name].append(cells[place].strip())
        if len(chunk.rows) + len(chunk.rejected) >= size or held > limits.HELD:
            yield chunk
            chunk, held = Table({name: [] for name in columns}), 0
    if not some:
        molecules = _suffixes(path)[0] == text_tables.MOLECULES
        raise CigaError(f"{path} has {'no molecules' if molecules else 'a header but no rows'}.")
    yield chunk


def _places(header: Sequence[str], columns: Sequence[str], path: Path) -> dict[str, int]:
    """Where each wanted column stands."""
    for name in columns:
        found = [i for i, h in enumerate(header, 1) if h == name]
        if not found:
            raise unknown(f"column in {path}", name, [h for h in header if h])
        if len(found) > 1:
            places = ", ".join(map(str, found))
            raise CigaError(f"{path} has several columns called '{name}' ({places}): rename all but one.")
    return {name: header.index(name) for name in columns}


def _parquet(path: Path, packing: str) -> Any:
    return parquet.open_file(path, COMPRESSED[packing] if packing else None)


def _parquet_chunks(path: Path, packing: str, columns: Sequence[str], size: int) -> Iterator[Table]:
    file = _parquet(path, packing)
    _places(list(file.schema_arrow.names), columns, path)
    if not file.metadata.num_rows:
        raise CigaError(f"{path} has columns but no rows.")
    done = 0
    for values, rows in parquet.read_batches(file, path, columns, size):
        yield Table(values, list(range(done + 1, done + rows + 1)))
        done += rows
    if done != file.metadata.num_rows:
        raise CigaError(
            f"{path} is damaged ({done} of {file.metadata.num_rows} rows are there): get it again."
        )


# ---------------------------------------------------------------- small things


def _suffixes(path: Path) -> tuple[str, str]:
    """(kind, compression) by the name: `a.csv.gz` -> (".csv", ".gz")."""
    packing = path.suffix.lower() if path.suffix.lower() in COMPRESSED else ""
    return Path(path.stem).suffix.lower() if packing else path.suffix.lower(), packing


def short(text: str, limit: int = 80) -> str:
    """A text for a message: its beginning, if it is long."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _one_line(text: str) -> str:
    return short(" ".join(text.replace("\0", "\\0").split()), 1000)
