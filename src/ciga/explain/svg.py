"""Small drawings as SVG text: graphs, curves, intervals, reliability. The style sheet gives the colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from ciga.explain.explanation import Explanation
from ciga.explain.layout import stress_layout

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 360, 200, 44, 26, 8, 10
#: In graphs with more edges than this, only the kept ones can be pointed at: the file stays small.
POINTED = 300
NAMES, CHARACTER = 120, 6.8  # least width of a column of names, and that of a letter in a wide font
HEADING = -1  # in place of a colour: the row is a heading


@dataclass
class Series:
    """A curve: points (x, y), and a band (x, low, high) around it."""

    name: str
    points: list[tuple[float, float]]
    band: list[tuple[float, float, float]] = field(default_factory=list)


def draw_graph(explanation: Explanation, starts: int = 1) -> tuple[str, list[float], list[bool]]:
    """A graph: true edges as a thick pale line, kept ones dark, opacity = score; with scores by edge.

    More `starts` untangle it better (see `ciga.explain.layout`).
    """
    ends, score, kept, truth = explanation.undirected()
    at = stress_layout(explanation.edge_index, explanation.num_nodes, starts)
    size, edge = 300, 12
    low, high = at.min(0), at.max(0)
    spread = float(max((high - low).max(), 1e-9))
    place = ((at - (low + high) / 2) / spread * (size - 2 * edge) + size / 2).round(1).tolist()
    pairs, scores, keep = ends.t().tolist(), score.tolist(), kept.tolist()
    true = [False] * len(pairs) if truth is None else truth.tolist()

    def line(i: int, kind: str, style: str = "") -> str:
        (x1, y1), (x2, y2) = (place[n] for n in pairs[i])
        return f'<line class="{kind} bond-{i}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"{style}/>'

    def path(kind: str, shape: str, style: str = "") -> str:
        return f'<path class="{kind}" d="{shape}"{style}/>' if shape else ""

    def stroke(i: int) -> str:
        (x1, y1), (x2, y2) = (place[n] for n in pairs[i])
        return f"M{x1:g},{y1:g}L{x2:g},{y2:g}"

    # One path for all of a kind; edges that may be pointed at have a broad line each besides.
    rest = [i for i, yes in enumerate(keep) if not yes]
    parts = [path("true", "".join(stroke(i) for i, yes in enumerate(true) if yes))]
    parts.append(path("edge", "".join(map(stroke, rest))))
    if any(keep) and len(pairs) <= POINTED:
        parts += [line(i, "hit") for i in rest]
    parts += [
        line(i, "kept", f' style="opacity:{0.35 + 0.65 * scores[i]:.2f}"')
        for i, yes in enumerate(keep)
        if yes
    ]
    thick = 6.4 if len(place) < 60 else 4
    parts.append(path("node", "".join(f"M{x:g},{y:g}h0" for x, y in place), f' stroke-width="{thick:g}"'))
    body = "".join(parts)
    return f'<svg viewBox="0 0 {size} {size}" class="graph" aria-hidden="true">{body}</svg>', scores, keep


def draw_motif(edges: Sequence[tuple[int, int]]) -> str:
    """A small graph by its edges alone."""
    import torch

    index = torch.tensor(edges).t()
    nodes = int(index.max()) + 1
    ones = torch.ones(index.size(1))
    bare = Explanation(index, ones, ones.bool(), torch.zeros(nodes, 0), None, torch.ones(1))
    return draw_graph(bare)[0]


def curves(series: Sequence[Series], label: str) -> str:
    """A line chart with axes; each line and its band have the class of their place in the list."""
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in s.points] + [v for s in series for _, a, b in s.band for v in (a, b)]
    ys = [y for y in ys if math.isfinite(y)]
    if not xs or not ys:
        return ""
    ticks = _ticks(min(ys), max(ys))
    low, high = min(ticks[0], *ys), max(ticks[-1], *ys)
    first, last = min(xs), max(max(xs), min(xs) + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            round(LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT), 1),
            round(HEIGHT - BOTTOM - (y - low) / max(high - low, 1e-12) * (HEIGHT - BOTTOM - TOP), 1),
        )

    parts = []
    for tick in ticks:
        y = at(first, tick)[1]
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 5}" y="{y + 3.5}" text-anchor="end">{tick:g}</text>')
    for tick in _ticks(first, last, 5):
        if first <= tick <= last and tick == int(tick):
            x = at(tick, low)[0]
            parts.append(f'<text class="tick" x="{x}" y="{HEIGHT - 8}" text-anchor="middle">{tick:g}</text>')
    for i, one in enumerate(series):
        band = [at(x, a) for x, a, _ in one.band] + [at(x, b) for x, _, b in reversed(one.band)]
        if band:
            parts.append(f'<polygon class="band c{i % 6}" points="{_points(band)}"/>')
        line = [at(x, y) for x, y in one.points if math.isfinite(y)]
        parts.append(
            f'<polyline class="line c{i % 6}" points="{_points(line)}">'
            f"<title>{escape(one.name)}</title></polyline>"
        )
    return _svg("".join(parts), label)


def whiskers(rows: Sequence[tuple[str, int, float, float, float]], label: str) -> str:
    """Means with intervals, one below the other: (name, colour, mean, low, high). HEADING is no colour."""
    rows = [r for r in rows if r[1] == HEADING or math.isfinite(r[2])]
    ends = [v for r in rows for v in r[2:] if math.isfinite(v)]
    if not ends:
        return ""
    ticks = _ticks(min(ends), max(ends))
    low, high = min(ticks[0], *ends), max(ticks[-1], *ends)
    left, step = max(NAMES, 14 + CHARACTER * max(len(r[0]) for r in rows if r[1] != HEADING)), 22
    width = WIDTH - NAMES + left  # long names make the chart wider, not the plot narrower
    height = TOP + step * len(rows) + BOTTOM

    def at(value: float) -> float:
        return round(left + (value - low) / max(high - low, 1e-12) * (width - left - RIGHT), 1)

    parts = []
    for tick in ticks:
        x = at(tick)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{height - 8}" text-anchor="middle">{tick:g}</text>')
    for i, (name, colour, mean, a, b) in enumerate(rows):
        y = TOP + step * i + step / 2
        if colour == HEADING:
            parts.append(f'<text class="tick head" x="0" y="{y + 3.5}">{escape(name)}</text>')
            continue
        parts.append(
            f'<text class="tick" x="{left - 8}" y="{y + 3.5}" text-anchor="end">{escape(name)}</text>'
        )
        if math.isfinite(a):
            parts.append(f'<line class="whisker c{colour}" x1="{at(a)}" x2="{at(b)}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<circle class="dot c{colour}" cx="{at(mean)}" cy="{y}" r="4.5">'
            f"<title>{escape(name)}: {mean:.3f}</title></circle>"
        )
    return _svg("".join(parts), label, height, width)


def reliability(bins: Sequence[dict[str, float]], label: str) -> str:
    """Accuracy against confidence, a disc for each bin as large as its share; the diagonal is perfect."""
    total = sum(b["count"] for b in bins) or 1
    side, edge = 200, 38

    def at(value: float) -> float:
        return round(edge + value * (side - edge - 8), 1)

    parts = [f'<line class="grid" x1="{at(0)}" y1="{side - at(0)}" x2="{at(1)}" y2="{side - at(1)}"/>']
    for tick in (0.0, 0.5, 1.0):
        parts.append(
            f'<text class="tick" x="{at(tick)}" y="{side - edge + 14}" text-anchor="middle">{tick:g}</text>'
        )
        parts.append(
            f'<text class="tick" x="{edge - 5}" y="{side - at(tick) + 3.5}" text-anchor="end">{tick:g}</text>'
        )
    parts.append(f'<text class="tick" x="{at(0.5)}" y="{side - 4}" text-anchor="middle">confidence</text>')
    middle = side - at(0.5)
    parts.append(
        f'<text class="tick" x="9" y="{middle}" text-anchor="middle" transform="rotate(-90 9 {middle})">'
        "accuracy</text>"
    )
    points = [(at(b["confidence"]), side - at(b["accuracy"])) for b in bins]
    parts.append(f'<polyline class="line c0" points="{_points(points)}"/>')
    for b, (x, y) in zip(bins, points, strict=True):
        radius = 2.5 + 8 * math.sqrt(b["count"] / total)
        said = f"{int(b['count'])} graphs: confidence {b['confidence']:.2f}, accuracy {b['accuracy']:.2f}"
        parts.append(
            f'<circle class="dot c0 soft" cx="{x}" cy="{y}" r="{radius:.1f}"><title>{said}</title></circle>'
        )
    return _svg("".join(parts), label, side, side, "chart square")


def _svg(body: str, label: str, height: float = HEIGHT, width: float = WIDTH, kind: str = "chart") -> str:
    # As wide as it is drawn and a little more: letters have one size, however long the names are.
    said = f'class="{kind}" role="img" aria-label="{escape(label)}" style="max-width:{1.2 * width:.0f}px"'
    return f'<svg viewBox="0 0 {width:g} {height:g}" {said}>{body}</svg>'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers that cover [low, high]."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        span = abs(high) or 1.0
    step = 10 ** math.floor(math.log10(span / about))
    step = next(step * m for m in (1, 2, 5, 10) if span / (step * m) <= about)
    first = math.floor(low / step)
    return [round(step * i, 10) for i in range(first, math.ceil(high / step) + 1)] or [low]
