"""Tables as text, delimited (CSV, TSV) or one molecule per line (.smi): row by row, good and bad ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

from ciga.data.reading import limits
from ciga.errors import CigaError

#: The suffix of a table and its delimiter; None: the header shows it.
DELIMITERS: dict[str, str | None] = {".csv": None, ".txt": None, ".tsv": "\t", ".tab": "\t"}
#: One molecule per line: its SMILES, white space, its name.
MOLECULES = ".smi"
SUFFIXES = (*DELIMITERS, MOLECULES)
FIELD_LIMIT = 1 << 20


class TextRow(NamedTuple):
    """A row as it was read: its line (from 1), its cells, and why it cannot be used, if it cannot."""

    line: int
    cells: list[str]
    fault: tuple[str, str] | None  # in general and in particular
    text: str = ""  # all of a row with a fault


def names_of(binary: IO[bytes], path: Path, kind: str) -> list[str]:
    """The names of the columns of a file of this kind (one of `SUFFIXES`)."""
    if kind == MOLECULES:
        return _molecule_names(next(limits.lines(binary, path), b""))[0]
    return _header(binary, path, DELIMITERS[kind])[0]


def rows_of(binary: IO[bytes], path: Path, kind: str) -> tuple[list[str], Iterator[TextRow]]:
    """The names of the columns of a file of this kind (one of `SUFFIXES`), and its rows."""
    if kind == MOLECULES:
        lines = limits.lines(binary, path)
        first = next(lines, b"")
        names, said = _molecule_names(first)
        return names, _molecule_rows(b"" if said else first, lines, names)
    names, mark, line = _header(binary, path, DELIMITERS[kind])
    return names, _delimited_rows(binary, path, names, mark, line)


def _header(binary: IO[bytes], path: Path, delimiter: str | None) -> tuple[list[str], str, int]:
    """The names of the columns, the delimiter (None: the most frequent one), and the line they stand on."""
    for line, raw in enumerate(limits.lines(binary, path), 1):
        if line == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise CigaError(f"{path} is UTF-16: save it as UTF-8.")
        try:
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise CigaError(
                f"{path}, row {line}: the column names are not UTF-8: save it as UTF-8."
            ) from None
        if not text.strip():
            continue
        mark = delimiter or max(",;\t", key=text.count)
        try:
            names = next(csv.reader([text], delimiter=mark, strict=True))
        except csv.Error as error:
            raise CigaError(f"{path}, row {line}: the column names cannot be read ({error}).") from None
        return [name.strip() for name in names], mark, line
    raise CigaError(f"{path} is empty.")


def _delimited_rows(
    binary: IO[bytes], path: Path, names: Sequence[str], mark: str, line: int
) -> Iterator[TextRow]:
    # surrogateescape keeps bytes that are not UTF-8, so that one such row spoils no other
    text = io.TextIOWrapper(binary, encoding="utf-8", errors="surrogateescape", newline="")
    csv.field_size_limit(FIELD_LIMIT)
    lines = limits.Lines(text, path)
    reader = csv.reader(lines, delimiter=mark, strict=True)
    while True:
        start, lines.row = line + reader.line_num + 1, 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # Over several lines it has swallowed rows that may be good: nothing to go on with.
            if line + reader.line_num > start or "end of data" in str(error):
                raise CigaError(
                    f"{path}, row {start}: a quotation mark opens here and does not close where it should "
                    f"({error}): mend this row."
                ) from None
            yield TextRow(
                start, [], ("broken quotation marks", f"{error}: double those inside a quoted cell")
            )
            continue
        if cells and (len(cells) > 1 or cells[0].strip()):  # an empty line is no row
            fault = _fault(cells, names)
            yield TextRow(start, cells, fault, mark.join(cells) if fault else "")


def _molecule_names(first: bytes) -> tuple[list[str], bool]:
    """The names of the columns of a .smi file, and whether its first line says them."""
    words = first.decode("utf-8-sig", "replace").split()
    if words and words[0].lower() in ("smiles", "smi", "smile"):
        return ["smiles", *words[1:]], True
    return ["smiles", "name"], False


def _molecule_rows(first: bytes, lines: Iterator[bytes], names: Sequence[str]) -> Iterator[TextRow]:
    for line, raw in enumerate(chain([first], lines), 1):
        text = raw.decode("utf-8-sig" if line == 1 else "utf-8", "surrogateescape").strip()
        if text:
            cells = text.split(None, len(names) - 1)
            cells += [""] * (len(names) - len(cells))
            yield TextRow(line, cells, _fault(cells, names), text)


def _fault(cells: Sequence[str], names: Sequence[str]) -> tuple[str, str] | None:
    """Why a row cannot be used, in general and in particular."""
    if len(cells) != len(names):
        few = len(cells) < len(names)
        advice = "add what is missing" if few else "quote cells that hold the delimiter"
        kind = "too few cells" if few else "too many cells"
        return kind, f"{len(cells)} cells for {len(names)} columns: {advice}"
    joined = "".join(cells)
    if any("\udc80" <= c <= "\udcff" for c in joined):
        return "not UTF-8", "save the file as UTF-8"
    if "\0" in joined:
        return "a NUL byte", "the file is damaged here"
    return None
