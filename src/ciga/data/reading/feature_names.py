"""What each column of a molecule's features means, in words; the columns are those of `featurise`."""

from __future__ import annotations

import re

from ciga.data.reading.chem import SYMBOLS

_ELEMENTS = {
    "B": "boron", "C": "carbon", "N": "nitrogen", "O": "oxygen", "F": "fluorine", "Si": "silicon",
    "P": "phosphorus", "S": "sulphur", "Cl": "chlorine", "As": "arsenic", "Se": "selenium", "Br": "bromine",
    "Te": "tellurium", "I": "iodine", "At": "astatine",
}  # fmt: skip

ATOM_NAMES = (
    *(f"{_ELEMENTS[symbol]} atom" for symbol in SYMBOLS),
    "atom of another element",
    "atom without neighbours",
    "atom with 1 neighbour",
    *(f"atom with {n} neighbours" for n in (2, 3, 4)),
    "atom with 5 or more neighbours",
    "formal charge of an atom",
    "radical electrons of an atom",
    *(f"{kind} atom" for kind in ("sp", "sp2", "sp3", "sp3d", "sp3d2")),
    "atom of another hybridisation",
    "aromatic atom",
    "atom without implicit hydrogens",
    "atom with 1 implicit hydrogen",
    *(f"atom with {n} implicit hydrogens" for n in (2, 3)),
    "atom with 4 or more implicit hydrogens",
    "possible stereocentre",
    "R stereocentre",
    "S stereocentre",
)

BOND_NAMES = (
    "single bond",
    "double bond",
    "triple bond",
    "aromatic bond",
    "conjugated bond",
    "bond in a ring",
    "bond without stereo",
    "bond of undefined stereo",
    "Z double bond",
    "E double bond",
)

COLUMN = re.compile(r"\b(x|edge_attr)\[(\d+)\]")


def feature_name(name: str) -> str | None:
    """`x[30]` -> "aromatic atom"; None for what is not such a column."""
    found = COLUMN.fullmatch(name)
    names = {"x": ATOM_NAMES, "edge_attr": BOND_NAMES}[found[1]] if found else ()
    return names[int(found[2])] if found and int(found[2]) < len(names) else None


def with_names(text: str) -> str:
    """A sentence about molecules, with atoms and bonds in place of `x` and `edge_attr`."""
    text = re.sub(r"\bcolumn(s?) of x\b", r"atom feature\1", text)
    text = re.sub(r"\bcolumn(s?) of edge_attr\b", r"bond feature\1", text)
    return COLUMN.sub(lambda found: feature_name(found[0]) or found[0], text)
