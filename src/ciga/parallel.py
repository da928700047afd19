"""One function over many items, on all cores, in order; and processes that end with their parent."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ciga.files import scratch

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Callable[[int, int, str], None],
    what: str,
    workers: int | None = None,
    chunk: int = 64,
) -> list[Result]:
    """`[function(item) for item in items]` with worker processes, `chunk` items at a time.

    An exception in a worker is raised here, unchanged. With one worker, or items for one chunk only,
    everything runs in this process.

    The workers are loky's: fresh interpreters that neither inherit the threads of torch, as a fork would,
    nor run the caller's script again, as a spawn would, and each of them keeps to one thread. They end when
    this process ends, for whatever reason.

    Args:
        function: a top-level function, or a `functools.partial` of one.
        items: what it is called with.
        progress: called with (done, total, what) as chunks come in.
        what: the name of the work, for `progress`.
        workers: processes; else one per core.
        chunk: items at a time.
    """
    total = len(items)
    chunks = [items[start : start + chunk] for start in range(0, total, chunk)]
    workers = min(workers or cores(), len(chunks))
    progress(0, total, what)
    out: list[Result] = []
    if workers <= 1:
        for piece in chunks:
            out += _apply(function, piece)
            progress(len(out), total, what)
        return out
    from joblib import Parallel, delayed, parallel_config

    # joblib would leave its folder in shared memory when this process is killed: ours is removed by the next.
    with (
        scratch() as place,
        parallel_config(
            "loky",
            inner_max_num_threads=1,
            temp_folder=str(place),
            initializer=end_with_parent,
            initargs=(os.getpid(),),
        ),
    ):
        pool: Any = Parallel(n_jobs=workers, return_as="generator", batch_size=1, max_nbytes=None)
        for results in pool(delayed(_apply)(function, piece) for piece in chunks):
            out += results
            progress(len(out), total, what)
    return out


def cores() -> int:
    """The cores this process may use (containers and affinity respected)."""
    from joblib import cpu_count

    return int(cpu_count())


def end_with_parent(parent: int) -> None:
    """From now on, end this process within a second after the one that started it, however that ended."""

    def watch() -> None:
        while _is_parent(parent):
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _is_parent(process: int) -> bool:
    if sys.platform == "win32":  # there a parent's number stays when it has gone
        return alive(process)
    return os.getppid() == process


def alive(process: int) -> bool:
    """Is there a process of this number on this machine?"""
    if sys.platform == "win32":
        import ctypes

        handle = ctypes.windll.kernel32.OpenProcess(0x00100000, False, process)  # SYNCHRONIZE
        if not handle:
            return False
        ended = ctypes.windll.kernel32.WaitForSingleObject(handle, 0) == 0
        ctypes.windll.kernel32.CloseHandle(handle)
        return not ended
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _apply(function: Callable[[Item], Result], piece: Sequence[Item]) -> list[Result]:
    return [function(item) for item in piece]
