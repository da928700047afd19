"""Faults on purpose: a process that dies, or a disk that is full, at its n-th file operation.

Python announces every file operation to audit hooks before it happens, and a hook may end the process or
raise. A hook cannot be taken away again, so each attempt is a child process.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Operations that change a disk.
EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link"}
KILLED = 9


def _changes(event: str, arguments: tuple[Any, ...], below: str) -> bool:
    writes = event in EVENTS or (event == "open" and _writing(arguments))
    if not writes or not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return False
    return os.path.realpath(os.fsdecode(arguments[0])).startswith(below)


def _writing(arguments: tuple[Any, ...]) -> bool:
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def strike_at(place: int, below: Path, fault: str) -> None:
    """From now on, in this process: `fault` at the change number `place` (from 1) below a folder.

    `kill` ends the process at once; `full` and `read-only` raise from then on, as a disk in that state does.
    """
    seen = 0
    root = os.path.realpath(below)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if not _changes(event, arguments, root):
            return
        seen += 1
        if seen < place or (fault != "kill" and event in ("os.remove", "os.rmdir")):
            return
        if fault == "kill":
            os._exit(KILLED)
        code = errno.ENOSPC if fault == "full" else errno.EROFS
        raise OSError(code, os.strerror(code), os.fsdecode(arguments[0]))

    sys.addaudithook(hook)


def in_child(work: Callable[[], object], *, place: int, below: Path, fault: str) -> tuple[int, str]:
    """Do `work` in a forked child with a fault; its exit code (0 when it finished) and the error's text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code, text = 1, ""
        with suppress(BaseException):
            os.close(read)
            strike_at(place, below, fault)
            try:
                work()
                code = 0
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                if "-v" in sys.argv:
                    traceback.print_exc()
            os.write(write, text.encode())
        os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def until_it_succeeds(work: Callable[[], object], below: Path, fault: str) -> Iterator[tuple[int, int, str]]:
    """(place, exit code, error) for a fault at the first change, the second, … until `work` finishes."""
    for place in range(1, 1000):
        code, text = in_child(work, place=place, below=below, fault=fault)
        yield place, code, text
        if code == 0:
            return
    raise AssertionError("a thousand operations, and no end")
