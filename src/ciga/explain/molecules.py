"""Molecules as small SVG pictures: a pale halo under the kept bonds, lines and atom letters on top.

RDKit draws the molecule; its paths are joined by colour, so that 150 pictures stay small, and carry classes
instead of colours, so that the style sheet has a palette for light, dark and paper.
"""

from __future__ import annotations

import re
from typing import Any

from ciga.data.reading.chem import MoleculeError, parse, rdkit
from ciga.explain.explanation import Explanation

WIDTH, HEIGHT = 320, 240
#: Longest bond in a picture: small molecules are not blown up to fill it.
BOND = 34.0
LINE = 1.4
#: Drawing colours by which an element's class is found again in RDKit's output; all other atoms are ink.
ELEMENTS = {7: "N", 8: "O", 9: "F", 15: "P", 16: "S", 17: "Cl", 35: "Br", 53: "I"}
ATTACHMENT = 0

Picture = tuple[str, list[float], list[bool]]

_PATH = re.compile(r"<path (?:class='[^']*' )?d='([^']*)' (?:style='([^']*)'|fill='(#\w{6})') ?/>")


def bond_scores(molecule: Any, explanation: Explanation) -> tuple[list[float], list[bool]]:
    """Score of each bond, and whether it is kept, in RDKit's order of bonds."""
    bonds = molecule.GetNumBonds()
    scores, kept = [0.0] * bonds, [False] * bonds
    ends, score, keep, _ = explanation.undirected()
    for (u, v), s, k in zip(ends.t().tolist(), score.tolist(), keep.tolist(), strict=True):
        bond = molecule.GetBondBetweenAtoms(u, v)
        if bond is not None:
            scores[bond.GetIdx()], kept[bond.GetIdx()] = s, k
    return scores, kept


def draw_molecule(smiles: str, explanation: Explanation) -> Picture | None:
    """An SVG with a halo under the kept bonds, paler the lower the score; and the scores by bond.

    None if the SMILES does not give the graph that was explained. Each bond lies on a broad line of the
    class `bond-i`, by which the report finds the score of what the pointer is on.
    """
    molecule = parse(smiles)
    if isinstance(molecule, MoleculeError) or molecule.GetNumAtoms() != explanation.num_nodes:
        return None
    scores, kept = bond_scores(molecule, explanation)
    return draw(molecule, dict(enumerate(scores)), kept), scores, kept


def draw_fragment(smiles: str) -> str:
    """A small SVG of a piece; wavy lines stand where the rest of the molecule was cut off.

    Empty if RDKit cannot draw it.
    """
    molecule = rdkit().MolFromSmiles(smiles)
    return "" if molecule is None else draw(molecule, {}, [], 140, 100)


def draw(
    molecule: Any, scores: dict[int, float], kept: list[bool], width: int = WIDTH, height: int = HEIGHT
) -> str:
    """An SVG of a molecule.

    Args:
        molecule: of RDKit.
        scores: the score of each bond that the pointer may ask for.
        kept: whether each of these bonds has a halo.
        width, height: of the picture.
    """
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(width, height)
    options = canvas.drawOptions()
    options.clearBackground = False
    options.addStereoAnnotation = False
    options.dummiesAreAttachments = True
    options.bondLineWidth = LINE
    options.minFontSize = 9
    options.fixedBondLength = BOND / 1.5  # in pixels for each unit of RDKit's plane; a bond has 1.5 units
    options.setAtomPalette({-1: (0, 0, 0), **{z: _code(z) for z in (ATTACHMENT, *ELEMENTS)}})
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, molecule)
    at = [canvas.GetDrawCoords(i) for i in range(molecule.GetNumAtoms())]
    canvas.FinishDrawing()
    text = canvas.GetDrawingText().partition("<!-- END OF HEADER -->")[2].replace("</svg>", "")
    halo = []
    for bond in molecule.GetBonds():
        i, (a, b) = bond.GetIdx(), (at[bond.GetBeginAtomIdx()], at[bond.GetEndAtomIdx()])
        if i in scores:
            kind = f'halo" style="--s:{scores[i]:.2f}' if kept[i] else "hit"
            place = f'x1="{a.x:.1f}" y1="{a.y:.1f}" x2="{b.x:.1f}" y2="{b.y:.1f}"'
            halo.append(f'<line class="bond-{i} {kind}" {place}/>')
    # What is kept lies above the lines that only catch the pointer.
    halo.sort(key=lambda line: "halo" in line)
    body = "".join(halo) + _joined(text)
    return f'<svg viewBox="0 0 {width} {height}" class="molecule" aria-hidden="true">{body}</svg>'


def _code(element: int) -> tuple[float, float, float]:
    """A colour that is found again in the output: red is the number of the element."""
    return (element / 255, 1.0, 0.0)


def _joined(text: str) -> str:
    """RDKit's paths, those of the same look in one, with classes for colours."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for shape, style, fill in _PATH.findall(text):
        found = dict(item.split(":") for item in style.split(";") if item)
        colour = fill or found["stroke"]
        red = int(colour[1:3], 16) if colour[3:] == "FF00" else -1
        kind = "dummy" if red == ATTACHMENT else ELEMENTS.get(red, "")
        # Letters and wedges are filled, bonds are lines.
        solid = "" if found.get("fill", fill) == "none" else "f"
        width = "" if solid else found["stroke-width"].removesuffix("px")
        dashes = found.get("stroke-dasharray", "")
        groups.setdefault((solid, kind, width, dashes), []).append(_short(shape))
    out = []
    for (solid, kind, width, dashes), shapes in sorted(groups.items(), key=lambda item: item[0][0]):
        names = " ".join(name for name in (solid or "b", kind) if name)
        look = f' stroke-width="{width}"' if width not in ("", str(LINE)) else ""
        look += f' stroke-dasharray="{dashes}"' if dashes else ""
        out.append(f'<path class="{names}" d="{"".join(shapes)}"{look}/>')
    return "".join(out)


def _short(shape: str) -> str:
    """The same path with one digit after the point and no needless blanks."""
    rounded = re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), shape)
    return re.sub(r"\s*([A-Za-z,])\s*", r"\1", rounded).strip()
