"""Which recorded runs a picture is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ciga.bench.grid import Variation
from ciga.bench.tables import DEFAULT
from ciga.runs.records import Records


@dataclass(frozen=True)
class Chosen:
    """Records, and what of them counts."""

    records: Records
    variation: Variation  # how the runs differ from the paper's
    select: str = DEFAULT  # the rule that chooses the epoch
    seeds: Sequence[int] = ()  # only these; the paper's if empty
    datasets: Sequence[str] = ()  # only these; all of them if empty
