"""The official quick slice of a table or figure: fewer methods, columns and seeds, within half an hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ciga.bench.exhibit import Cell, Exhibit, Figure, Own, PaperTable, Statistics
from ciga.errors import UsageError


@dataclass(frozen=True)
class Slice:
    """What `ciga bench NAME --quick` runs."""

    cells: list[Cell]
    seeds: list[int]  # empty: those of the cells
    settings: Mapping[str, Any]
    words: str  # what it is, to be told


def quick(shown: Exhibit, own: Own | None = None) -> Slice:
    """The slice that `paper.toml` names for this table or figure, with the user's `own` rows and columns."""
    chosen = {} if isinstance(shown, Statistics) else shown.quick
    if not chosen or isinstance(shown, Statistics):
        raise UsageError(f"{shown.name} has no quick slice: choose with --methods, --datasets and --seeds.")
    if isinstance(shown, PaperTable):
        cells = shown.cells(chosen.get("methods", ()), chosen.get("columns", ()), own)
    else:
        cells = _figure(shown, chosen).cells()
    seeds = list(range(1, chosen["seeds"] + 1)) if "seeds" in chosen else []
    settings = chosen.get("settings", {})
    return Slice(cells, seeds, settings, _words(cells, seeds, settings))


def _figure(shown: Figure, chosen: Mapping[str, Any]) -> Figure:
    """The same with fewer pictures, panels and points."""
    pictures = []
    for picture in shown.pictures:
        if picture.key in chosen.get("pictures", [picture.key]):
            panels = [p for p in picture.panels if p.key in chosen.get("panels", [p.key])]
            lines = [[replace(line, points=_points(line.points, chosen)) for line in p.lines] for p in panels]
            kept = [replace(p, lines=tuple(found)) for p, found in zip(panels, lines, strict=True)]
            pictures.append(replace(picture, panels=tuple(kept)))
    return replace(shown, pictures=tuple(pictures))


def _points(
    points: Sequence[tuple[float, Cell]], chosen: Mapping[str, Any]
) -> tuple[tuple[float, Cell], ...]:
    return tuple((x, cell) for x, cell in points if x in chosen.get("x", [x]))


def _words(cells: Sequence[Cell], seeds: Sequence[int], settings: Mapping[str, Any]) -> str:
    methods = ", ".join(dict.fromkeys(c.method for c in cells))
    data = ", ".join(dict.fromkeys(c.dataset for c in cells))
    count = len(seeds) or len({s for c in cells for s in c.seeds})
    given = "".join(f", {key}={value}" for key, value in settings.items())
    return f"{methods} on {data}, {count} seed{'s' if count > 1 else ''}{given}"
