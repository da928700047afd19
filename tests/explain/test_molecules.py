"""Pictures of molecules: halos where bonds are kept, letters above them, colours from the style sheet."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from ciga.explain.explanation import Explanation
from ciga.explain.molecules import BOND, draw_fragment, draw_molecule
from tests.helpers import undirected

chem: Any = pytest.importorskip("rdkit.Chem", reason="RDKit is missing: pip install 'ciga[chem]'")


def explained(smiles: str, keep: set[int], score: float = 0.5) -> Explanation:
    molecule = chem.MolFromSmiles(smiles)
    index = undirected([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()])
    number = [molecule.GetBondBetweenAtoms(*ends).GetIdx() for ends in index.T.tolist()]
    kept = torch.tensor([i in keep for i in number])
    nodes = torch.zeros(molecule.GetNumAtoms(), 1)
    return Explanation(index, torch.full((len(number),), score), kept, nodes, None, torch.ones(1))


def drawn(smiles: str, keep: set[int], score: float = 0.5) -> str:
    found = draw_molecule(smiles, explained(smiles, keep, score))
    assert found is not None
    return found[0]


def test_only_kept_bonds_have_a_halo_and_every_bond_can_be_pointed_at() -> None:
    svg = drawn("CC(=O)Nc1ccccc1", {1, 4})
    assert set(re.findall(r'class="bond-(\d+) halo" style="--s:0.50"', svg)) == {"1", "4"}
    assert len(re.findall(r'class="bond-\d+ hit"', svg)) == 8


def test_letters_lie_above_the_halo() -> None:
    svg = drawn("CC(=O)Nc1ccccc1", set(range(10)))
    kinds = re.findall(r'class="(?:bond-\d+ )?(halo|b|f)[" ]', svg)
    assert kinds == sorted(kinds, key=["halo", "b", "f"].index)
    assert kinds[-1] == "f"


def test_colours_are_left_to_the_style_sheet() -> None:
    svg = drawn("OC(=O)c1c(F)c(Cl)c(Br)c(S)c1N", {0})
    assert not re.search(r"#[0-9A-Fa-f]{6}|fill=|stroke=", svg)
    for element in ("O", "N", "F", "Cl", "Br", "S"):
        assert re.search(f'class="f {element}"', svg)


def test_a_small_molecule_is_not_blown_up() -> None:
    line = re.search(r'class="bond-0 halo"[^>]*', drawn("CO", {0}))
    assert line is not None
    x1, y1, x2, y2 = (float(v) for v in re.findall(r'[xy]\d="([\d.]+)"', line[0]))
    assert ((x1 - x2) ** 2 + (y1 - y2) ** 2) ** 0.5 == pytest.approx(BOND, abs=0.5)


@pytest.mark.parametrize("smiles", ["[CH3]", "[Na+].[Cl-]", "C[C@H](F)Cl", "[NH3]->[Pt]", "[13CH4]", "[Fe]"])
def test_odd_molecules_are_drawn(smiles: str) -> None:
    assert drawn(smiles, set()).count("<path") >= 1


def test_a_dashed_bond_stays_dashed() -> None:
    assert "stroke-dasharray" in drawn("C~CO", set())
    assert "stroke-dasharray" not in drawn("CCO", set())


def test_a_piece_shows_where_it_was_cut() -> None:
    assert 'class="b dummy"' in draw_fragment("*S*")
    assert "dummy" not in draw_fragment("S")
    assert draw_fragment("C(") == ""


def test_another_graph_is_not_drawn() -> None:
    assert draw_molecule("CCO", explained("CC", {0})) is None
    assert draw_molecule("C(", explained("CC", {0})) is None
