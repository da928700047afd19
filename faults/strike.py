"""Faults on purpose: a process that is killed, or a disk that is full, at its n-th change of a disk.

Python announces every file operation to audit hooks before it happens, and a hook may end the process or
raise. That makes the moment of a fault repeatable. A hook cannot be taken away again, so each attempt is a
process of its own.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Operations that change a disk; opening a file to write is another.
EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link"}
#: The exit code of a process that `kill` ended.
KILLED = 9
SIGNALS = {"term": signal.SIGTERM, "int": signal.SIGINT}
DISKS = {"full": errno.ENOSPC, "read-only": errno.EROFS}


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


def strike_at(place: int, below: str | Path, fault: str) -> None:
    """From now on, in this process: `fault` at the change number `place` (from 1) below a folder.

    `kill`, `term` and `int` are signals to this process. `full` and `read-only` raise from then on, as a disk
    in that state does. `count` only counts, into a file `changes` in that folder.
    """
    seen = 0
    root = os.path.realpath(below)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if not _changes(event, arguments, root):
            return
        seen += 1
        if fault == "count":
            os.write(counter, b".")
        elif seen == place and fault == "kill":
            os._exit(KILLED)
        elif seen == place and fault in SIGNALS:
            os.kill(os.getpid(), SIGNALS[fault])
        elif seen >= place and fault in DISKS and event not in ("os.remove", "os.rmdir"):
            code = DISKS[fault]
            raise OSError(code, os.strerror(code), os.fsdecode(arguments[0]))

    if fault == "count":
        counter = os.open(f"{root}.changes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.addaudithook(hook)


def from_environment() -> None:
    """Install the fault that `CIGA_FAULT` describes: for processes that a process under attack starts."""
    said = os.environ.get("CIGA_FAULT")
    if said:
        fault, place, below = said.split(":", 2)
        strike_at(int(place), below, fault)


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
