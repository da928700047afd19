"""Draw a table in a terminal: no wider than the window, and never a score that is cut."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text as Words

from ciga.bench.render import MISSING, Sheet, Text, comparison_sheets, to_sheet
from ciga.bench.tables import Result

WINNER, LOSER, QUIET, BROKEN = "bold green", "bold red", "dim italic", "red"


def draw_table(result: Result, console: Console, every: bool = False) -> None:
    """The table with its notes and comparisons; one decimal less where the window is narrow."""
    compact = console.width < 120
    draw_view(result.table.heading, to_sheet(result, compact), result.notes, console)
    for title, sheet, notes in comparison_sheets(result, every, compact):
        console.print(f"\n{title}", style="bold", highlight=False)
        draw_sheet(sheet, console)
        if every:
            _notes(notes, console)
        else:
            console.print(
                "P: the chance to be better, equal (within a point) or worse; p: signed-rank test, Holm (its "
                "floor); sets: datasets. --all explains, and shows every comparison.",
                style="dim",
                highlight=False,
            )


def draw_view(title: str, sheet: Sheet, notes: Sequence[str], console: Console) -> None:
    """A sheet under its title, with its notes.

    Args:
        title: Of the table.
        sheet: Its cells.
        notes: Lines below it.
        console: Where to print.
    """
    console.print(title, style="bold", highlight=False, markup=False)
    draw_sheet(sheet, console)
    _notes(notes, console)


def draw_sheet(sheet: Sheet, console: Console) -> None:
    """One sheet, in as many blocks side by side as the width asks for; each repeats the first column."""
    usual = Counter(t.seeds for line in sheet.lines for t in line if t.seeds is not None).most_common(1)
    seeds = usual[0][0] if usual else None
    cells = [[_styled(t, i in sheet.quiet, seeds) for t in line] for i, line in enumerate(sheet.lines)]
    header = [_fold(word) for word in sheet.header]
    widths = [
        max([max(map(len, header[j].split("\n"))), *(row[j].cell_len for row in cells)])
        for j in range(len(header))
    ]
    folded = [[_folded(row[0]), *row[1:]] for row in cells]
    narrow = max(len(header[0]), *(len(line) for row in folded for line in row[0].plain.split("\n")))
    if len(blocks([narrow, *widths[1:]], console.width)) < len(blocks(widths, console.width)):
        cells, widths[0] = folded, narrow  # rather a name on two lines than a second block for one column
    for block in blocks(widths, console.width):
        table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
        for j in block:
            table.add_column(header[j], justify="left" if j == 0 else "right", no_wrap=True)
        for i, row in enumerate(cells):
            if i in sheet.rules:
                table.add_section()
            table.add_row(*(row[j] for j in block))
        console.print(table)
    if len({t.seeds for line in sheet.lines for t in line if t.seeds is not None}) > 1:
        console.print(
            f"{seeds} seeds, unless [n] says otherwise.", style="dim", highlight=False, markup=False
        )


def blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns of each block; every block begins with the first one."""
    out: list[list[int]] = [[0]]
    left = room - widths[0] - 1
    for place, width in list(enumerate(widths))[1:]:
        if width + 1 > left and len(out[-1]) > 1:
            out.append([0])
            left = room - widths[0] - 1
        out[-1].append(place)
        left -= width + 1
    return out


def _styled(cell: Text, quiet: bool, usual: int | None) -> Words:
    seeds = "" if cell.seeds in (None, usual) else f" [{cell.seeds}]"
    if cell.words == "failed":
        return Words(cell.words, style=BROKEN)
    if cell.bold:
        style = LOSER if cell.worse else WINNER
    else:
        style = QUIET if quiet or cell.words == MISSING else ""
    return Words(cell.words, style=style) + Words(seeds, style="dim")


def _folded(name: Words) -> Words:
    """A long name on two lines: `Oracle` over `(IID)`."""
    return Words(re.sub(r" (?=\()|(?<=,) ", "\n ", name.plain, count=1), style=name.style)


def _fold(header: str) -> str:
    """A long header on two lines: `Drug-` over `Assay`."""
    for mark in (" ", "-"):
        first, found, rest = header.rpartition(mark)
        if found and len(header) > 7:
            return f"{first}{mark.strip()}\n{rest}"
    return header


def _notes(notes: Sequence[str], console: Console) -> None:
    for note in notes:
        console.print(f"• {note}", style="dim", highlight=False, markup=False)
