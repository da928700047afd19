"""What a user did wrong, said in one sentence that tells what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CigaError(Exception):
    """A mistake of the user's or of their data: the command line prints it without a traceback."""


class UsageError(CigaError):
    """A wrong name or argument (exit code 2)."""


class MissingExtra(CigaError):
    """A heavy dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"This needs {package}: install it with  pip install 'ciga[{extra}]'.")

    def __reduce__(self) -> tuple[type[CigaError], tuple[object, ...]]:
        # From a worker process it arrives as its sentence: it cannot be made again from that alone.
        return CigaError, self.args


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """An error for a name nobody knows, with the nearest known ones."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known) or 'none'}."
    return UsageError(f"There is no {kind} called '{name}'. {hint}")
