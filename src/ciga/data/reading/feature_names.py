"""What each column of a molecule's features means, in words; the columns are those of `featurise`."""

from __future__ import annotations

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
