"""Demšar's critical-difference diagram: which methods differ over several datasets, by average rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ciga.bench.chosen import Chosen
from ciga.bench.exhibit import PaperTable
from ciga.bench.look import STYLE, greek, named, save
from ciga.bench.paper import common_methods, rows
from ciga.bench.tables import fill, lower
from ciga.explain.draw import pyplot
from ciga.scoring.stats import CriticalDifference, critical_difference


def draw_diagram(tables: Sequence[PaperTable], name: str, chosen: Chosen, out: Path) -> list[Path]:
    """Critical-difference diagrams: of what is recorded, and of the paper's own numbers.

    None where fewer than three methods have the same two datasets.

    Args:
        tables: whose scores are ranked.
        name: of the files.
        chosen: the runs that count.
        out: the folder to write to.
    """
    keys = common_methods() if len(tables) > 1 else None
    ours = _means(tables, keys, chosen)
    mine = critical_difference(ours)
    if mine is None:
        return []
    found = [(named(f"ours, {mine.datasets} datasets", chosen.variation), mine)]
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
    tables: Sequence[PaperTable], keys: Sequence[str] | None, chosen: Chosen
) -> dict[str, dict[str, float]]:
    """Method -> dataset -> mean, over the datasets that all methods with any record have."""
    out: dict[str, dict[str, float]] = {}
    for table in tables:
        mine, select = chosen.variation.narrowed(table.cells()), chosen.select
        result = fill(
            table, chosen.records, mine, select=select, methods=keys or (), seeds=chosen.seeds, also=()
        )
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


def draw_ranks(axis: Any, title: str, cd: CriticalDifference, labels: Mapping[str, str]) -> None:
    """Demšar's diagram: methods on a line of average ranks, bars join what cannot be told apart.

    Args:
        axis: Matplotlib axes to draw on.
        title: Of the picture.
        cd: Average ranks and the critical difference.
        labels: What to call each method.
    """
    names, count = list(cd.ranks), len(cd.ranks)
    left = (count + 1) // 2
    axis.set_xlim(0.3, count + 0.7)
    bars = cd.cliques()
    floor = 1.0 + 0.35 * len(bars)
    axis.set_ylim(floor + 0.8 * left + 0.2, -1.6)
    axis.hlines(0, 1, count, color="black", lw=1)
    for rank in range(1, count + 1):
        axis.vlines(rank, -0.15, 0, color="black", lw=1)
        axis.text(rank, -0.3, str(rank), ha="center", va="bottom", fontsize=8)
    for place, name in enumerate(names):
        at, near = cd.ranks[name], place < left
        depth = floor + 0.8 * (place if near else count - 1 - place)
        edge = 1.0 if near else float(count)
        axis.plot([at, at, edge], [0, depth, depth], color="#555555", lw=0.9)
        label = greek(labels.get(name, name))
        words = f"{label}  {at:.2f}" if near else f"{at:.2f}  {label}"
        weight = "bold" if name.startswith("ciga") else "normal"
        side = "right" if near else "left"
        axis.text(
            edge - 0.05 if near else edge + 0.05,
            depth,
            words,
            ha=side,
            va="center",
            fontsize=8,
            weight=weight,
        )
    for step, members in enumerate(bars):
        y = 0.5 + 0.35 * step
        axis.plot([cd.ranks[members[0]] - 0.04, cd.ranks[members[-1]] + 0.04], [y, y], color="#0072B2", lw=4)
    axis.plot([1, 1 + cd.difference], [-1.15, -1.15], color="black", lw=1.5, marker="|", ms=6)
    axis.text(
        1 + cd.difference + 0.1,
        -1.15,
        f"critical difference {cd.difference:.2f} (Nemenyi, 5 %)",
        va="center",
        fontsize=8,
    )
    axis.set_title(f"Average ranks, {title}; Friedman p = {cd.p:.2g}", fontsize=9, loc="center")
    axis.axis("off")
    # The labels stand outside the line of ranks: give them room inside the picture.
    axis.set_xlim(1 - 0.28 * count, count + 0.28 * count)
