"""Every table and figure of the paper, read from `paper.toml`: what makes each cell, and what it prints."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ciga.errors import unknown

#: Metrics of a record that are not among `ciga.metrics`: less of them is better.
SECONDS = "seconds_per_epoch"


@dataclass(frozen=True)
class Cell:
    """One experiment, to be repeated with several seeds."""

    dataset: str
    method: str
    seeds: tuple[int, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = "ood"
    preset: str = ""  # empty: whatever the user starts from

    def __str__(self) -> str:
        given = ", ".join(f"{k}={v}" for k, v in {**self.data, **self.settings}.items())
        kind = " (IID)" if self.protocol == "iid" else f" ({self.preset})" if self.preset else ""
        return f"{self.method}{kind} on {self.dataset}" + (f" ({given})" if given else "")


@dataclass(frozen=True)
class Row:
    """A method as a table shows it; `group` is baseline, ours or oracle."""

    key: str
    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = "ood"
    preset: str = ""
    group: str = "baseline"
    extra: bool = False  # ours to add, not in the paper


@dataclass(frozen=True)
class Column:
    """A dataset and a metric; what is shown is `scale` times the metric."""

    key: str
    label: str
    dataset: str
    metric: str
    scale: float
    data: Mapping[str, Any] = field(default_factory=dict)
    extra: bool = False


@dataclass(frozen=True)
class Table:
    """Methods by datasets, and the paper's own numbers: (mean, std or None) by row and column key."""

    name: str
    title: str
    source: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    seeds: tuple[int, ...]
    printed: Mapping[tuple[str, str], tuple[float, float | None]]
    printed_average: Mapping[str, float] = field(default_factory=dict)
    printed_rank: Mapping[str, float] = field(default_factory=dict)
    average: bool = False
    ranks: bool = False
    row_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def cell(self, row: Row, column: Column) -> Cell | None:
        """The experiment of one cell; None where the paper leaves it out."""
        if not (row.extra or column.extra or (row.key, column.key) in self.printed):
            return None
        data = {**column.data, **self.row_data.get(row.key, {})}
        return Cell(column.dataset, row.method, self.seeds, data, row.settings, row.protocol, row.preset)

    def select(
        self, methods: Sequence[str] = (), datasets: Sequence[str] = (), extra: Iterable[Row] = ()
    ) -> tuple[list[Row], list[Column]]:
        """The rows and columns of these names (keys, methods, datasets, or `all`); by default the paper's.

        `extra` rows are the user's own: they stand in the table whatever names were asked for.
        """
        added = list(extra)
        rows = _named("method of this table", self.rows, methods, lambda r: (r.key, r.method))
        columns = _named("dataset of this table", self.columns, datasets, lambda c: (c.key, c.dataset))
        return [*rows, *added], columns

    def cells(self, methods: Sequence[str] = (), datasets: Sequence[str] = ()) -> list[Cell]:
        """The experiments behind the selected part of the table."""
        rows, columns = self.select(methods, datasets)
        found = [self.cell(row, column) for column in columns for row in rows]
        return [cell for cell in found if cell is not None]


@dataclass(frozen=True)
class Line:
    """A curve: for each x an experiment."""

    label: str
    points: tuple[tuple[float, Cell], ...]


@dataclass(frozen=True)
class Panel:
    key: str
    title: str
    x: str  # what the axis is called
    metric: str
    scale: float
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Sheet:
    """One picture file of a figure."""

    key: str
    title: str
    panels: tuple[Panel, ...] = ()
    cell: Cell | None = None  # for pictures of graphs: the model that is looked at


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    source: str
    kind: str  # lines, motifs/molecules pictures ("subgraphs") or "ranks"
    sheets: tuple[Sheet, ...] = ()
    examples: int = 0

    def cells(self, methods: Sequence[str] = (), datasets: Sequence[str] = ()) -> list[Cell]:
        """The experiments behind this figure."""
        if self.kind == "ranks":
            return [c for t in main_tables() for c in t.cells(methods or common_methods(), datasets)]
        points = [c for s in self.sheets for p in s.panels for line in p.lines for _, c in line.points]
        points += [s.cell for s in self.sheets if s.cell is not None]
        chosen = _named("method of this figure", points, methods, lambda c: (c.method,))
        return _named("dataset of this figure", chosen, datasets, lambda c: (c.dataset,))


@dataclass(frozen=True)
class Statistics:
    """The table of the datasets themselves: nothing is trained for it."""

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]

    def cells(self, methods: Sequence[str] = (), datasets: Sequence[str] = ()) -> list[Cell]:
        return []


Exhibit = Table | Figure | Statistics


def exhibits() -> dict[str, Exhibit]:
    """Every table and figure by name."""
    tables: list[Exhibit] = [*tables_of_paper(), _statistics()]
    return {e.name: e for e in [*tables, *_figures()]}


def exhibit(name: str) -> Exhibit:
    """The table or figure called `name`."""
    known = exhibits()
    if name not in known:
        raise unknown("table or figure", name, known)
    return known[name]


@cache
def _source() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "paper.toml").read_text(encoding="utf-8"))


@cache
def rows() -> dict[str, Row]:
    """Every row a table may have, by key."""
    return {key: Row(key, **fields) for key, fields in _source()["rows"].items()}


@cache
def tables_of_paper() -> tuple[Table, ...]:
    return tuple(_table(dict(t)) for t in _source()["table"])


def main_tables() -> list[Table]:
    """The three tables of the main text: together they hold all sixteen datasets."""
    return [t for t in tables_of_paper() if t.average]


def common_methods() -> list[str]:
    """The rows that every main table has (the oracle aside)."""
    shared = set.intersection(*({r for r, _ in t.printed} for t in main_tables()))
    return [key for key, row in rows().items() if key in shared and row.group != "oracle"]


