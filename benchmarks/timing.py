"""CPU seconds of jobs that take turns, and ratios of them.

Other processes disturb every measurement here. So jobs take turns, seconds are the process's own CPU time,
a ratio is formed within a round (what disturbs one job disturbs its neighbour, too), and the figure
reported is the median over the rounds, with the smallest and the largest beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

Seconds = dict[str, list[float]]


def take_turns(jobs: Mapping[str, Callable[[], object]], repeat: int, warm: bool = True) -> Seconds:
    """CPU seconds of every job in every round; an unmeasured round goes first."""
    for job in jobs.values() if warm else ():
        job()
    out: Seconds = {name: [] for name in jobs}
    for _ in range(repeat):
        for name, job in jobs.items():
            began = time.process_time()
            job()
            out[name].append(time.process_time() - began)
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
        cls, key: str, over: list[float], under: list[float], meaning: str, aim: str = "", scale: float = 1.0
    ) -> Ratio:
        """`scale` times `over` / `under`, round by round."""
        found = [scale * a / b for a, b in zip(over, under, strict=True)]
        return cls(key, median(found), (min(found), max(found)), meaning, aim)


@dataclass
class Section:
    """What one part of the suite found."""

    ratios: list[Ratio] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # medians
    skipped: dict[str, str] = field(default_factory=dict)  # what was not measured, and why
    extra: dict[str, object] = field(default_factory=dict)

    def note(self, prefix: str, seconds: Seconds) -> None:
        self.seconds |= {f"{prefix}.{name}": median(values) for name, values in seconds.items()}
