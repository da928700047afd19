"""What a table or a figure is: rows, columns, curves, and the experiments behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

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
    extra: bool = False  # ours to add, not in the paper


@dataclass(frozen=True)
class Picture:
    """One picture file of a figure."""

    key: str
    title: str
    panels: tuple[Panel, ...] = ()
    cell: Cell | None = None  # for pictures of graphs: the model that is looked at
    extra: bool = False


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

    @property
    def of_models(self) -> bool:
        """Is it drawn from trained models? Records that come without weights are then not enough."""
        return any(picture.cell is not None for picture in self.pictures)

    def cells(self, methods: Sequence[str] = (), datasets: Sequence[str] = ()) -> list[Cell]:
        """The experiments behind this figure; those of extra panels and pictures where they are named."""
        points = [
            _Point(cell, panel.extra)
            for picture in self.pictures
            for panel in picture.panels
            for line in panel.lines
            for _, cell in line.points
        ]
        points += [_Point(p.cell, p.extra) for p in self.pictures if p.cell is not None]
        chosen = _named("dataset of this figure", points, datasets, lambda p: (p.cell.dataset,))
        return _named("method of this figure", [p.cell for p in chosen], methods, lambda c: (c.method,))


class _Point(NamedTuple):
    """An experiment of a figure, and whether it is one of ours to add."""

    cell: Cell
    extra: bool


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
