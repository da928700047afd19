"""What RDKit knows of a molecule, as small integer codes. No torch, so that worker processes start fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciga.errors import MissingExtra

SYMBOLS = ("B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "As", "Se", "Br", "Te", "I", "At")
#: Columns of the codes of an atom and of a bond.
ATOM_CODES = ("symbol", "degree", "charge", "radical", "hybridisation", "aromatic", "hydrogens", "chirality")
BOND_CODES = ("kind", "conjugated", "ring", "stereo")


@dataclass(frozen=True)
class MoleculeError:
    """A molecule that could not be read: its place in the list, and why."""

    row: int
    smiles: str
    reason: str
    detail: str = ""


class Codes(NamedTuple):
    """Molecules one after the other: n atoms and m bonds in all, those that failed left out."""

    rows: NDArray[np.int64]  # [G] the place of each molecule in the list
    atoms: NDArray[np.int16]  # [n, 8], see ATOM_CODES
    bonds: NDArray[np.int16]  # [m, 4], see BOND_CODES
    ends: NDArray[np.int32]  # [m, 2] the two atoms of a bond, from 0 within the molecule
    num_atoms: NDArray[np.int64]  # [G]
    num_bonds: NDArray[np.int64]  # [G]
    errors: list[MoleculeError]


@cache
def rdkit() -> Any:
    """The `Chem` module of RDKit, its messages off: the reasons are told with the rows."""
    try:
        from rdkit import Chem, RDLogger
    except ImportError:
        raise MissingExtra("RDKit", "chem") from None
    RDLogger.DisableLog("rdApp.*")
    return Chem


def version() -> str:
    """The version of RDKit, on which features may depend."""
    rdkit()
    from rdkit import __version__

    return str(__version__)


@cache
def _tables() -> tuple[dict[str, int], dict[Any, int], dict[Any, int], dict[Any, int]]:
    """Symbol, hybridisation, bond kind and bond stereo -> code."""
    chem = rdkit()
    hybrid, kind, stereo = chem.HybridizationType, chem.BondType, chem.BondStereo
    return (
        {symbol: code for code, symbol in enumerate(SYMBOLS)},
        {hybrid.SP: 0, hybrid.SP2: 1, hybrid.SP3: 2, hybrid.SP3D: 3, hybrid.SP3D2: 4},
        {kind.SINGLE: 0, kind.DOUBLE: 1, kind.TRIPLE: 2, kind.AROMATIC: 3},
        {
            stereo.STEREONONE: 0, stereo.STEREOANY: 1,
            stereo.STEREOZ: 2, stereo.STEREOCIS: 2, stereo.STEREOE: 3, stereo.STEREOTRANS: 3,
        },
    )  # fmt: skip


def parse(smiles: str) -> Any:
    """The RDKit molecule, or a `MoleculeError` that says what is wrong (its row is 0)."""
    text = smiles.strip()
    if not text:
        return MoleculeError(0, smiles, "missing SMILES", "fill it in or delete the row")
    if len(text.split()) > 1:
        # RDKit takes what follows a space for the molecule's name, whatever it is.
        return MoleculeError(0, smiles, "a space in the SMILES", "keep the SMILES only")
    chem = rdkit()
    molecule = chem.MolFromSmiles(text)
    if molecule is None:
        return _diagnose(smiles, text)
    if not molecule.GetNumAtoms():
        return MoleculeError(0, smiles, "a molecule without atoms", "write a SMILES with at least one atom")
    return molecule


def _diagnose(smiles: str, text: str) -> MoleculeError:
    """Whether the text is not SMILES at all, or is that of an impossible molecule."""
    chem = rdkit()
    loose = chem.MolFromSmiles(text, sanitize=False)
    if loose is None:
        return MoleculeError(0, smiles, "unparsable SMILES", "correct the spelling")
    problems = [p.Message().strip() for p in chem.DetectChemistryProblems(loose)]
    detail = problems[0].splitlines()[0] if problems else "RDKit refuses it"
    return MoleculeError(
        0, smiles, "impossible molecule", f"{detail}; correct charges, valences or aromaticity"
    )


def encode(smiles: Sequence[str]) -> Codes:
    """The codes of these molecules."""
    rows, atoms, bonds, ends, num_atoms, num_bonds = [], [], [], [], [], []
    errors: list[MoleculeError] = []
    symbols, hybrids, kinds, stereos = _tables()
    for row, text in enumerate(smiles):
        molecule = parse(text)
        if isinstance(molecule, MoleculeError):
            errors.append(MoleculeError(row, text, molecule.reason, molecule.detail))
            continue
        rows.append(row)
        num_atoms.append(molecule.GetNumAtoms())
        num_bonds.append(molecule.GetNumBonds())
        for atom in molecule.GetAtoms():
            chirality = 0
            if atom.HasProp("_ChiralityPossible"):
                code = atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else ""
                chirality = {"R": 2, "S": 3}.get(code, 1)
            atoms.append(
                (
                    symbols.get(atom.GetSymbol(), len(SYMBOLS)),
                    min(atom.GetDegree(), 5),
                    atom.GetFormalCharge(),
                    atom.GetNumRadicalElectrons(),
                    hybrids.get(atom.GetHybridization(), 5),
                    atom.GetIsAromatic(),
                    min(atom.GetNumImplicitHs(), 4),
                    chirality,
                )
            )
        for bond in molecule.GetBonds():
            ends.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
            kind = kinds.get(bond.GetBondType(), len(kinds))
            # Z and E are of double bonds; asking the others takes time for nothing.
            stereo = stereos.get(bond.GetStereo(), 1) if kind == 1 else 0
            bonds.append((kind, bond.GetIsConjugated(), bond.IsInRing(), stereo))
    return Codes(
        np.array(rows, dtype=np.int64),
        np.array(atoms, dtype=np.int16).reshape(-1, len(ATOM_CODES)),
        np.array(bonds, dtype=np.int16).reshape(-1, len(BOND_CODES)),
        np.array(ends, dtype=np.int32).reshape(-1, 2),
        np.array(num_atoms, dtype=np.int64),
        np.array(num_bonds, dtype=np.int64),
        errors,
    )


def murcko(smiles: Sequence[str]) -> list[str]:
    """The Murcko scaffold of each molecule, as SMILES; empty for a molecule without rings."""
    chem = rdkit()
    from rdkit.Chem.Scaffolds import MurckoScaffold

    out = []
    for text in smiles:
        molecule = parse(text)
        core = None if isinstance(molecule, MoleculeError) else MurckoScaffold.GetScaffoldForMol(molecule)
        # Chirality is of no account for the skeleton: two enantiomers belong on the same side of a cut.
        out.append("" if core is None else chem.MolToSmiles(core, isomericSmiles=False))
    return out


#: Morgan fingerprints: neighbourhoods of up to this many bonds, in this many bytes.
MORGAN_RADIUS, MORGAN_BYTES = 2, 256


def morgan(smiles: Sequence[str]) -> NDArray[np.uint8]:
    """The Morgan fingerprint of each molecule, packed, [n, 256]; all zeros where there is no molecule."""
    rdkit()
    from rdkit.Chem import rdFingerprintGenerator
    from rdkit.DataStructs import ConvertToNumpyArray

    make = rdFingerprintGenerator.GetMorganGenerator(radius=MORGAN_RADIUS, fpSize=8 * MORGAN_BYTES)
    out = np.zeros((len(smiles), MORGAN_BYTES), np.uint8)
    bits = np.zeros(8 * MORGAN_BYTES, np.uint8)
    for row, text in enumerate(smiles):
        molecule = parse(text)
        if not isinstance(molecule, MoleculeError):
            ConvertToNumpyArray(make.GetFingerprint(molecule), bits)
            out[row] = np.packbits(bits)
    return out
