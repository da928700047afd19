"""Molecules with the features that OGB gives atoms and bonds, in place of DrugOOD's: for the search alone.

OGB numbers each property and looks its number up in a table of embeddings; their sum enters the first layer.
A column of zeros and ones for each number, followed by a linear layer, is the same. A property that never
varies in training has columns that never vary, which harm nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ciga.data.reading import chem
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore

#: How many numbers each property of an atom and of a bond may have; the last one stands for all others.
ATOMS = {
    "element": 119,
    "chirality": 4,
    "degree": 12,
    "charge": 12,
    "hydrogens": 10,
    "radicals": 6,
    "hybridisation": 6,
    "aromatic": 2,
    "in a ring": 2,
}
BONDS = {"kind": 5, "stereo": 6, "conjugated": 2}


def with_ogb(splits: Splits) -> Splits:
    """The same molecules in the same parts, with the other features."""
    return replace(splits, parts={name: _store(splits[name]) for name in splits})


def _store(store: GraphStore) -> GraphStore:
    atoms, bonds, ends, nodes, edges = [], [], [], [0], [0]
    for smiles in store.columns["smiles"]:
        molecule = chem.parse(str(smiles))
        atoms += [_atom(atom) for atom in molecule.GetAtoms()]
        for bond in molecule.GetBonds():
            u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            ends += [(u, v), (v, u)]
            bonds += 2 * [_bond(bond)]
        nodes.append(len(atoms))
        edges.append(len(ends))
    assert torch.equal(torch.tensor(nodes), store.node_ptr)
    return GraphStore(
        _columns(atoms, list(ATOMS.values())),
        torch.tensor(ends).reshape(-1, 2).t().contiguous(),
        torch.tensor(nodes),
        torch.tensor(edges),
        store.y,
        edge_attr=_columns(bonds, list(BONDS.values())),
        columns=store.columns,
    )


def _atom(atom: Any) -> tuple[int, ...]:
    return (
        atom.GetAtomicNum() - 1,
        int(atom.GetChiralTag()),
        atom.GetTotalDegree(),
        atom.GetFormalCharge() + 5,
        atom.GetTotalNumHs(),
        atom.GetNumRadicalElectrons(),
        int(atom.GetHybridization()) - 2,  # SP is 2
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


def _bond(bond: Any) -> tuple[int, ...]:
    kinds = {1.0: 0, 2.0: 1, 3.0: 2, 1.5: 3}
    return kinds.get(bond.GetBondTypeAsDouble(), 4), int(bond.GetStereo()), int(bond.GetIsConjugated())


def _columns(codes: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> Tensor:
    """[n, properties] numbers -> [n, sum of sizes] zeros and ones."""
    numbers = torch.tensor(codes, dtype=torch.long).reshape(-1, len(sizes))
    parts = []
    for column, size in zip(numbers.unbind(1), sizes, strict=True):
        known = torch.where((column >= 0) & (column < size), column, size - 1)
        parts.append(torch.nn.functional.one_hot(known, size).float())
    return torch.cat(parts, 1)
