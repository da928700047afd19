"""Molecules in memory: every form of them gives the same graphs, and what cannot be read is one sentence."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch

pytest.importorskip("rdkit")

from rdkit import Chem

from ciga.data.reading.in_memory import are_molecules, listed, molecule_graphs
from ciga.errors import UsageError

SMILES = ["CCO", "c1ccccc1O", "CC(=O)N"]


@pytest.mark.parametrize(
    "given",
    [
        SMILES,
        tuple(SMILES),
        (text for text in SMILES),
        pd.Series(SMILES, index=[7, 8, 9]),
        pd.DataFrame({"id": [1, 2, 3], "smiles": SMILES}),
        pd.DataFrame({"id": [1, 2, 3], "Canonical SMILES": SMILES}),
        [Chem.MolFromSmiles(text) for text in SMILES],
        ["CCO", Chem.AddHs(Chem.MolFromSmiles("c1ccccc1O")), "CC(=O)N"],
    ],
)
def test_every_form_gives_the_same_graphs(given: Any) -> None:
    items = listed(given)
    assert are_molecules(items)
    store, plain = molecule_graphs(items), molecule_graphs(SMILES)
    assert store.num_nodes.tolist() == [3, 7, 4]
    # RDKit may write the atoms in another order.
    assert torch.equal(store.x.sum(0), plain.x.sum(0))
    assert store.edge_attr is not None
    assert plain.edge_attr is not None
    assert torch.equal(store.edge_attr.sum(0), plain.edge_attr.sum(0))


def test_a_named_column_is_taken_even_beside_another() -> None:
    frame = pd.DataFrame({"smiles": ["C"], "product": ["CCO"]})
    assert listed(frame, "product") == ["CCO"]
    assert listed(frame) == ["C"]
    with pytest.raises(UsageError, match=r"no column in the table called 'smiles'.*Known: a, b"):
        listed(pd.DataFrame({"a": ["C"], "b": ["C"]}))


def test_other_things_are_not_molecules() -> None:
    assert not are_molecules(listed([1, 2]))
    assert not are_molecules(listed([]))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["CCO", "C(C"], r"^Molecule 2, 'C\(C', cannot be read: unparsable SMILES, correct the spelling\.$"),
        (["x", "CCO", "y"], r"Molecule 1, 'x', cannot be read \(2 of 3 cannot\)"),
        (["CCO", Chem.MolFromSmiles("CC(C)(C)(C)(C)C", sanitize=False)], "Molecule 2.*impossible molecule"),
        (pd.Series(["CCO", float("nan")]), "Molecule 2, '', cannot be read: missing SMILES"),
        (pd.Series(["CCO", pd.NA], dtype="string"), "Molecule 2.*missing SMILES"),
        (["CCO", None], "Molecule 2.*missing SMILES"),
        (["CCO", 3], "Molecule 2 is neither SMILES nor an RDKit molecule: int"),
        ("CCO", r"Give a list of SMILES, not one text: \['CCO'\]"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(given: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        molecule_graphs(listed(given))
