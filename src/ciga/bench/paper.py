"""Every table and figure of the paper, read from `paper.toml`: what makes each cell, and what it prints."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ciga.errors import UsageError, unknown
from ciga.runs.spec import RunSpec

#: Metrics of a record that are not among `ciga.scoring.metrics`: less of them is better.
SECONDS = "seconds_per_epoch"


@dataclass(frozen=True)
class Cell(RunSpec):
    """One experiment: a run that is repeated with several seeds; no preset means the user's."""

    seeds: tuple[int, ...] = (1,)

    def with_seed(self, seed: int, preset: str = "", plugins: tuple[str, ...] = ()) -> RunSpec:
        """One run of it."""
        run = {f.name: getattr(self, f.name) for f in fields(RunSpec)}
        return RunSpec(**{**run, "seed": seed, "preset": self.preset or preset, "plugins": plugins})


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
    like: str = ""  # the paper's row to be set beside it, if not its own

    @property
    def source(self) -> str:
        """The key of the paper's row."""
        return self.like or self.key


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
class PaperTable:
    """Methods by datasets, and the paper's own numbers: (mean, std or None) by row and column key.

    A study of ours has no such numbers: all its cells are experiments.
    """

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
    numbers: Sequence[int] = ()  # in the paper
    quick: Mapping[str, Any] = field(default_factory=dict)  # see `ciga.bench.slices`

    @property
    def heading(self) -> str:
        """What it shows, and where it stands in the paper."""
        return f"{self.title}. Paper: {self.source}" if self.printed else f"{self.title}. {self.source}"

    def cell(self, row: Row, column: Column) -> Cell | None:
        """The experiment of one cell; None where the paper leaves it out."""
        if self.printed and not (row.extra or column.extra or (row.key, column.key) in self.printed):
            return None
        # A dataset of the user's own need not have the options by which a row differs.
        data = {**column.data, **(self.row_data.get(row.key, {}) if column in self.columns else {})}
        return Cell(
            column.dataset,
            row.method,
            data=data,
            settings=row.settings,
            preset=row.preset,
            protocol=row.protocol,
            seeds=self.seeds,
        )

    def select(
        self, methods: Sequence[str] = (), datasets: Sequence[str] = (), own: Own | None = None
    ) -> tuple[list[Row], list[Column]]:
        """The rows and columns of these names (keys, methods, datasets, or `all`); by default the paper's.

        The user's `own` stand in the table whatever names were asked for.
        """
        own = own or Own()
        own.check(self)
        rows = _named("method of this table", self.rows, methods, lambda r: (r.key, r.method))
        columns = _named("dataset of this table", self.columns, datasets, lambda c: (c.key, c.dataset))
        return [*rows, *own.rows], [*columns, *own.columns]

    def cells(
        self, methods: Sequence[str] = (), datasets: Sequence[str] = (), own: Own | None = None
    ) -> list[Cell]:
        """The experiments behind the selected part of the table."""
        rows, columns = self.select(methods, datasets, own)
        found = [self.cell(row, column) for column in columns for row in rows]
        return [cell for cell in found if cell is not None]


@dataclass(frozen=True)
class Own:
    """Rows and columns that a user adds to a table."""

    rows: Sequence[Row] = ()
    columns: Sequence[Column] = ()

    def check(self, table: PaperTable) -> None:
        """Refuse a label that is taken: cells are found by the names of their row and column."""
        for kind, mine, theirs in (("row", self.rows, table.rows), ("column", self.columns, table.columns)):
            taken = {thing.key for thing in theirs}
            for thing in mine:
                if thing.key in taken:
                    raise UsageError(
                        f"--{kind} '{thing.label}': the table has a {kind} '{thing.key}', use another label."
                    )
                taken.add(thing.key)


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
class Picture:
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
    pictures: tuple[Picture, ...] = ()
    examples: int = 0
    numbers: Sequence[int] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)

    def cells(self, methods: Sequence[str] = (), datasets: Sequence[str] = ()) -> list[Cell]:
        """The experiments behind this figure."""
        if self.kind == "ranks":
            return _ranked_cells(methods or common_methods(), datasets)
        points = [c for s in self.pictures for p in s.panels for line in p.lines for _, c in line.points]
        points += [s.cell for s in self.pictures if s.cell is not None]
        chosen = _named("method of this figure", points, methods, lambda c: (c.method,))
        return _named("dataset of this figure", chosen, datasets, lambda c: (c.dataset,))


@dataclass(frozen=True)
class Statistics:
    """The table of the datasets themselves: nothing is trained for it."""

    name: str
    title: str
    source: str
    columns: tuple[Column, ...]
    numbers: Sequence[int] = (4, 5)

    def cells(self, methods: Sequence[str] = (), datasets: Sequence[str] = ()) -> list[Cell]:
        return []


Exhibit = PaperTable | Figure | Statistics


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
            raise UsageError(f"The paper's {kind} {name} is not made of runs: use {said}, or a name.")
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


def _ranked_cells(methods: Sequence[str], datasets: Sequence[str]) -> list[Cell]:
    """Of the main tables; each table knows the datasets that it has."""
    tables = main_tables()
    names = {t.name: {n for c in t.columns for n in (c.key, c.dataset)} for t in tables}
    for name in datasets:
        if not any(name in known for known in names.values()):
            raise unknown("dataset of the main tables", name, {n for known in names.values() for n in known})
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
        different = {str((r.method, r.settings, r.protocol)): r for r in (*extra[::-1], *shown[::-1])}
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
    # A key names one thing, and wins over the method or dataset of that name that several share. The latter
    # means the paper's things, where it has any of that name.
    keys = {names(t)[0] for t in things}
    own = {name for t in things if not getattr(t, "extra", False) for name in names(t)}

    def meant(thing: Any, name: str) -> bool:
        if name in keys:
            return bool(name == names(thing)[0])
        return name in names(thing) and not (getattr(thing, "extra", False) and name in own)

    return [t for t in things if any(meant(t, name) for name in wanted)]
