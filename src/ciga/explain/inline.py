"""Drawings that need no style sheet, for notebooks: each shape carries its own look."""

from __future__ import annotations

import re
from html import escape

from ciga.explain.explanation import Explanation
from ciga.explain.layout import CAREFUL
from ciga.explain.molecules import draw_molecule
from ciga.explain.svg import draw_graph

INK, PAPER = "#1b1f24", "#ffffff"
KEPT, TRUE, REST = "#0072b2", "#e69f00", "#b5bcc4"
ATOMS = {"N": "#2440c8", "O": "#c81e0f", "S": "#8a7400", "F": "#0b7a85", "Cl": "#1d7d1d", "Br": "#96401a"}
LOOKS = {
    "true": f'stroke="{TRUE}" stroke-width="9" stroke-linecap="round" opacity=".55"',
    "edge": f'stroke="{REST}" stroke-width="1.2"',
    "kept": f'stroke="{KEPT}" stroke-width="3.2" stroke-linecap="round"',
    "node": f'stroke="{INK}" stroke-linecap="round"',
    "halo": 'stroke="#8cc5ea" stroke-width="11" stroke-linecap="round"',
    "b": 'fill="none" stroke="COLOUR" stroke-width="1.4" stroke-linejoin="round"',
    "f": 'fill="COLOUR"',
}
_HIT = re.compile(r'<line class="[^"]*\bhit\b[^"]*"[^>]*/>')
_SHAPE = re.compile(r'<(path|line) class="([^"]*)"([^>]*)/>')
_WIDTH = re.compile(r' stroke-width="[^"]*"')
_SCORE = re.compile(r"--s:([\d.]+)")


def _dressed(match: re.Match[str]) -> str:
    shape, names, rest = match[1], match[2].split(), match[3]
    look = next((LOOKS[name] for name in names if name in LOOKS), "")
    colour = next((ATOMS[name] for name in names if name in ATOMS), INK)
    if _WIDTH.search(rest):  # a width of its own
        look = _WIDTH.sub("", look)
    rest = _SCORE.sub(lambda score: f"opacity:{0.25 + 0.75 * float(score[1]):.2f}", rest)
    return f"<{shape} {look.replace('COLOUR', colour)}{rest}/>"


def inline(svg: str, width: int) -> str:
    """The same drawing with looks in place of classes, on white: it is seen on a dark page, too."""
    head, _, body = _HIT.sub("", svg).partition(">")
    view = head.partition('viewBox="')[2].partition('"')[0]
    look = f'width="{width}" viewBox="{view}" style="background:{PAPER}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {look}>{_SHAPE.sub(_dressed, body)}'


def figure(explanation: Explanation) -> str:
    """The graph, or molecule, with its kept edges, and under it what was predicted from it."""
    drawn = None if explanation.smiles is None else draw_molecule(explanation.smiles, explanation)
    picture = inline((drawn or draw_graph(explanation, CAREFUL))[0], 320 if drawn else 300)
    known = "" if explanation.label is None else f", is {explanation.label}"
    said = f"predicted {explanation.predicted} ({float(explanation.probability.max()):.3f}){known}"
    kept = explanation.undirected()[2]
    parts = "bonds" if drawn else "edges"
    words = escape(f"{said}; {int(kept.sum())} of {len(kept)} {parts} kept")
    return f"<figure>{picture}<figcaption>{words}</figcaption></figure>"
