"""Molecules that are in memory: SMILES, RDKit molecules, or a column of a pandas table, as graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ciga.data.reading import chem
from ciga.data.reading.featurise import featurise
from ciga.data.reading.smiles_column import DEFAULT, named_for_smiles
from ciga.errors import UsageError, unknown
from ciga.graphs.store import GraphStore


def listed(given: Any, column: str = DEFAULT) -> list[Any]:
    """What a list, an array, a Series or a column of a DataFrame holds; an empty cell is None."""
    if isinstance(given, str):
        raise UsageError(f"Give a list of SMILES, not one text: [{given!r}].")
    if hasattr(given, "columns") and hasattr(given, "iloc"):
        names = {str(name): name for name in given.columns}
        given = given[names[_column(list(names), column)]]
    return [None if _is_empty(item) else item for item in given]


def are_molecules(items: Iterable[Any]) -> bool:
    """Whether there are SMILES or RDKit molecules among these."""
    return any(isinstance(item, str) or _is_molecule(item) for item in items)


def molecule_graphs(items: Sequence[Any]) -> GraphStore:
    """The graphs of these SMILES or RDKit molecules; one that cannot be read is an error.

    An RDKit molecule is written as SMILES first: it is read like all others, and its atoms are counted in
    the order of that SMILES.
    """
    smiles = [_text(item, place) for place, item in enumerate(items, 1)]
    store, _, errors = featurise(smiles)
    if errors:
        first = errors[0]
        many = f" ({len(errors)} of {len(smiles)} cannot)" if len(errors) > 1 else ""
        raise UsageError(
            f"Molecule {first.row + 1}, {first.smiles[:80]!r}, cannot be read{many}: {first.reason}"
            + (f", {first.detail}." if first.detail else ".")
        )
    return store


def _column(names: list[str], wanted: str) -> str:
    if wanted in names:
        return wanted
    found = named_for_smiles(names)
    if len(found) != 1:
        raise unknown("column in the table", wanted, names)
    return found[0]


def _is_empty(item: Any) -> bool:
    """Whether this is one of pandas' ways to say that a cell is empty."""
    return (isinstance(item, float) and item != item) or type(item).__name__ == "NAType"


def _is_molecule(item: Any) -> bool:
    return hasattr(item, "GetAtoms") and hasattr(item, "GetBonds")


def _text(item: Any, place: int) -> str:
    if item is None:  # an empty cell, or what RDKit returns for a text that it cannot read
        return ""
    if isinstance(item, str):
        return item
    if not _is_molecule(item):
        raise UsageError(f"Molecule {place} is neither SMILES nor an RDKit molecule: {type(item).__name__}.")
    rdkit = chem.rdkit()
    # Hydrogens that are atoms would be written in brackets, and features count only implicit ones.
    return str(rdkit.MolToSmiles(rdkit.RemoveHs(item, sanitize=False)))
