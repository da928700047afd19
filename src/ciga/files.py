"""Where files are written and tensors are read: a file or a folder is whole, or it is not there.

Everything is written beside its place and renamed, so that whatever happens (a signal, a full disk) the old
one survives until the new one is complete. What a killed process leaves behind is removed by the next one
that writes to the same place.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ciga.errors import CigaError, FileError, os_sentence

if TYPE_CHECKING:  # records are files, too: reading them should not wait for torch
    from torch import Tensor

#: A temporary file or folder of a process on this machine is stale when that process is gone; of a process
#: elsewhere (a shared disk) we only know its age.
STALE_SECONDS = 24 * 3600.0
_OURS = re.compile(r"\..*\.ciga-([0-9a-f]{8})-(\d+)-.*\.part")


def _mark() -> str:
    """What names the process that a temporary file belongs to."""
    return f"ciga-{_host()}-{os.getpid()}-"


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in `folder`: files and folders half written by `ciga`."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _OURS.fullmatch(entry.name)
            if found is not None:
                with suppress(OSError):
                    if _abandoned(found[1], int(found[2]), entry.stat(follow_symlinks=False).st_mtime):
                        _remove(Path(entry.path))


def _abandoned(host: str, pid: int, written: float) -> bool:
    if time.time() - written > STALE_SECONDS:
        return True
    if host != _host() or os.name == "nt":  # Windows cannot be asked about a process without a risk to it
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Errors of the system about `path`, or about a temporary one in its place, as one sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileError):  # from a file inside of a folder
            raise FileError(_stand_in(path).sub(lambda _: str(path), str(error))) from error
        about = None if error.filename is None else os.fsdecode(error.filename)
        if about is None or _stand_in(path).match(about):
            raise FileError(os_sentence(error, path)) from error
        if Path(about) not in (path, path.parent):
            raise  # about another file that was read meanwhile
        raise FileError(os_sentence(error)) from error


def _stand_in(path: Path) -> re.Pattern[str]:
    """The temporary paths beside `path`."""
    beside = os.path.join(os.path.abspath(path.parent), f".{path.name}.ciga-")
    return re.compile(re.escape(beside) + r"[^/\\]*\.part")


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place if the block succeeds, and vanishes if not."""
    path = Path(path)
    with _telling(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        remove_leftovers(path.parent)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{_mark()}", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        with _telling(path):
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            # mkstemp makes private files; the result should be as readable as any other new file
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: str | Path, replace: bool = True) -> Iterator[Path]:
    """An empty folder beside `folder` that takes its place if the block succeeds, and vanishes if not.

    Two renames replace an older folder. Killed between them, a process leaves the older one aside, from where
    `recover` brings it back. Without `replace`, a folder that others wrote meanwhile stays.
    """
    folder = Path(os.path.realpath(folder))
    with _telling(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder.parent)
        name = tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.{_mark()}", suffix=".part")
    temporary = Path(name)
    try:
        with _telling(folder):
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            _exchange(temporary, folder, replace)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_writable(path: str | Path, is_file: bool = False) -> None:
    """Say now, before hours of work, that `path` cannot be written later."""
    path = Path(os.path.realpath(path))
    with _telling(path):
        if is_file and path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        os.rmdir(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.{_mark()}", suffix=".part"))


def _exchange(temporary: Path, folder: Path, replace: bool) -> None:
    for _ in range(10):  # others may be replacing it at the same time
        recover(folder)
        try:
            if replace:
                with suppress(FileNotFoundError):
                    os.rename(folder, _aside(folder))
            os.rename(temporary, folder)
        except OSError as error:
            recover(folder)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and temporary.exists():
                if replace:
                    continue
                return
            raise
        recover(folder)
        return
    raise FileError(f"Several processes are writing {folder} at once: wait for them, then try again.")


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.ciga-old")


def recover(folder: str | Path) -> None:
    """Finish what a process that was killed while it replaced `folder` had begun."""
    folder = Path(os.path.realpath(folder))
    aside = _aside(folder)
    with suppress(OSError):  # another process may do the same at the same time
        if not aside.is_dir():
            return
        if not folder.exists():
            os.rename(aside, folder)
            return
        # Renamed before it is removed, so that what lies aside is always whole.
        name = tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.{_mark()}", suffix=".part")
        os.rename(aside, name)
        shutil.rmtree(name, ignore_errors=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a while, in the system's place for such; those of killed processes are removed."""
    home = Path(tempfile.gettempdir())
    remove_leftovers(home)
    with tempfile.TemporaryDirectory(prefix=f".scratch.{_mark()}", suffix=".part", dir=home) as name:
        yield Path(name)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON, atomically."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> None:
    """Write one safetensors file, atomically; equal tensors and notes give equal bytes.

    The library's own `save_file` puts the notes in a random order, and reports a full disk in words only.
    """
    import torch

    plain = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    notes = {**meta, "sha256": content_hash(plain, meta)}
    header: dict[str, Any] = {"__metadata__": dict(sorted(notes.items()))}
    # Wide types first, so that each tensor lies where its type may be read.
    order = sorted(plain, key=lambda name: (-plain[name].element_size(), name))
    end = 0
    for name in order:
        tensor = plain[name]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        kind = _NAMES[str(tensor.dtype).removeprefix("torch.")]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with atomic(path) as temporary, temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for name in order:
            if plain[name].numel():
                file.write(plain[name].reshape(-1).view(torch.uint8).numpy().data)


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


#: torch's names of types, and safetensors'.
_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def map_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file as views of a read-on-demand memory map."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise CigaError(f"There is no file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (SafetensorError, LookupError, TypeError, ValueError, RuntimeError):  # whatever a header may say
        raise CigaError(f"{path} is damaged or cut short: delete it and make it again.") from None
