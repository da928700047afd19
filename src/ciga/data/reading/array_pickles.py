"""Arrays out of other people's pickles, and nothing else, although a pickle may ask for any function."""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - read with an allow-list, for files that others publish as pickles
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ciga.errors import CigaError

Array = np.ndarray[Any, np.dtype[Any]]


class _RefusedError(Exception):
    """The pickle asks for something that is no part of an array."""


def read_array_pickle(path: Path) -> Array:
    """The one NumPy array or torch tensor in a pickle file; anything but arrays in it is refused."""
    try:
        with path.open("rb") as file:
            value = _ArraysOnly(file).load()
    except _RefusedError as error:
        raise CigaError(f"{path} is refused: it asks for {error}, which no array needs.") from None
    except Exception as error:
        raise CigaError(f"{path} is cut short or damaged ({type(error).__name__}): get it again.") from error
    if type(value).__module__ == "torch" and hasattr(value, "numpy"):
        value = value.numpy()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        raise CigaError(
            f"{path} holds a {type(value).__name__} instead of an array of numbers: get it again."
        )
    return value


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # NumPy 1 wrote `numpy.core`, NumPy 2 writes `numpy._core`.
        known = _builders().get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise _RefusedError(f"{module}.{name}")
        return known


def _builders() -> dict[tuple[str, str], Callable[..., Any] | type]:
    core = getattr(np, "_core", None) or np.core
    multiarray, numeric = core.multiarray, core.numeric
    return {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): multiarray._reconstruct,
        ("numpy.core.multiarray", "scalar"): multiarray.scalar,
        ("numpy.core.numeric", "_frombuffer"): numeric._frombuffer,
        ("_codecs", "encode"): _latin1,
        ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        ("torch.storage", "_load_from_bytes"): _storage,
        ("collections", "OrderedDict"): dict,
    }


def _latin1(text: str, encoding: str) -> bytes:
    """How old pickles write bytes. Any other codec is none of our business."""
    if encoding not in ("latin1", "latin-1"):
        raise _RefusedError(f"the codec {encoding}")
    return text.encode("latin1")


def _tensor(*arguments: Any) -> Any:
    from torch._utils import _rebuild_tensor_v2

    return _rebuild_tensor_v2(*arguments)


def _storage(raw: bytes) -> Any:
    """A tensor's numbers are a file within the pickle: read by torch's own restricted reader."""
    import torch

    return torch.load(io.BytesIO(raw), weights_only=True)  # noqa: TID251 - weights_only builds tensors only
