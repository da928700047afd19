"""Seconds of jobs that take turns, and ratios of them.

Other processes disturb every measurement here. So a job is cut into pieces, and the jobs take turns piece by
piece: what disturbs one disturbs its neighbour, too. A ratio is formed within a piece from the process's own
CPU time; that of a round is the median over its pieces, the figure reported the median over the rounds, with
the smallest and the largest round beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

Job = Sequence[Callable[[], object]]  # its pieces


@dataclass
class Times:
    """Seconds of one job, by round and piece."""

    cpu: list[list[float]] = field(default_factory=list)
    wall: list[list[float]] = field(default_factory=list)

    def measure(self, piece: Callable[[], object]) -> None:
        """Add a piece to the last round."""
        wall, cpu = time.perf_counter(), time.process_time()
        piece()
        self.cpu[-1].append(time.process_time() - cpu)
        self.wall[-1].append(time.perf_counter() - wall)

    def next_round(self) -> None:
        self.cpu.append([])
        self.wall.append([])


def take_turns(jobs: Mapping[str, Job], repeat: int, warm: bool = True) -> dict[str, Times]:
    """Seconds of every job in every round; an unmeasured piece of each goes first.

    All jobs have equally many pieces.
    """
    for job in jobs.values() if warm else ():
        job[0]()
    out = {name: Times() for name in jobs}
    for _ in range(repeat):
        for times in out.values():
            times.next_round()
        for turn in zip(*jobs.values(), strict=True):
            for times, piece in zip(out.values(), turn, strict=True):
                times.measure(piece)
    return out


@dataclass
class Ratio:
    """One line of the table."""

    key: str
    value: float
    spread: tuple[float, float]  # smallest and largest over the rounds
    meaning: str
    aim: str = ""

    @classmethod
    def of(
        cls, key: str, over: Sequence[Sequence[float]], under: Sequence[Sequence[float]], meaning: str,
        aim: str = "",
    ) -> Ratio:  # fmt: skip
        """`over` / `under`, seconds by round and piece."""
        found = [
            median(a / b for a, b in zip(top, bottom, strict=True))
            for top, bottom in zip(over, under, strict=True)
        ]
        return cls(key, median(found), (min(found), max(found)), meaning, aim)


@dataclass
class Section:
    """What one part of the suite found."""

    ratios: list[Ratio] = field(default_factory=list)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)  # medians over rounds: cpu and wall
    skipped: dict[str, str] = field(default_factory=dict)  # what was not measured, and why
    extra: dict[str, object] = field(default_factory=dict)

    def note(self, prefix: str, found: Mapping[str, Times]) -> None:
        for name, times in found.items():
            by_clock = {"cpu": times.cpu, "wall": times.wall}
            self.seconds[f"{prefix}.{name}"] = {
                clock: median(sum(pieces) for pieces in rounds) for clock, rounds in by_clock.items()
            }
