"""How anything that takes longer than a few seconds says how far it is."""

from __future__ import annotations

from collections.abc import Callable

#: `report(done, total, what)`: called now and then while work goes on.
Progress = Callable[[int, int, str], None]


class AtMost(int):
    """A total that may turn out smaller: of epochs, where early stopping may end them."""

    def __str__(self) -> str:
        return f"at most {int(self)}"


def silent(done: int, total: int, what: str) -> None:
    """A progress report nobody sees."""
