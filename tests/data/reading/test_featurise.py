"""Features against molecules worked out by hand."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("rdkit")

from ciga.data.reading import chem
from ciga.data.reading.featurise import ATOM_FEATURES, BOND_FEATURES, CHUNK, featurise, scaffolds
from ciga.graphs.store import GraphStore

# Where each feature stands.
ELEMENTS = ("B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "As", "Se", "Br", "Te", "I", "At", "other")
SYMBOL = {symbol: place for place, symbol in enumerate(ELEMENTS)}
HYBRID = {"sp": 24, "sp2": 25, "sp3": 26, "sp3d": 27, "sp3d2": 28, "other": 29}
CHARGE, RADICAL, AROMATIC, CENTRE, R, S = 22, 23, 30, 36, 37, 38
SINGLE, DOUBLE, TRIPLE, AROMATIC_BOND, CONJUGATED, RING, NO_STEREO, ANY, Z, E = range(10)


def one(smiles: str) -> GraphStore:
    store, rows, errors = featurise([smiles])
    assert rows == [0]
    assert errors == []
    assert store.num_graphs == 1
    assert store.x.shape[1] == ATOM_FEATURES == 39
    assert store.edge_features == BOND_FEATURES == 10
    return store


def atom(symbol: str, degree: int, hybrid: str, hydrogens: int, **more: float) -> dict[int, float]:
    """The non-zero features of an atom: column -> value."""
    names = {"charge": CHARGE, "radical": RADICAL, "aromatic": AROMATIC, "centre": CENTRE, "R": R, "S": S}
    ones = {SYMBOL[symbol]: 1.0, 16 + degree: 1.0, HYBRID[hybrid]: 1.0, 31 + hydrogens: 1.0}
    return ones | {names[key]: float(value) for key, value in more.items()}


def nonzero(row: torch.Tensor) -> dict[int, float]:
    return {i: v for i, v in enumerate(row.tolist()) if v}


def assert_atoms(store: GraphStore, *expected: dict[int, float]) -> None:
    assert [nonzero(row) for row in store.x] == list(expected)


def bonds(store: GraphStore) -> list[set[int]]:
    """The features that are set, bond by bond; both directions must agree."""
    assert store.edge_attr is not None
    forward, backward = store.edge_index[:, ::2], store.edge_index[:, 1::2]
    assert torch.equal(forward, backward.flip(0))
    assert torch.equal(store.edge_attr[::2], store.edge_attr[1::2])
    return [set(nonzero(row)) for row in store.edge_attr[::2]]


def test_ethanol() -> None:
    store = one("CCO")
    assert_atoms(store, atom("C", 1, "sp3", 3), atom("C", 2, "sp3", 2), atom("O", 1, "sp3", 1))
    assert store.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert bonds(store) == [{SINGLE, NO_STEREO}] * 2
    assert store.columns["smiles"] == ["CCO"]


def test_benzene() -> None:
    store = one("c1ccccc1")
    assert_atoms(store, *[atom("C", 2, "sp2", 1, aromatic=1)] * 6)
    assert bonds(store) == [{AROMATIC_BOND, CONJUGATED, RING, NO_STEREO}] * 6


def test_kekule_spelling_gives_the_same_graph() -> None:
    assert torch.equal(one("C1=CC=CC=C1").x, one("c1ccccc1").x)


def test_triple_bond() -> None:
    store = one("C#N")
    assert_atoms(store, atom("C", 1, "sp", 1), atom("N", 1, "sp", 0))
    assert bonds(store) == [{TRIPLE, NO_STEREO}]


def test_aromatic_nitrogen_with_and_without_hydrogen() -> None:
    pyridine, pyrrole = one("n1ccccc1"), one("[nH]1cccc1")
    assert nonzero(pyridine.x[0]) == atom("N", 2, "sp2", 0, aromatic=1)
    # The hydrogen of [nH] stands in brackets: it is explicit, not implicit.
    assert nonzero(pyrrole.x[0]) == atom("N", 2, "sp2", 0, aromatic=1)
    assert nonzero(pyrrole.x[1]) == atom("C", 2, "sp2", 1, aromatic=1)


def test_charges() -> None:
    store = one("C[N+](C)(C)C")
    assert nonzero(store.x[1]) == atom("N", 4, "sp3", 0, charge=1)
    acetate = one("CC(=O)[O-]")
    assert nonzero(acetate.x[1]) == atom("C", 3, "sp2", 0)
    assert acetate.x[:, CHARGE].tolist() == [0, 0, 0, -1]
    assert bonds(acetate)[1] >= {DOUBLE, NO_STEREO}


def test_radical() -> None:
    assert one("C[CH2]").x[:, RADICAL].tolist() == [0, 1]


def test_stereocentres() -> None:
    # Priorities Cl > F > CH3 > H: seen against H, Cl -> F -> CH3 runs clockwise in the first, so it is R.
    for smiles, which in (("C[C@H](F)Cl", {"R": 1}), ("C[C@@H](F)Cl", {"S": 1}), ("CC(F)Cl", {})):
        hydrogens = 0 if which else 1  # in brackets, or implicit
        assert nonzero(one(smiles).x[1]) == atom("C", 3, "sp3", hydrogens, centre=1, **which), smiles
    assert nonzero(one("CC(F)F").x[1]) == atom("C", 3, "sp3", 1)


def test_double_bond_stereo() -> None:
    assert bonds(one("F/C=C/F"))[1] == {DOUBLE, E}
    assert bonds(one("F/C=C\\F"))[1] == {DOUBLE, Z}
    assert bonds(one("FC=CF"))[1] == {DOUBLE, NO_STEREO}


def test_single_atom_is_a_graph_without_edges() -> None:
    store = one("C")
    assert_atoms(store, atom("C", 0, "sp3", 4))
    assert store.edge_index.shape == (2, 0)
    assert store.edge_attr is not None
    assert store.edge_attr.shape == (0, 10)


def test_salt_is_one_graph_of_two_pieces() -> None:
    store = one("CC(=O)[O-].[Na+]")
    assert store.num_nodes.tolist() == [5]
    assert store.num_edges.tolist() == [6]
    assert 4 not in store.edge_index
    assert nonzero(store.x[4]) == atom("other", 0, "other", 0, charge=1)


def test_beyond_the_tables() -> None:
    sulphur = one("FS(F)(F)(F)(F)F").x[1]
    assert nonzero(sulphur) == atom("S", 5, "sp3d2", 0)  # six neighbours count as five
    dative = one("[NH3]->[Cu]")
    assert bonds(dative) == [{NO_STEREO}]


BAD = {
    "": "missing SMILES",
    "  ": "missing SMILES",
    "C(C": "unparsable SMILES",
    "not a molecule": "a space in the SMILES",
    "CCO ethanol": "a space in the SMILES",
    "hello": "unparsable SMILES",
    "C(C)(C)(C)(C)C": "impossible molecule",
    "c1cccc1": "impossible molecule",
}


def test_what_cannot_be_read_is_an_error_with_its_row() -> None:
    smiles = [text for bad in BAD for text in (bad, "CO")]
    store, rows, errors = featurise(smiles)
    assert rows == [i for i, text in enumerate(smiles) if text == "CO"]
    assert store.num_graphs == len(BAD)
    assert [(e.row, e.smiles, e.reason) for e in errors] == [
        (2 * i, *pair) for i, pair in enumerate(BAD.items())
    ]
    assert all(e.detail for e in errors)
    assert "valence" in errors[6].detail.lower()


def test_nothing_gives_an_empty_store() -> None:
    for smiles in ([], ["xx"]):
        store, rows, errors = featurise(smiles)
        assert store.num_graphs == len(rows) == 0
        assert store.num_features == 39
        assert len(errors) == len(smiles)


def test_chunks_and_workers_change_nothing() -> None:
    kinds = ["CCO", "c1ccccc1", "C", "broken(", "CC(=O)[O-].[Na+]", "C[C@H](F)Cl"]
    smiles = [kinds[i % len(kinds)] for i in range(2 * CHUNK + 44)]
    seen: list[tuple[int, int, str]] = []
    alone = featurise(smiles, progress=lambda *report: seen.append(report), workers=1)
    assert seen[-1][:2] == (len(smiles), len(smiles))
    assert [s[0] for s in seen] == sorted(s[0] for s in seen)
    together = featurise(smiles, workers=2)
    assert together.store.fingerprint() == alone.store.fingerprint()
    assert together.rows == alone.rows
    assert together.errors == alone.errors
    assert [smiles[r] for r in alone.rows] == alone.store.columns["smiles"]
    # Chunks are joined in order: the last graph is that of the last SMILES that can be read.
    last = alone.store.subset([alone.store.num_graphs - 1])
    assert torch.equal(last.x, featurise([smiles[alone.rows[-1]]]).store.x)


def test_scaffolds() -> None:
    smiles = ["CCc1ccccc1", "OC1CCCC1", "CCO", "C[C@H]1CC[C@@H](O)CC1", "O=C1CCCCC1"]
    assert scaffolds(smiles) == ["c1ccccc1", "C1CCCC1", "", "C1CCCCC1", "O=C1CCCCC1"]


def test_without_rdkit_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    chem.rdkit.cache_clear()
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(chem.MissingExtra, match=r"ciga\[chem\]"):
        featurise(["C"])
    chem.rdkit.cache_clear()
