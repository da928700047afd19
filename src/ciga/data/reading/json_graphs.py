"""The objects of a JSON file of graphs, read without torch: a damaged file is refused before its import."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ciga.data.reading import limits
from ciga.errors import CigaError

SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
#: A file of more bytes is not looked at beforehand: to read it twice would take longer than to import torch.
SMALL = 1 << 22


def json_objects(path: Path) -> Iterator[tuple[int, Any]]:
    """(row, object) of each graph; the text of the error where a line of a `.jsonl` file is not JSON."""
    opener = gzip.open if path.suffix == ".gz" else open
    lines = ".jsonl" in path.suffixes
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            if lines:
                for row, line in enumerate(limits.lines(file, path), 1):
                    if line.strip():
                        limits.check(path, limits.json_size(line))
                        yield row, _loads(line)
                return
            whole = json.loads(limits.read_whole(file, path, limits.json_size))
    except (ValueError, EOFError, OSError, zlib.error, RecursionError) as error:
        raise CigaError(f"{path} is not JSON, or is cut short ({error}): write it again.") from error
    graphs = whole.get("graphs") if isinstance(whole, dict) else whole
    if not isinstance(graphs, list) or not graphs:
        raise CigaError(f"{path} should be a list of graphs (or an object with such a list as 'graphs').")
    yield from enumerate(graphs, 1)


def refuse_damaged(path: Path) -> None:
    """Raise what reading would raise, if this is a small JSON file of graphs that cannot be read at all."""
    if path.name.lower().endswith(SUFFIXES) and path.is_file() and 0 < path.stat().st_size <= SMALL:
        for _ in json_objects(path):
            pass


def _loads(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