def _table(raw: dict[str, Any]) -> Table:
    metric, scale = raw.pop("metric"), raw.pop("scale")
    columns = tuple(Column(**{"metric": metric, "scale": scale, **c}) for c in raw.pop("columns"))
    own = [c for c in columns if not c.extra]
    numbers = raw.pop("printed")
    printed: dict[tuple[str, str], tuple[float, float | None]] = {}
    for key, cells in numbers.items():
        for column, cell in zip(own, cells, strict=True):
            if cell:
                printed[key, column.key] = (cell[0], cell[1] if len(cell) > 1 else None)
    extra = [rows()[key] for key in raw.pop("extra_rows", [])]
    shown = [rows()[key] for key in numbers]
    added = [Row(**{**vars(row), "extra": True}) for row in extra]
    seeds = tuple(range(1, raw.pop("seeds") + 1))
    order = ("baseline", "ours", "oracle")
    lines = tuple(sorted([*shown, *added], key=lambda row: order.index(row.group)))
    return Table(rows=lines, columns=columns, seeds=seeds, printed=printed, **raw)


def _statistics() -> Statistics:
    from ciga.data.paper_stats import STATS

    seen = {c.dataset: c for t in main_tables() for c in t.columns}
    columns = tuple(seen[name] for name in STATS)
    return Statistics(
        "table-datasets",
        "Statistics of the datasets",
        "appendix (tab:datasets_stats_appdx, tab:datasets_stats_tu_appdx)",
        columns,
    )


# ---------------------------------------------------------------- figures


@cache
def _figures() -> tuple[Figure, ...]:
    return (_failure(), _sensitivity("alpha"), _sensitivity("beta"), _subgraphs(), _ranks())


def _failure() -> Figure:
    raw = _source()["failure"]
    seeds = tuple(range(1, raw["seeds"] + 1))

    def line(sheet: dict[str, Any], kind: str, spec: dict[str, Any]) -> Line:
        dataset = "failure-struc" if kind == "Struc" else sheet["mixed"]
        points = []
        for bias in raw["biases"]:
            data = {"bias": bias, "size_shift": sheet["size_shift"], **raw["data"]}
            points.append((bias, Cell(dataset, spec["method"], seeds, data, spec.get("settings", {}))))
        return Line(f"{kind}-{spec['label']}", tuple(points))

    sheets = []
    for sheet in raw["figures"]:
        panels = []
        for panel in raw["panels"]:
            lines = tuple(line(sheet, kind, spec) for kind in ("Struc", "Mixed") for spec in panel["lines"])
            panels.append(Panel(panel["key"], panel["title"], "bias", "accuracy", 100, lines))
        sheets.append(Sheet(sheet["key"], sheet["title"], tuple(panels)))
    return Figure(
        "figure-failure",
        "Failures of existing objectives and architectures",
        "appendix (fig:good_fail_*_appdx): 4 figures of 3 panels",
        "lines",
        tuple(sheets),
    )


def _sensitivity(name: str) -> Figure:
    """CIGAv1 over alpha; CIGAv2 over beta at a fixed alpha."""
    raw = _source()["sensitivity"]
    method, label = ("ciga-v1", "CIGAv1") if name == "alpha" else ("ciga-v2", "CIGAv2")
    panels = []
    for spec in raw["panels"]:
        fixed = {} if name == "alpha" else {"alpha": spec["alpha"]}
        seeds = tuple(range(1, spec["seeds"] + 1))
        points = tuple(
            (x, Cell(spec["dataset"], method, seeds, spec.get("data", {}), {**fixed, name: x}))
            for x in raw["grid"]
        )
        title = spec["title"] + "".join(f", {k} = {v}" for k, v in fixed.items())
        panels.append(
            Panel(spec["dataset"], title, name, spec["metric"], spec["scale"], (Line(label, points),))
        )
    weight = "contrastive loss" if name == "alpha" else "hinge loss"
    sheet = Sheet(name, f"Sensitivity to {name}, the weight of the {weight}", tuple(panels))
    return Figure(f"figure-{name}", sheet.title, f"fig:hp_sen_{name}", "lines", (sheet,))


def _subgraphs() -> Figure:
    raw = _source()["subgraphs"]
    sheets = [
        Sheet(s["key"], s["title"], cell=Cell(s["dataset"], raw["method"], (1,), s.get("data", {})))
        for s in [*raw["motifs"], *raw["molecules"]]
    ]
    return Figure(
        "figure-subgraphs",
        "What CIGAv2 keeps of a graph",
        "appendix (fig:spmotif_b6_appdx to fig:size_viz_inact_appdx)",
        "subgraphs",
        tuple(sheets),
        raw["examples"],
    )


def _ranks() -> Figure:
    return Figure(
        "figure-ranks",
        "Average ranks over the sixteen datasets, with their critical difference",
        "ours, from the paper's three main tables",
        "ranks",
    )


def _named(kind: str, things: Iterable[Any], wanted: Sequence[str], names: Any) -> list[Any]:
    """The things one of whose names was asked for; without a wish, those that are not `extra`."""
    things = list(things)
    if not wanted:
        return [t for t in things if not getattr(t, "extra", False)]
    if list(wanted) == ["all"]:
        return things
    if list(wanted) == ["none"]:  # only what the user adds
        return []
    known = {name for t in things for name in names(t)}
    for name in wanted:
        if name not in known:
            raise unknown(kind, name, known)
    # A key names one thing, and wins over the method or dataset of that name that several share.
    keys = {names(t)[0] for t in things}
    return [t for t in things if any(w == names(t)[0] or (w not in keys and w in names(t)) for w in wanted)]
