"""Every table and figure of the paper, read from `paper.toml`: what makes each cell, and what it prints."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from ciga.bench.exhibit import Cell, Column, Exhibit, Figure, PaperTable, Row, Statistics
from ciga.errors import UsageError, unknown


def exhibits() -> dict[str, Exhibit]:
    """Every table and figure by name."""
    from ciga.bench.paper_figures import figures

    tables: list[Exhibit] = [*tables_of_paper(), _statistics()]
    return {e.name: e for e in [*tables, *figures()]}


def exhibit(name: str, kind: str = "table") -> Exhibit:
    """The table or figure called `name`, or of this number in the paper; `kind` says which numbers."""
    known = exhibits()
    if name.isdecimal():
        found = [e for e in known.values() if e.name.startswith(kind) and int(name) in e.numbers]
        if not found:
            numbers = sorted(n for e in known.values() if e.name.startswith(kind) for n in e.numbers)
            said = ", ".join(map(str, numbers))
            raise UsageError(f"No command makes the paper's {kind} {name}: use {said}, or a name.")
        return found[0]
    name = next((n for n in (name, f"{kind}-{name}", f"figure-{name}") if n in known), name)
    if name not in known:
        raise unknown("table or figure", name, known)
    return known[name]


@cache
def source() -> dict[str, Any]:
    """`paper.toml` as it stands."""
    return tomllib.loads((files(__package__) / "paper.toml").read_text(encoding="utf-8"))


@cache
def rows() -> dict[str, Row]:
    """Every row a table may have, by key."""
    return {key: Row(key, **fields) for key, fields in source()["rows"].items()}


@cache
def tables_of_paper() -> tuple[PaperTable, ...]:
    return tuple(_table(dict(t)) for t in source()["table"])


def main_tables() -> list[PaperTable]:
    """The three tables of the main text: together they hold all sixteen datasets."""
    return [t for t in tables_of_paper() if t.average]


def common_methods() -> list[str]:
    """The rows that every main table has (the oracle aside)."""
    shared = set.intersection(*({r for r, _ in t.printed} for t in main_tables()))
    return [key for key, row in rows().items() if key in shared and row.group != "oracle"]


class Ranks(Figure):
    """The figure over all main tables: its experiments are theirs."""

    def cells(self, methods: Sequence[str] = (), datasets: Sequence[str] = ()) -> list[Cell]:
        """Of the main tables; each table knows the datasets that it has."""
        methods = methods or common_methods()
        tables = main_tables()
        names = {t.name: {n for c in t.columns for n in (c.key, c.dataset)} for t in tables}
        for name in datasets:
            if not any(name in known for known in names.values()):
                every = {n for known in names.values() for n in known}
                raise unknown("dataset of the main tables", name, every)
        found: list[Cell] = []
        for table in tables:
            wanted = [d for d in datasets if d in names[table.name]]
            found += table.cells(methods, wanted) if wanted or not datasets else []
        return found


def _twin(row: Row, preset: str) -> Row:
    """The same method from another preset."""
    key, label = f"{row.key}-{preset}", f"{row.label}, {preset}"
    return replace(row, key=key, label=label, preset=preset, extra=True, like=row.source)


def _table(raw: dict[str, Any]) -> PaperTable:
    metric, scale = raw.pop("metric"), raw.pop("scale")
    columns = tuple(Column(**{"metric": metric, "scale": scale, **c}) for c in raw.pop("columns"))
    own = [c for c in columns if not c.extra]
    numbers = raw.pop("printed", {})
    printed: dict[tuple[str, str], tuple[float, float | None]] = {}
    for key, cells in numbers.items():
        for column, cell in zip(own, cells, strict=True):
            if cell:
                printed[key, column.key] = (cell[0], cell[1] if len(cell) > 1 else None)
    extra = [rows()[key] for key in raw.pop("extra_rows", [])]
    shown = [rows()[key] for key in numbers]
    shown += [Row(key, **fields) for key, fields in raw.pop("study", {}).items()]
    added = [replace(row, extra=True) for row in extra]
    for preset in raw.pop("presets", []):
        # The oracle and the oracle at each bias differ in what the paper prints: they have the same twin.
        every = (r for r in (*extra[::-1], *shown[::-1]) if not r.preset)
        different = {str((r.method, r.settings, r.protocol)): r for r in every}
        added += [_twin(row, preset) for row in reversed(different.values())]
    seeds = tuple(range(1, raw.pop("seeds") + 1))
    order = ("baseline", "ours", "oracle")
    lines = tuple(sorted([*shown, *added], key=lambda row: order.index(row.group)))
    return PaperTable(rows=lines, columns=columns, seeds=seeds, printed=printed, **raw)


def _statistics() -> Statistics:
    from ciga.data.datasets.paper_stats import STATS

    seen = {c.dataset: c for t in main_tables() for c in t.columns if not c.extra}
    columns = tuple(seen[name] for name in STATS)
    return Statistics(
        "table-datasets",
        "Statistics of the datasets",
        "appendix (tab:datasets_stats_appdx, tab:datasets_stats_tu_appdx)",
        columns,
    )
