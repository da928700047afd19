"""The paper's figures from records: SVG and PNG, for colour-blind eyes and grey printers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill as fill_words
from typing import Any

from ciga.bench.chosen import Chosen
from ciga.bench.exhibit import Column, Exhibit, Figure, Panel, PaperTable, Picture, Statistics
from ciga.bench.grid import Variation, configs
from ciga.bench.look import COLOURS, MARKERS, NAMES, STYLE, greek, named, save
from ciga.bench.paper import main_tables
from ciga.bench.ranks import draw_diagram
from ciga.bench.tables import DEFAULT, score
from ciga.errors import CigaError, UsageError
from ciga.explain.draw import pyplot
from ciga.runs.records import Records
from ciga.scoring.stats import LEAST, interval


def draw(
    shown: Exhibit,
    records: Records,
    variation: Variation,
    out: Path,
    select: str = DEFAULT,
    seeds: Sequence[int] = (),
    datasets: Sequence[str] = (),
) -> list[Path]:
    """Write the pictures of a figure (of a table: its scores, and how its methods rank); returns their paths.

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
    chosen = Chosen(records, variation, select, seeds, datasets)
    if isinstance(shown, PaperTable):
        return _of_table(shown, chosen, out)
    if shown.kind == "theory":  # exact: it needs no runs
        from ciga.bench.theory.picture import draw_theory

        return draw_theory(out)
    if shown.kind == "ranks":
        if paths := draw_diagram(main_tables(), shown.name, chosen, out):
            return paths
        raise CigaError(
            f"Too few runs of {shown.name} are recorded: ranks need three methods on the same two datasets. "
            f"Make them with  ciga bench {shown.name}."
        )
    if shown.kind == "subgraphs":
        from ciga.bench.subgraphs import draw_subgraphs

        return draw_subgraphs(shown, chosen, out)
    paths = [path for picture in shown.pictures for path in _lines(shown, picture, chosen, out)]
    if not paths:
        quick = f"  ciga bench {shown.name} --quick  for a small part, or" if shown.quick else ""
        raise CigaError(
            f"Too few runs of {shown.name} are recorded: a curve needs two points. Make them with{quick}"
            f"  ciga bench {shown.name}."
        )
    return paths


# ---------------------------------------------------------------- curves


def _lines(shown: Figure, picture: Picture, chosen: Chosen, out: Path) -> list[Path]:
    """One picture of several panels; none if nothing of it is recorded."""
    panels = [(p, curves(p, chosen)) for p in picture.panels]
    # A dot is no curve; a panel without one has nothing to show.
    panels = [(p, lines) for p, lines in panels if any(len(points) > 1 for points in lines.values())]
    if not panels:
        return []
    plt = pyplot()
    with plt.rc_context(STYLE):
        size = max(0.6 + 2.9 * len(panels), 4.6), 3.0 + 0.15 * max(len(lines) for _, lines in panels)
        figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
        for axis, (panel, lines) in zip(axes[0], panels, strict=True):
            draw_panel(axis, panel, lines)
        figure.suptitle(
            fill_words(named(picture.title, chosen.variation), int(11 * size[0])), x=0.01, ha="left"
        )
        note = "Mean over seeds and its 95 % interval; hollow: fewer than three seeds."
        figure.supxlabel(note, x=0.01, ha="left", fontsize=7, color="#555555")
        name = shown.name if len(shown.pictures) == 1 else f"{shown.name}-{picture.key}"
        return save(figure, out / name)


Points = list[tuple[float, list[float]]]  # x, scores over seeds


def curves(panel: Panel, chosen: Chosen) -> dict[str, Points]:
    """Line -> what is recorded of it."""
    column = Column(panel.key, panel.title, "", panel.metric, panel.scale)
    out: dict[str, Points] = {}
    for line in panel.lines:
        out[line.label] = []
        for x, plain in line.points:
            cell = chosen.variation.fit(plain)
            if chosen.datasets and cell.dataset not in chosen.datasets:
                continue
            runs = configs(cell, chosen.variation, chosen.seeds)
            found = [r for c in runs if (r := chosen.records.find(c)) is not None]
            values = [v for r in found if (v := score(r, column, chosen.select)) is not None]
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
    axis.set_title(greek(panel.title))
    axis.set_xlabel({"alpha": "α", "beta": "β"}.get(panel.x, panel.x))
    axis.set_ylabel(NAMES.get(panel.metric, panel.metric))
    axis.margins(x=0.04)
    if len(lines) > 1:  # below: it must not hide a curve
        place_below = {"loc": "upper center", "bbox_to_anchor": (0.45, -0.2), "ncols": 2}
        axis.legend(handlelength=2.4, columnspacing=1.0, **place_below)


# ---------------------------------------------------------------- tables


def _of_table(table: PaperTable, chosen: Chosen, out: Path) -> list[Path]:
    """Every score that is recorded, and the ranks if there are enough of them."""
    from ciga.bench.dots import draw_scores

    paths = draw_scores(table, chosen, out)
    if not paths:
        quick = f"  ciga bench {table.name} --quick  for a small part, or" if table.quick else ""
        raise CigaError(
            f"No run of {table.name} is recorded. Make some with{quick}  ciga bench {table.name}."
        )
    return [*paths, *draw_diagram([table], table.name, chosen, out)]
