"""Arrays of an `.npz` file: sizes are read from the headers and checked before anything is unpacked."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ciga.data.reading import limits
from ciga.errors import CigaError

Array = np.ndarray[Any, np.dtype[Any]]


def read_npz(path: Path) -> dict[str, Array]:
    """All arrays of numbers of an `.npz` file, by name."""
    try:
        with zipfile.ZipFile(path) as archive:
            headers = {name: _header(archive, name) for name in archive.namelist()}
            sizes = {name: math.prod(shape) * kind.itemsize for name, (shape, kind) in headers.items()}
            limits.check(path, sum(max(sizes[name], archive.getinfo(name).file_size) for name in headers))
            if any(kind.kind not in "biufc" for _, kind in headers.values()):
                raise ValueError("not an array of numbers")
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
    except (CigaError, OSError):
        raise
    except Exception as error:  # zip, zlib, struct and the header's own errors
        raise CigaError(
            f"{path} is cut short or damaged, or holds more than plain arrays ({type(error).__name__}): "
            "get it or write it again."
        ) from error


def _header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of one array, without its numbers."""
    with archive.open(name) as file:
        form = np.lib.format
        first = form.read_magic(file) == (1, 0)
        shape, _, kind = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(file)
    if any(length < 0 for length in shape):
        raise ValueError("a negative shape")
    return shape, kind
