"""One function over many items, on all cores, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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

    `function` is a top-level function (or a `functools.partial` of one). `progress(done, total, what)` is
    called as chunks come in. An exception in a worker is raised here, unchanged. With one worker, or items
    for one chunk only, everything runs in this process.

    The workers are loky's: fresh interpreters that neither inherit the threads of torch, as a fork would,
    nor run the caller's script again, as a spawn would, and each of them keeps to one thread.
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

    with parallel_config("loky", inner_max_num_threads=1):
        pool: Any = Parallel(n_jobs=workers, return_as="generator", batch_size=1, max_nbytes=None)
        for results in pool(delayed(_apply)(function, piece) for piece in chunks):
            out += results
            progress(len(out), total, what)
    return out


def cores() -> int:
    """The cores this process may use (containers and affinity respected)."""
    from joblib import cpu_count

    return int(cpu_count())


def _apply(function: Callable[[Item], Result], piece: Sequence[Item]) -> list[Result]:
    return [function(item) for item in piece]
