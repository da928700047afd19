"""Demšar's critical-difference diagram: which methods differ over several datasets, by average rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ciga.scoring.stats import CriticalDifference


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
        label = labels.get(name, name)
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
