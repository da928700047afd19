"""Tables as a terminal shows them: whole scores at any width."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from ciga.bench.exhibit import PaperTable
from ciga.bench.paper import exhibit
from ciga.bench.screen import blocks, draw_table
from ciga.bench.tables import fill
from ciga.runs.records import Records

COLUMNS = [f"spmotif-{k}-{b}" for k in ("struc", "mixed") for b in ("0.33", "0.60", "0.90")]


def drawn(table: PaperTable, records: Records, width: int, colour: bool = False, every: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, color_system="standard" if colour else None
    )
    draw_table(fill(table, records, also=None if every else ()), console, every)
    return out.getvalue()


def test_blocks_repeat_the_first_column() -> None:
    assert blocks([10, 5, 5, 5], 80) == [[0, 1, 2, 3]]
    assert blocks([10, 5, 5, 5], 23) == [[0, 1, 2], [0, 3]]
    assert blocks([10, 50, 5], 20) == [[0, 1], [0, 2]]  # wider than the window: alone


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_score_is_cut(width: int, book: Callable[..., Records]) -> None:
    table = exhibit("table-spmotif")
    assert isinstance(table, PaperTable)
    clean = [f"{c}-clean" for c in COLUMNS]
    scores = {(row, c): [0.5, 0.6, 0.7] for row in ("erm", "cnc", "ciga-v2") for c in (*COLUMNS, *clean)}
    scores["ciga-v2", COLUMNS[0]] = [0.9, 0.91, 0.92]
    text = drawn(table, book(table, scores), width, every=True)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert text.count("91.00 (1.00)" if width >= 120 else "91.0±1.0") == 1
    assert "71.07 (3.60)" in text or "71.1±3.6" in text
    assert "P better" in text or "better" in text


def test_table_one_is_one_block_in_80_columns(book: Callable[..., Records]) -> None:
    """`Oracle (IID)` was two letters too long, and the ranks stood in a second block below."""
    table = exhibit("table-spmotif")
    assert isinstance(table, PaperTable)
    lines = drawn(table, book(table, {("erm", COLUMNS[0]): [0.5] * 3}), 80).splitlines()
    assert [line.split()[0] for line in lines if line.split()[-1:] == ["Rank"]] == ["method"]
    assert any(line.startswith("Oracle  ") for line in lines)
    wide = drawn(table, book(table, {("erm", COLUMNS[0]): [0.5] * 3}), 200)
    assert "Oracle (IID)" in wide


def test_colour_is_for_the_winner_of_three_seeds(
    book: Callable[..., Records], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = exhibit("table-spmotif")
    assert isinstance(table, PaperTable)
    scores = {("erm", COLUMNS[0]): [0.5] * 3, ("cnc", COLUMNS[0]): [0.8] * 3, ("dir", COLUMNS[0]): [0.9] * 2}
    records = book(table, scores)
    text = drawn(table, records, 80, colour=True)
    assert "\x1b[1;32m80.0±0.0" in text.replace(" ", "")
    assert "\x1b[1;32m90.0" not in text.replace(" ", "")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;32m" not in drawn(table, records, 80, colour=True)
