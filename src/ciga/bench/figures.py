"""The paper's figures from records: SVG and PNG, for colour-blind eyes and grey printers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill as fill_words
from typing import Any

from ciga.bench.exhibit import Column, Exhibit, Figure, Panel, PaperTable, Picture, Statistics
from ciga.bench.grid import Variation, configs
from ciga.bench.paper import common_methods, main_tables, rows
from ciga.bench.ranks import draw_ranks
from ciga.bench.tables import DEFAULT, fill, lower, score
from ciga.errors import CigaError, UsageError
from ciga.explain.draw import pyplot
from ciga.files import atomic
from ciga.runs.records import Records
from ciga.scoring.stats import LEAST, critical_difference, interval

# Okabe and Ito's colours, in an order of falling lightness contrast between neighbours.
COLOURS = ("#0072B2", "#E69F00", "#000000", "#CC79A7", "#009E73", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
NAMES = {"accuracy": "test accuracy (%)", "roc_auc": "test ROC-AUC (%)", "mcc": "test MCC"}
#: One look for every figure: as wide as a page, letters of its footnotes, no ink that says nothing.
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "figure.titlesize": 10,
    "figure.titleweight": "bold",
    "svg.fonttype": "none",
    "svg.hashsalt": "ciga",
}


def draw(
    shown: Exhibit,
    records: Records,
    variation: Variation,
    out: Path,
    select: str = DEFAULT,
    seeds: Sequence[int] = (),
    datasets: Sequence[str] = (),
) -> list[Path]:
    """Write the pictures of a figure (of a table: its critical-difference diagram); returns their paths.

    Args:
        shown: A figure, or a table.
        records: The recorded runs.
        variation: How the runs differ from the paper's.
        out: The folder to write to.
        select: The rule that chooses the epoch.
        seeds: Only these seeds; the paper's if empty.
        datasets: Only these datasets; all of them if empty.
    """
    if isinstance(shown, Statistics):
        raise UsageError(f"{shown.name} has nothing to draw: show it with  ciga table {shown.name}.")
    variation.check(shown.cells())
    if isinstance(shown, PaperTable):
        return _diagram([shown], shown.name, records, variation, out, select, seeds)
    if shown.kind == "theory":  # exact: it needs no runs
        from ciga.bench.theory.picture import draw_theory

        return draw_theory(out)
    if shown.kind == "ranks":
        return _diagram(main_tables(), shown.name, records, variation, out, select, seeds)
    if shown.kind == "subgraphs":
        from ciga.bench.subgraphs import draw_subgraphs

        return draw_subgraphs(shown, records, variation, out, select, datasets)
    drawn = [
        _lines(shown, picture, records, variation, out, select, seeds, datasets) for picture in shown.pictures
    ]
    paths = [path for pair in drawn for path in pair]
    if not paths:
        quick = f"  ciga bench {shown.name} --quick  for a small part, or" if shown.quick else ""
        raise CigaError(
            f"Too few runs of {shown.name} are recorded: a curve needs two points. Make them with{quick}"
            f"  ciga bench {shown.name}."
        )
    return paths


def save(figure: Any, stem: Path) -> list[Path]:
    """Both formats, whole or not at all."""
    paths = []
    for suffix in ("svg", "png"):
        path = stem.with_name(f"{stem.name}.{suffix}")
        about = {"Date": None} if suffix == "svg" else None
        with atomic(path) as temporary:
            figure.savefig(temporary, format=suffix, dpi=200, metadata=about)
        paths.append(path)
    pyplot().close(figure)
    return paths


# ---------------------------------------------------------------- curves


def _lines(
    shown: Figure,
    picture: Picture,
    records: Records,
    variation: Variation,
    out: Path,
    select: str,
    seeds: Sequence[int],
    datasets: Sequence[str],
) -> list[Path]:
    """One picture of several panels; none if nothing of it is recorded."""
    panels = [(p, curves(p, records, variation, select, seeds, datasets)) for p in picture.panels]
    # A dot is no curve; a panel without one has nothing to show.
    panels = [(p, lines) for p, lines in panels if any(len(points) > 1 for points in lines.values())]
    if not panels:
        return []
    plt = pyplot()
    with plt.rc_context(STYLE):
        size = 0.6 + 2.9 * len(panels), 3.0 + 0.15 * max(len(lines) for _, lines in panels)
        figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
        for axis, (panel, lines) in zip(axes[0], panels, strict=True):
            draw_panel(axis, panel, lines)
        title = f"{_named(picture.title, variation)}; bands: 95 % interval over seeds"
        figure.suptitle(fill_words(title, int(10 * size[0])), x=0.01, ha="left")
        name = shown.name if len(shown.pictures) == 1 else f"{shown.name}-{picture.key}"
        return save(figure, out / name)


def _named(title: str, variation: Variation) -> str:
    """A title that says what is not as in the paper."""
    return f"{title} ({variation})" if str(variation) else title


Points = list[tuple[float, list[float]]]  # x, scores over seeds


def curves(
    panel: Panel,
    records: Records,
    variation: Variation,
    select: str = DEFAULT,
    seeds: Sequence[int] = (),
    datasets: Sequence[str] = (),
) -> dict[str, Points]:
    """Line -> what is recorded of it.

    Args:
        panel: Says which lines there are.
        records: The recorded runs.
        variation: How the runs differ from the paper's.
        select: The rule that chooses the epoch.
        seeds: Only these seeds; the paper's if empty.
        datasets: Only these datasets; all of them if empty.
    """
    column = Column(panel.key, panel.title, "", panel.metric, panel.scale)
    out: dict[str, Points] = {}
    for line in panel.lines:
        out[line.label] = []
        for x, plain in line.points:
            cell = variation.fit(plain)
            if datasets and cell.dataset not in datasets:
                continue
            found = [r for c in configs(cell, variation, seeds) if (r := records.find(c)) is not None]
            values = [v for r in found if (v := score(r, column, select)) is not None]
            if values:
                out[line.label].append((x, values))
    return out


def draw_panel(axis: Any, panel: Panel, lines: Mapping[str, Points]) -> None:
    """Means over seeds with their 95 % interval; colour, marker and dashes tell lines apart.

    Points of fewer than three seeds are hollow: they have no interval.
    """
    half = len(lines) // 2
    for place, (label, points) in enumerate(lines.items()):
        if not points:
            continue
        xs = [x for x, _ in points]
        found = [interval(values) for _, values in points]
        centre = [f["mean"] for f in found]
        # Where a panel compares two kinds of data, the second kind repeats the colours with dashes.
        paired = panel.x == "bias"
        colour = COLOURS[(place % half if paired else place) % len(COLOURS)]
        dashes = "--" if paired and place >= half else "-"
        marker = MARKERS[place % len(MARKERS)]
        axis.plot(
            xs, centre, dashes, color=colour, marker=marker, ms=4, mec="white", mew=0.6, lw=1.5, label=label
        )
        few = [(x, f["mean"]) for x, f in zip(xs, found, strict=True) if f["n"] < LEAST]
        if few:
            axis.plot(*zip(*few, strict=True), linestyle="", marker=marker, ms=4, mfc="white", mec=colour)
        low, high = [f["low"] for f in found], [f["high"] for f in found]
        axis.fill_between(xs, low, high, color=colour, alpha=0.13, lw=0)
    axis.set_title(panel.title)
    axis.set_xlabel({"alpha": "α", "beta": "β"}.get(panel.x, panel.x))
    axis.set_ylabel(NAMES.get(panel.metric, panel.metric))
    axis.margins(x=0.04)
    if len(lines) > 1:  # below: it must not hide a curve
        place_below = {"loc": "upper center", "bbox_to_anchor": (0.45, -0.2), "ncols": 2}
        axis.legend(handlelength=2.4, columnspacing=1.0, **place_below)


# ---------------------------------------------------------------- ranks


def _diagram(
    tables: Sequence[PaperTable],
    name: str,
    records: Records,
    variation: Variation,
    out: Path,
    select: str,
    seeds: Sequence[int],
) -> list[Path]:
    """Critical-difference diagrams: of what is recorded, and of the paper's own numbers."""
    keys = common_methods() if len(tables) > 1 else None
    ours = _means(tables, keys, records, variation, select, seeds)
    mine = critical_difference(ours)
    if mine is None:
        raise CigaError(
            f"Too few runs of {name} are recorded: ranks need three methods on the same two datasets. "
            f"Make them with  ciga bench {name}."
        )
    found = [(_named(f"ours, {mine.datasets} datasets", variation), mine)]
    theirs = critical_difference(_printed(tables, keys))
    if theirs is not None:
        found.append((f"as printed in the paper, {theirs.datasets} datasets", theirs))
    plt = pyplot()
    with plt.rc_context({**STYLE, "axes.grid": False}):
        height = max(len(cd.ranks) for _, cd in found)
        figure, axes = plt.subplots(
            len(found),
            1,
            figsize=(7.5, (0.9 + 0.16 * height) * len(found) + 0.4),
            squeeze=False,
            layout="constrained",
        )
        labels = {row.key: row.label for table in tables for row in table.rows}
        for axis, (title, cd) in zip(axes[:, 0], found, strict=True):
            draw_ranks(axis, title, cd, labels)
        return save(figure, out / f"{name}-ranks" if len(tables) == 1 else out / name)


def _means(
    tables: Sequence[PaperTable],
    keys: Sequence[str] | None,
    records: Records,
    variation: Variation,
    select: str,
    seeds: Sequence[int],
) -> dict[str, dict[str, float]]:
    """Method -> dataset -> mean, over the datasets that all methods with any record have."""
    out: dict[str, dict[str, float]] = {}
    for table in tables:
        mine = variation.narrowed(table.cells())
        result = fill(table, records, mine, select=select, methods=keys or (), seeds=seeds, also=())
        for column in result.own():
            for row, mean in result.means(column, select).items():
                out.setdefault(row, {})[column.key] = -mean if lower(column) else mean
    most = max((len(found) for found in out.values()), default=0)
    return {row: found for row, found in out.items() if len(found) == most}


def _printed(tables: Sequence[PaperTable], keys: Sequence[str] | None) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    for table in tables:
        columns = {c.key: c for c in table.columns}
        for (row, column), (mean, _) in table.printed.items():
            if rows()[row].group != "oracle" and (keys is None or row in keys):
                out.setdefault(row, {})[column] = -mean if lower(columns[column]) else mean
    return out
