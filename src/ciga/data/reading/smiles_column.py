"""Which column of a table holds SMILES, where the user did not say and one is obvious."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ciga.data.reading import chem, tables

#: The name of the option's default, and other names such columns have.
DEFAULT = "smiles"
NAMES = ("smiles", "canonical_smiles", "isomeric_smiles", "smile", "smi", "structure", "mol", "molecule")
#: The number of rows to look at where the names do not tell.
LOOKED_AT = 50


def find_smiles_column(path: Path, wanted: str, notes: dict[str, str] | None = None) -> str:
    """The column called `wanted`; if that is the default and not there, the one obvious column of SMILES.

    A column that was found in this way is noted under `smiles`. Where none or several would do, `wanted`
    stays, and reading the table says what is missing.
    """
    if wanted != DEFAULT:
        return wanted
    columns = [name for name in tables.columns_of(path) if name]
    if wanted in columns or not columns:
        return wanted
    found = named_for_smiles(columns) or _by_content(path, columns)
    if len(found) != 1:
        return wanted
    if notes is not None:
        notes["smiles"] = f"taken from the column '{found[0]}', the only one that looks like SMILES"
    return found[0]


def named_for_smiles(columns: Sequence[str]) -> list[str]:
    """The columns whose names say that they hold SMILES."""
    return [name for name in columns if _plain(name) in NAMES] or [
        name for name in columns if "smiles" in name.lower()
    ]


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _by_content(path: Path, columns: list[str]) -> list[str]:
    """The columns in which nearly all of the first cells are molecules of a few atoms."""
    unique = [name for name in columns if columns.count(name) == 1]
    first = next(tables.read_chunks(path, unique, LOOKED_AT), None)
    if first is None or not len(first):
        return []
    return [name for name in unique if _share(first.values[name]) >= 0.9]


def _share(cells: list[str]) -> float:
    """How many of the filled cells are molecules of at least three atoms on average."""
    filled = [cell for cell in cells if not tables.is_missing(cell)]
    if not filled or all(cell.replace(".", "").isdigit() for cell in filled):
        return 0.0
    molecules = [chem.parse(cell) for cell in filled]
    good = [m for m in molecules if not isinstance(m, chem.MoleculeError)]
    atoms = sum(molecule.GetNumAtoms() for molecule in good)
    return len(good) / len(filled) if good and atoms / len(good) >= 3 else 0.0
