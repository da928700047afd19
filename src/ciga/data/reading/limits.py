"""How much memory a file may ask for, decided before any of it is taken.

A few bytes can declare an array of gigabytes, and a small archive can unpack to one. What a file unpacks to
must stand in some proportion to its size on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, AnyStr

from ciga.errors import CigaError

#: Bytes that any file may take, and how many times its size a larger one may take.
FLOOR, FACTOR = 1 << 29, 20
#: The same for what was read and is kept, row by row: Python's objects take more room than their text.
KEPT = 200
#: The longest line of a text file, in characters: a row of a table, or one graph.
LINE = 1 << 26
#: Characters of rows that are held at a time, before they are handed on.
HELD = 1 << 24
#: Working memory of a node without features, in bytes: what pointers and batches need.
NODE = 64
#: What a text, and a graph, take beside their content.
TEXT, GRAPH = 57, 1024


def budget(path: Path, factor: int = FACTOR) -> int:
    """The number of bytes that the content of this file may take in memory."""
    return max(FLOOR, factor * path.stat().st_size)


def check(path: Path, needed: int, factor: int = FACTOR) -> None:
    """Refuse a file whose content needs more bytes than its size on disk can justify."""
    if needed > budget(path, factor):
        size = path.stat().st_size
        raise CigaError(
            f"{path} has {size / 1e6:.1f} MB but would take {needed / 1e9:.1f} GB of memory: it is damaged "
            "or made to do harm. Get it again, or write it without compression."
        )


def json_size(text: str) -> int:
    """Roughly what JSON takes once it is parsed: an empty list of two characters is an object, too."""
    return len(text) + 72 * (text.count("[") + text.count("{")) + 16 * text.count(",")


def read_whole(file: IO[AnyStr], path: Path, size: Callable[[AnyStr], int] = len) -> AnyStr:
    """All of an open file, which may be compressed, as far as its budget goes; `size`: what a piece takes."""
    pieces: list[AnyStr] = []
    read = 0
    while piece := file.read(1 << 20):  # asked for all at once, Python would set all of the budget aside
        pieces.append(piece)
        read += size(piece)
        check(path, read)
    return file.read(0).join(pieces)


class Lines(Iterator[AnyStr]):
    """The lines of an open file; a row that is too long is refused before it is read.

    A row may go over several lines: who reads it sets `row` to zero where it ends.
    """

    def __init__(self, file: IO[AnyStr], path: Path) -> None:
        self.file: IO[AnyStr] = file
        self.path = path
        self.number = self.row = 0

    def __next__(self) -> AnyStr:
        line = self.file.readline(LINE)
        if not line:
            raise StopIteration
        self.number += 1
        self.row += len(line)
        if self.row >= LINE:
            raise CigaError(
                f"{self.path}, row {self.number} is longer than {LINE:,} characters: write shorter rows."
            )
        return line


def lines(file: IO[AnyStr], path: Path) -> Iterator[AnyStr]:
    """The lines of an open file, each of them a row."""
    every = Lines(file, path)
    for line in every:
        every.row = 0
        yield line
