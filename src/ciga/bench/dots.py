"""A table as a picture: for each column its methods' scores, every seed, with the paper's number beside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill as fill_words
from typing import Any

from ciga.bench.chosen import Chosen
from ciga.bench.exhibit import SECONDS, Column, PaperTable, Row
from ciga.bench.look import COLOURS, NAMES, STYLE, greek, save
from ciga.bench.tables import Entry, Result, fill
from ciga.explain.draw import pyplot

#: Baselines, ours, and the bound: told apart by lightness, too.
GROUPS = {"baseline": "#555555", "ours": COLOURS[0], "oracle": COLOURS[1]}
WORDS = {"baseline": "baseline", "ours": "CIGA", "oracle": "oracle (a bound)"}
#: What a metric can be, in the units of the pictures.
RANGES = {
    "accuracy": (0, 100),
    "roc_auc": (0, 100),
    "mcc": (-1, 1),
    "edge_auroc": (0, 1),
    SECONDS: (0, math.inf),
}
#: Panels side by side.
MOST = 4


def draw_scores(table: PaperTable, chosen: Chosen, out: Path) -> list[Path]:
    """Write the scores of everything recorded of a table, and those of its subgraphs where they are known."""
    paths: list[Path] = []
    usual = {column.metric for column in table.columns}
    for metric in (None,) if usual & {"edge_auroc", SECONDS} else (None, "edge_auroc"):
        shown = fill(
            table,
            chosen.records,
            chosen.variation,
            select=chosen.select,
            seeds=chosen.seeds,
            datasets=chosen.datasets,
            metric=metric,
        )
        stem = f"{table.name}-scores" if metric is None else f"{table.name}-edges"
        paths += _draw(shown, out / stem, "Scores" if metric is None else "Subgraphs")
    return paths


def _draw(shown: Result, stem: Path, what: str) -> list[Path]:
    """One panel for each column with a record, its rows from top to bottom; nothing where nothing is."""
    rule = shown.selections[0]
    full = {key for key, entry in shown.entries.items() if entry.values}
    rows = [r for r in shown.rows if any((r.key, c.key, rule) in full for c in shown.columns)]
    columns = [c for c in shown.columns if any((r.key, c.key, rule) in full for r in rows)]
    if not columns:
        return []
    plt = pyplot()
    wide = min(len(columns), MOST)
    high = -(-len(columns) // wide)
    names = max(len(r.label) for r in rows)
    size = (max(0.065 * names + 1.75 * wide, 4.6), (0.85 + 0.19 * len(rows)) * high + 0.9)
    with plt.rc_context({**STYLE, "axes.titleweight": "normal"}):
        figure, axes = plt.subplots(
            high, wide, figsize=size, sharey=True, squeeze=False, layout="constrained"
        )
        for axis in axes.flat[len(columns) :]:
            axis.axis("off")
        for place, (axis, column) in enumerate(zip(axes.flat, columns, strict=False)):
            _panel(axis, [(r, shown.entry(r, column, rule)) for r in rows], column)
            axis.tick_params(axis="y", length=0, labelleft=place % wide == 0)
        same_scale(list(axes.flat[: len(columns)]), columns)
        axes.flat[0].set_yticks(range(len(rows)), [greek(r.label) for r in rows])
        axes.flat[0].set_ylim(len(rows) - 0.3, -0.6)
        title = f"{what}. {shown.table.title}" + (f" ({shown.variation})" if str(shown.variation) else "")
        figure.suptitle(fill_words(title, int(10 * size[0])), x=0.01, ha="left")
        beside = max(1, int(size[0] / 2.3))  # entries of the legend in one line
        figure.legend(handles=_key(shown, rows, columns), loc="outside lower left", ncols=beside)
        return save(figure, stem)


def _panel(axis: Any, lines: Sequence[tuple[Row, Entry | None]], column: Column) -> None:
    """The large dot is a mean, hollow and without a line below three seeds; the seeds stand under it."""
    unit = 100.0 if column.metric == "edge_auroc" else 1.0
    for y, (row, entry) in enumerate(lines):
        if entry is None:
            continue
        colour = GROUPS.get(row.group, GROUPS["baseline"])
        if entry.paper is not None:
            axis.plot(entry.paper[0] / unit, y, "|", color=COLOURS[3], ms=8, mew=1.8, zorder=2)
        if not entry.values:
            continue
        values = [v / unit for v in entry.values.values()]
        axis.plot(values, [y + 0.3] * len(values), ".", color=colour, ms=3.5, mew=0, alpha=0.7, zorder=3)
        found = entry.interval
        if entry.enough:
            axis.hlines(y, found["low"] / unit, found["high"] / unit, color=colour, lw=1.3, zorder=3)
        inside = colour if entry.enough else "white"
        axis.plot(found["mean"] / unit, y, "o", mfc=inside, mec=colour, mew=1, ms=4.6, zorder=4)
    axis.set_title(column.label)
    words = {"edge_auroc": "edge AUROC", SECONDS: "seconds per epoch"}
    axis.set_xlabel(words.get(column.metric, NAMES.get(column.metric, column.metric)))
    axis.grid(axis="y", visible=False)
    axis.margins(x=0.08)


def same_scale(axes: Sequence[Any], columns: Sequence[Column]) -> None:
    """Panels of one metric have one scale, unless a panel would be squeezed into a third of it.

    An interval may leave the metric's range; the scale does not.
    """
    for metric in {c.metric for c in columns}:
        mine = [axis for axis, column in zip(axes, columns, strict=True) if column.metric == metric]
        ends = [axis.get_xlim() for axis in mine]
        low, high = min(e[0] for e in ends), max(e[1] for e in ends)
        alike = all(high - low <= 3 * (e[1] - e[0]) for e in ends)
        bottom, top = RANGES.get(metric, (-math.inf, math.inf))
        room = 0.02 * (high - low)
        for axis, (left, right) in zip(mine, ends, strict=True):
            axis.set_xlim(
                max(low if alike else left, bottom - room), min(high if alike else right, top + room)
            )


def _key(shown: Result, rows: Sequence[Row], columns: Sequence[Column]) -> list[Any]:
    """What the marks mean: only those that are in the picture."""
    from matplotlib.lines import Line2D

    groups = [g for g in GROUPS if any(r.group == g for r in rows)]
    marks = [
        Line2D([], [], color=GROUPS[g], marker="o", ms=4.6, lw=1.3, label=f"{WORDS[g]}: mean, 95 % interval")
        for g in groups
    ]
    marks.append(Line2D([], [], color=GROUPS[groups[0]], marker=".", ms=5, lw=0, alpha=0.6, label="one seed"))
    places = {(r.key, c.key) for r in rows for c in columns}
    entries = [e for (r, c, _), e in shown.entries.items() if (r, c) in places]
    if any(e.values and not e.enough for e in entries):
        hollow = {"mfc": "white", "mec": GROUPS[groups[0]], "marker": "o", "ms": 4.6, "lw": 0}
        marks.append(Line2D([], [], **hollow, label="mean of fewer than three seeds"))
    if any(e.paper is not None for e in entries):
        paper = {"marker": "|", "ms": 8, "mew": 1.8, "lw": 0, "color": COLOURS[3]}
        marks.append(Line2D([], [], **paper, label="in the paper"))
    return marks
