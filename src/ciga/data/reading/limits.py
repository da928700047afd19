"""How much memory a file may ask for, decided before any of it is taken.

A few bytes can declare an array of gigabytes, and a small archive can unpack to one. What a file unpacks to
must stand in some proportion to its size on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, AnyStr

from ciga.errors import CigaError

#: Bytes that any file may take, and how many times its size a larger one may take.
FLOOR, FACTOR = 1 << 29, 20
#: The longest line of a text file, in characters: a row of a table, or one graph.
LINE = 1 << 26
#: Working memory of a node without features, in bytes: what pointers and batches need.
NODE = 64


def budget(path: Path) -> int:
    """The number of bytes that the content of this file may take in memory."""
    return max(FLOOR, FACTOR * path.stat().st_size)


def check(path: Path, needed: int) -> None:
    """Refuse a file whose content needs more bytes than its size on disk can justify."""
    if needed > budget(path):
        size = path.stat().st_size
        raise CigaError(
            f"{path} has {size / 1e6:.1f} MB but would take {needed / 1e9:.1f} GB of memory: it is damaged "
            "or made to do harm. Get it again, or write it without compression."
        )


def read_whole(file: IO[AnyStr], path: Path) -> AnyStr:
    """All of an open file, which may be compressed, as far as its budget goes."""
    pieces: list[AnyStr] = []
    read = 0
    while piece := file.read(1 << 20):  # asked for all at once, Python would set all of the budget aside
        pieces.append(piece)
        read += len(piece)
        check(path, read)
    return file.read(0).join(pieces)


def lines(file: IO[AnyStr], path: Path) -> Iterator[AnyStr]:
    """The lines of an open file; one that is too long to be a row is refused before it is read."""
    number = 0
    while line := file.readline(LINE):
        number += 1
        if len(line) >= LINE:
            raise CigaError(f"{path}, row {number} is longer than {LINE:,} characters: write shorter rows.")
        yield line
