"""Names of rows: found in the column that holds them, and never a reason to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from ciga.data import load
from ciga.data.reading.row_names import name_column, row_names
from tests.small_models import write_molecules


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (["smiles", "Compound ID", "name"], "name"),
        (["smiles", "Molecule ChEMBL ID", "y"], "Molecule ChEMBL ID"),
        (["mol_id", "smiles"], "mol_id"),
        (["smiles", "label"], None),
        (["id", "smiles"], None),
    ],
)
def test_the_column_of_names(header: list[str], found: str | None) -> None:
    assert name_column(header, taken=("id",)) == found


def test_names_follow_their_rows(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="RDKit is missing: pip install 'ciga[chem]'")
    path = write_molecules(tmp_path / "mols.csv")
    options = {"path": str(path), "label": "active"}
    store = load("csv", **options).train
    names = row_names(store, {"dataset": "csv", "options": options})
    assert names is not None
    lines = path.read_text().splitlines()
    for name, smiles in zip(names, store.columns["smiles"], strict=True):
        assert any(line.startswith(f"{name},{smiles},") for line in lines)
    assert row_names(store, {"dataset": "spmotif", "options": {}}) is None
    path.unlink()
    assert row_names(store, {"dataset": "csv", "options": options}) is None
