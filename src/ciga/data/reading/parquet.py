"""Parquet files: opened with pyarrow where it is installed, and read as text a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ciga.data.reading import limits
from ciga.errors import CigaError, MissingExtra


def open_file(path: Path, unpack: Callable[..., Any] | None = None) -> Any:
    """The `pyarrow.parquet.ParquetFile` of a path; `unpack` opens a compressed one, as `gzip.open` does."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("pyarrow", "tables") from None
    source: Any = path
    if unpack is not None:
        with unpack(path, "rb") as binary:
            source = pa.BufferReader(limits.read_whole(binary, path))
    try:
        leaves = pq.ParquetFile(source).schema
        texts = [one.path for one in leaves if one.physical_type == "BYTE_ARRAY"]
        # As a dictionary, a text that is repeated a million times takes its room once.
        return pq.ParquetFile(source, read_dictionary=texts)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CigaError(f"{path} is damaged or not a Parquet file ({error}): get it again.") from error


def read_batches(
    file: Any, path: Path, columns: Sequence[str], size: int
) -> Iterator[tuple[dict[str, list[str]], int]]:
    """The columns as text and the number of rows, batch after batch.

    Args:
        file: What `open_file` returned.
        path: Where it is, for error messages.
        columns: The names of the columns to read.
        size: The number of rows in a batch.
    """
    import pyarrow as pa

    try:
        for batch in file.iter_batches(batch_size=size, columns=list(columns)):
            values = {name: _texts(batch.column(name)) for name in columns}
            limits.check(path, sum(len(text) for texts in values.values() for text in texts), limits.KEPT)
            yield values, batch.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CigaError(f"{path} is damaged ({reason}): get it again.") from error


def _texts(column: Any) -> list[str]:
    """A column as text; equal cells of a dictionary are one object."""
    if not hasattr(column, "dictionary"):
        return [_text(v) for v in column.to_pylist()]
    used = column.indices.dictionary_encode()
    texts = [_text(v) for v in column.dictionary.take(used.dictionary).to_pylist()]
    return ["" if place is None else texts[place] for place in used.indices.to_pylist()]


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
