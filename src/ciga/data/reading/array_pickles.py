"""One array out of a pickle that others publish, read without Python's pickle machine.

A pickle is a small program that may call any function. This reader follows only the few instructions that
describe an array of numbers: names are compared and never looked up, nothing is called or built on behalf of
the file, and a type of numbers comes from a fixed list. Everything else is refused.
"""

from __future__ import annotations

import io
import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ciga.errors import CigaError

Array = np.ndarray[Any, np.dtype[Any]]

#: Types of numbers as NumPy writes them, and torch's storages.
DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")
STORAGES = {
    "HalfStorage": "f2", "FloatStorage": "f4", "DoubleStorage": "f8", "CharStorage": "i1",
    "ShortStorage": "i2", "IntStorage": "i4", "LongStorage": "i8", "ByteStorage": "u1", "BoolStorage": "b1",
}  # fmt: skip
ORDERS = ("<", ">", "=", "|")
MOST_DIMENSIONS = 32


class _RefusedError(Exception):
    """The pickle asks for something that is not part of an array."""


@dataclass(frozen=True)
class _Name:
    """`module.name`, as the file writes it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def _name(module: Any, name: Any) -> _Name:
    if not isinstance(module, str) or not isinstance(name, str):
        raise _RefusedError("a name that is not text")
    return _Name(module, name)


@dataclass
class _Type:
    """A type of numbers: one of `DTYPES`, and its byte order."""

    kind: str
    order: str = "="

    def numpy(self) -> np.dtype[Any]:
        if self.kind not in DTYPES or self.order not in ORDERS:
            raise _RefusedError(f"the type {self.kind[:20]!r}")
        return np.dtype(f"{'' if self.order == '|' else self.order}{self.kind}")


@dataclass
class _Box:
    """Something the file builds in two steps; its value comes with the second."""

    value: Any = None


def read_array_pickle(path: Path) -> Array:
    """The one NumPy array or torch tensor in a pickle file; anything but an array in it is refused."""
    try:
        value = _content(_load(io.BytesIO(path.read_bytes())))
    except _RefusedError as error:
        raise CigaError(f"{path} is refused: it asks for {error}, which no array needs.") from None
    except OSError:
        raise
    except Exception as error:  # whatever a damaged file can lead to
        raise CigaError(f"{path} is cut short or damaged ({type(error).__name__}): get it again.") from error
    if not isinstance(value, np.ndarray):
        raise CigaError(
            f"{path} holds a {type(value).__name__} instead of an array of numbers: get it again."
        )
    return value


# ---------------------------------------------------------------- the instructions


def _load(file: io.BytesIO) -> Any:
    """The value that a pickle describes; the file is left at its end."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}

    def since_mark() -> list[Any]:
        start = marks.pop()
        items = stack[start:]
        del stack[start:]
        return items

    opcode: Any
    argument: Any
    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        if name in _PLAIN:
            stack.append(argument)
        elif name in _CONSTANT:
            stack.append(_CONSTANT[name]())
        elif name == "MARK":
            marks.append(len(stack))
        elif name in ("TUPLE", "LIST"):
            stack.append(tuple(since_mark()))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif name in ("SETITEM", "SETITEMS", "APPEND", "APPENDS", "DICT"):
            # Only torch's remarks on itself are kept in such a thing: nothing that is needed.
            if name.endswith("S") or name == "DICT":
                since_mark()
            else:
                del stack[-2 if name == "SETITEM" else -1 :]
            if name == "DICT":
                stack.append({})
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(_Name(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            stack[-2:] = [_name(*stack[-2:])]
        elif name == "REDUCE":
            function, arguments = stack[-2:]
            stack[-2:] = [_called(function, arguments)]
        elif name == "BUILD":
            target, state = stack[-2:]
            _set(target, state)
            stack.pop()
        elif name == "STOP":
            return stack.pop()
        elif name not in ("PROTO", "FRAME"):
            raise _RefusedError(f"the instruction {name}")
    raise EOFError


_PLAIN = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_CONSTANT: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}


# ---------------------------------------------------------------- what they may describe


def _called(function: Any, arguments: tuple[Any, ...]) -> Any:
    """What the file means by calling this name; the name itself is never looked up."""
    known = _MEANINGS.get((function.module, function.name)) if isinstance(function, _Name) else None
    if known is None:
        # No other value is shown: a nested one may be longer than memory when it is written out.
        raise _RefusedError(str(function)[:80] if isinstance(function, _Name) else "a call of no name")
    return known(*arguments)


def _type_of(kind: Any, *_: Any) -> _Type:
    if not isinstance(kind, str):
        raise _RefusedError("a type of numbers without a name")
    return _Type(kind)


def _set(target: Any, state: Any) -> None:
    """The second step: the byte order of a type, or the shape and the bytes of an array."""
    if isinstance(target, _Type) and isinstance(state, tuple):
        _, target.order, *rest = state
        if any(part not in (None, -1, 0) for part in rest):
            raise _RefusedError("a type with fields")
    elif isinstance(target, _Box):
        _, shape, kind, columns_first, raw = state
        target.value = _array(raw, kind, shape, "F" if columns_first else "C")
    else:
        raise _RefusedError("the state of another thing")


def _array(raw: Any, kind: Any, shape: Any, order: Any = "C") -> Array:
    """Bytes as an array, if they are as many as its shape says."""
    if not isinstance(kind, _Type):
        raise ValueError("not an array")
    content = raw.encode("latin1") if isinstance(raw, str) else raw
    if not isinstance(content, bytes | bytearray):
        raise ValueError("an array without bytes")
    dtype = kind.numpy()
    if not _counts(shape) or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError("the bytes do not fit the shape")
    array = np.frombuffer(content, dtype).reshape(shape, order="F" if order == "F" else "C")
    return array.astype(dtype.newbyteorder("="), copy=True)


def _counts(shape: Any) -> bool:
    """Whether this is a short tuple of whole numbers from 0 on."""
    return (
        isinstance(shape, tuple)
        and len(shape) <= MOST_DIMENSIONS
        and all(type(length) is int and length >= 0 for length in shape)
    )


def _content(value: Any) -> Any:
    return value.value if isinstance(value, _Box) else value


def _latin1(text: Any, encoding: Any) -> bytes:
    """How old pickles write bytes."""
    if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
        raise _RefusedError("another codec than Latin-1")
    return text.encode("latin1")


def _storage(raw: bytes) -> Array:
    """The numbers of a tensor: a file within the file: five small pickles, a count and bytes."""
    file = io.BytesIO(raw)
    remarks = [_load_storage(file) for _ in range(5)]
    kind = remarks[3]
    if not isinstance(kind, _Type):
        raise ValueError("not a storage")
    count = int.from_bytes(file.read(8), "little")
    rest = file.read()
    return _array(rest, kind, (count,))


def _load_storage(file: io.BytesIO) -> Any:
    """One pickle of such a file; a storage in it is a name for a type of numbers."""
    start = file.tell()
    names = []
    argument: Any
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name == "GLOBAL":
            names.append(_Name(*argument.split(" ", 1)))
        elif opcode.name in ("REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "STACK_GLOBAL"):
            raise _RefusedError("a call within a tensor")
    if not names:
        return None
    if len(names) != 1 or names[0].module != "torch" or names[0].name not in STORAGES:
        raise _RefusedError(f"{names[0]} at byte {start} of a tensor"[:100])
    return _Type(STORAGES[names[0].name], "<")


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Array:
    """A tensor: its storage, seen from `offset` on."""
    if not isinstance(storage, np.ndarray) or not (_counts(size) and _counts(stride) and _counts((offset,))):
        raise ValueError("not a tensor")
    dense, expected = 1, []
    for length in reversed(size):
        expected.append(dense)
        dense *= length
    if expected[::-1] != list(stride):
        raise ValueError("a tensor that is not contiguous")
    if offset + dense > storage.size:
        raise ValueError("a tensor beyond its storage")
    return storage[offset : offset + dense].reshape(size)


def _nothing(*arguments: Any) -> Any:
    """An empty thing: `bytes()` of old pickles, or the hooks of a tensor."""
    if arguments:
        raise _RefusedError("a filled container")
    return b""


_MEANINGS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _type_of,
    ("_codecs", "encode"): _latin1,
    ("builtins", "bytes"): _nothing,
    ("__builtin__", "bytes"): _nothing,
    ("collections", "OrderedDict"): _nothing,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,
}
for _core in ("numpy.core", "numpy._core"):  # NumPy 1, NumPy 2
    _MEANINGS[f"{_core}.multiarray", "_reconstruct"] = lambda *_: _Box()
    _MEANINGS[f"{_core}.numeric", "_frombuffer"] = _array
