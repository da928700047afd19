"""What to type after `ciga bench`, `ciga table` and `ciga figure`, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from ciga.cli.screen import next_step
from ciga.errors import counted

if TYPE_CHECKING:
    from ciga.bench.exhibit import Cell, Exhibit
    from ciga.bench.grid import Variation
    from ciga.runs.records import Config, Records


def advise_look(name: str, options: str) -> None:
    """How to see what a bench recorded; `options` say which part of it."""
    command = "figure" if name.startswith("figure") else "table"
    next_step(f"ciga {command} {name}{options}", "shows what came out")


def advise_table(
    shown: Any,
    result: Any,
    records: Records,
    cells: Sequence[Cell],
    seeds: Sequence[int],
    options: str,
) -> None:
    """What to type for the runs that are missing, and how long that takes.

    Args:
        shown: The table.
        result: What is recorded of it.
        records: The recorded runs.
        cells: What was asked for.
        seeds: The seeds that were asked for; the paper's if empty.
        options: Those that say which part of the table is meant.
    """
    from ciga.bench.slices import quick
    from ciga.errors import UsageError

    if not result.missing:
        next_step(f"ciga figure {shown.name}", "draws its scores, and how its methods rank")
        return

    def time(cells: Sequence[Cell], wanted: Sequence[int]) -> str:
        return _time(_missing(cells, result.variation, records, wanted), records)

    if result.missing == result.wanted:
        typer.echo(f"Nothing of {shown.name} is recorded here yet.", err=True)
        try:
            part = quick(shown)
            next_step(f"ciga bench {shown.name} --quick", f"{part.words}; {time(part.cells, part.seeds)}")
        except UsageError:
            pass
    next_step(f"ciga bench {shown.name}{options}", f"runs what is missing: {time(cells, seeds)}")


def advise_figure(
    shown: Exhibit,
    variation: Variation,
    records: Records,
    seeds: Sequence[int],
    datasets: Sequence[str],
    options: str,
) -> None:
    """After a figure: the numbers behind it, what its curves still lack, or the other figures.

    Args:
        shown: what was drawn.
        variation: of its runs.
        records: where they are.
        seeds: the seeds that were asked for; none means the exhibit's.
        datasets: likewise.
        options: those that say which runs are meant.
    """
    if shown.name.startswith("table"):
        next_step(f"ciga table {shown.name}{options}", "shows the numbers behind it")
        return
    todo = _missing(shown.cells((), datasets), variation, records, seeds)
    if todo:
        next_step(f"ciga bench {shown.name}{options}", f"runs what is missing: {_time(todo, records)}")
    else:
        next_step("ciga bench --list", "shows the other tables and figures")


def _missing(
    cells: Sequence[Cell], variation: Variation, records: Records, seeds: Sequence[int]
) -> list[Config]:
    """The runs of these cells that are not recorded."""
    from ciga.bench.grid import plans

    planned = [p.config for p in plans(variation.apply(cells), variation, seeds)]
    return [config for config in planned if records.find(config) is None]


def _time(todo: Sequence[Config], records: Records) -> str:
    """How many runs, and how long they take here."""
    from ciga.parallel import cores
    from ciga.runs.estimate import Estimate, hours

    took = hours(Estimate(records).total(todo) / cores())
    return f"{counted(len(todo), 'run')}, about {took} on {counted(cores(), 'core')}"
