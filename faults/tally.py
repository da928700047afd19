"""What an attack found: tries, what survived, and the three numbers that must be zero."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

#: How an attempt may end. The last three fail the attack.
OUTCOMES = ("survived", "lost", "silent", "traceback")


@dataclass
class Tally:
    """The outcomes of one kind of attack.

    lost: something is gone, does not work again, hangs, dies or asks for memory without a limit.
    silent: it ended as if all were well, with another result.
    traceback: the user is shown the inside of the program instead of a sentence.
    """

    attack: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    notes: list[str] = field(default_factory=list)
    peak_mb: float = 0.0
    seconds: float = 0.0

    def add(self, outcome: str, note: str = "") -> None:
        self.counts[outcome] += 1
        if outcome != "survived":
            self.notes.append(f"{self.attack}: {outcome}: {note}")
            print(self.notes[-1][:400], file=sys.stderr, flush=True)

    @property
    def tries(self) -> int:
        return sum(self.counts.values())

    @property
    def sound(self) -> bool:
        return self.tries == self.counts["survived"]


def judged(err: str) -> bool:
    """Does this output show the inside of the program?"""
    return "Traceback (most recent call last)" in err or "Segmentation fault" in err


def table(tallies: Sequence[Tally]) -> str:
    """One line per attack, and their sum."""
    head = ("attack", "tries", "survived", "lost", "silent", "tracebacks", "seconds")
    rows = [_row(t.attack, t, t.seconds) for t in tallies]
    whole = Tally("all")
    for tally in tallies:
        for outcome, count in tally.counts.items():
            whole.counts[outcome] += count
    rows.append(_row("all", whole, sum(t.seconds for t in tallies)))
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _row(name: str, tally: Tally, seconds: float) -> tuple[str, ...]:
    counts = [f"{tally.counts[outcome]:,}" for outcome in OUTCOMES]
    return (name, f"{tally.tries:,}", *counts, f"{seconds:.0f}")
