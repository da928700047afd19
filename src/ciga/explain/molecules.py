"""Molecules with the kept bonds highlighted, drawn by RDKit."""

from __future__ import annotations

import re
from typing import Any

from ciga.data.reading.chem import MoleculeError, parse
from ciga.explain.explanation import Explanation

#: Okabe-Ito blue; the paler, the lower the score.
COLOUR = (0.0, 0.447, 0.698)
WIDTH, HEIGHT = 320, 240


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


def draw_molecule(smiles: str, explanation: Explanation) -> tuple[str, list[float], list[bool]] | None:
    """An SVG with the kept bonds highlighted, intensity = score; and the scores by bond.

    None if the SMILES does not give the graph that was explained. Lines carry RDKit's classes `bond-i`
    and `atom-i`, by which the report finds the score of what the pointer is on.
    """
    molecule = parse(smiles)
    if isinstance(molecule, MoleculeError) or molecule.GetNumAtoms() != explanation.num_nodes:
        return None
    scores, kept = bond_scores(molecule, explanation)
    chosen = [i for i, yes in enumerate(kept) if yes]
    return svg(molecule, {i: 0.25 + 0.75 * scores[i] for i in chosen}), scores, kept


def svg(molecule: Any, strength: dict[int, float], width: int = WIDTH, height: int = HEIGHT) -> str:
    """An SVG of a molecule; `strength` says how strongly each bond is highlighted, from 0 to 1."""
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DSVG(width, height)
    options = canvas.drawOptions()
    options.clearBackground = False
    options.highlightBondWidthMultiplier = 14
    options.fillHighlights = True
    options.continuousHighlight = True
    options.addStereoAnnotation = False
    options.bondLineWidth = 1.4
    colours = {i: tuple(1 - s * (1 - c) for c in COLOUR) for i, s in strength.items()}
    rdMolDraw2D.PrepareAndDrawMolecule(
        canvas,
        molecule,
        highlightAtoms=[],
        highlightBonds=list(strength),
        highlightBondColors=colours,
    )
    canvas.FinishDrawing()
    text = canvas.GetDrawingText()
    body = text[text.index("<!-- END OF HEADER -->") + len("<!-- END OF HEADER -->") :]
    body = re.sub(r"\s*\n\s*", "\n", body).strip().removesuffix("</svg>")
    return f'<svg viewBox="0 0 {width} {height}" class="molecule" aria-hidden="true">{body}</svg>'


def draw_fragment(smiles: str) -> str:
    """A small SVG of a fragment; an empty text if RDKit cannot draw it."""
    from ciga.data.reading.chem import rdkit

    chem = rdkit()
    molecule = chem.MolFromSmiles(smiles, sanitize=False)
    if molecule is None:
        return ""
    try:
        molecule.UpdatePropertyCache(strict=False)
        return svg(molecule, {}, 140, 100)
    except (ValueError, RuntimeError):
        return ""
