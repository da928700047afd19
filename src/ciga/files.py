"""Files that are whole or absent: atomic writes, and safetensors read through a memory map."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ciga.errors import CigaError

if TYPE_CHECKING:  # records are files, too: reading them shall not wait for torch
    from torch import Tensor


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place if the block succeeds, and vanishes if not."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        # mkstemp makes private files; the result should be as readable as any other new file
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON, atomically."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n")


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> None:
    """Write one safetensors file, atomically."""
    from safetensors.torch import save_file

    with atomic(path) as temporary:
        plain = _apart({k: v.detach().cpu().contiguous() for k, v in tensors.items()})
        save_file(plain, temporary, {**meta, "sha256": content_hash(plain, meta)})


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, those that overlap an earlier one copied: safetensors refuses shared memory."""
    out: dict[str, Tensor] = {}
    taken: list[tuple[int, int]] = []
    for name, tensor in tensors.items():
        begin = tensor.data_ptr()
        end = begin + tensor.numel() * tensor.element_size()
        shared = any(begin < stop and start < end for start, stop in taken)
        out[name] = tensor.clone() if shared else tensor
        taken.append((begin, end))
    return out


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What `write_tensors` wrote, read into memory and checked against its checksum."""
    path = Path(path)
    mapped, meta = map_tensors(path)
    tensors = {k: v.clone() for k, v in mapped.items()}
    if meta.pop("sha256", None) != content_hash(tensors, meta):
        raise CigaError(f"{path} is damaged (its checksum does not fit): delete it and make it again.")
    return tensors, meta


def content_hash(tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> str:
    """A hash over names, types, shapes and bytes of tensors, and over `meta`."""
    import torch

    digest = hashlib.sha256(json.dumps(sorted(meta.items())).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(
            tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b""
        )
    return digest.hexdigest()


#: safetensors' names of types, and torch's.
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


def map_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file as views of a read-on-demand memory map."""
    if not path.is_file():
        raise CigaError(f"There is no file {path}.")
    try:
        return _map_tensors(path, path.stat().st_size)
    except (LookupError, TypeError, ValueError, RuntimeError):  # whatever a header may say that is not true
        raise CigaError(f"{path} is damaged or cut short: delete it and make it again.") from None


def _map_tensors(path: Path, size: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    import torch

    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if length > size - 8:
            raise ValueError("the header is longer than the file")
        header: dict[str, Any] = dict(json.loads(file.read(length)))
    meta = dict(header.pop("__metadata__", {}))
    begin = 8 + length
    if begin + max((t["data_offsets"][1] for t in header.values()), default=0) != size:
        raise ValueError("the tensors do not end where the file does")
    raw = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    out = {}
    for name, spec in header.items():
        start, stop = (begin + o for o in spec["data_offsets"])
        dtype: torch.dtype = getattr(torch, _DTYPES[spec["dtype"]])
        if not begin <= start <= stop or stop - start != math.prod(spec["shape"]) * dtype.itemsize:
            raise ValueError("a tensor's place does not fit its shape")
        piece = raw[start:stop]
        # safetensors aligns the header, not every tensor: an unaligned one has to be copied
        if piece.numel() and start % dtype.itemsize:
            piece = piece.clone()
        out[name] = (
            piece.view(dtype).view(spec["shape"])
            if piece.numel()
            else torch.zeros(spec["shape"], dtype=dtype)
        )
    return out, meta
