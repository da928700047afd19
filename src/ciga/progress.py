"""How anything that takes longer than a few seconds says how far it is."""

from __future__ import annotations

from collections.abc import Callable

#: `report(done, total, what)`: called now and then while work goes on.
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, what: str) -> None:
    """A progress report nobody sees."""
