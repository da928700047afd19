"""Molecules as graphs: 39 features an atom, 10 a bond, every bond in both directions (DrugOOD's features).

| columns | atom                                                                                       |
|---------|--------------------------------------------------------------------------------------------|
| 0–15    | element: B C N O F Si P S Cl As Se Br Te I At, other                                        |
| 16–21   | degree 0…5 (a higher one counts as 5)                                                       |
| 22, 23  | formal charge, radical electrons (numbers)                                                  |
| 24–29   | hybridisation sp sp2 sp3 sp3d sp3d2, other                                                  |
| 30      | aromatic                                                                                    |
| 31–35   | implicit hydrogens 0…4 (those written in brackets, as in [nH], do not count)                |
| 36–38   | may be a stereocentre, is R, is S                                                           |

| columns | bond                                                                                       |
|---------|--------------------------------------------------------------------------------------------|
| 0–3     | single, double, triple, aromatic (none of them for others, such as dative bonds)            |
| 4, 5    | conjugated, in a ring                                                                       |
| 6–9     | stereo: none, any, Z, E                                                                     |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ciga.data.reading import chem
from ciga.data.reading.chem import Codes, MoleculeError
from ciga.graphs.store import GraphStore
from ciga.parallel import parallel_map
from ciga.progress import Progress, silent

ATOM_FEATURES = 39
BOND_FEATURES = 10
#: Raised when a feature changes, so that caches of older ones are not taken for these.
VERSION = 1
#: Molecules handed to a worker at a time; and the number from which starting workers pays.
CHUNK = 256
PARALLEL_FROM = 4096

Result = TypeVar("Result")


class Featurised(NamedTuple):
    """The graphs of the molecules that could be read, their places in the list, and those that could not."""

    store: GraphStore
    rows: list[int]
    errors: list[MoleculeError]


def featurise(smiles: Sequence[str], progress: Progress = silent, workers: int | None = None) -> Featurised:
    """Graphs of these SMILES, in order; the store has them (as given) in the column `smiles`.

    A SMILES that cannot be read gives no graph but an error with its place in the list.
    """
    chem.rdkit()
    pieces = over_chunks(chem.encode, smiles, progress, "featurising molecules", workers)
    starts = range(0, len(smiles), CHUNK)
    rows = [int(row) + start for start, piece in zip(starts, pieces, strict=True) for row in piece.rows]
    errors = [
        replace(error, row=error.row + start)
        for start, piece in zip(starts, pieces, strict=True)
        for error in piece.errors
    ]
    return Featurised(_store(pieces, [smiles[row] for row in rows]), rows, errors)


def scaffolds(smiles: Sequence[str], progress: Progress = silent, workers: int | None = None) -> list[str]:
    """The Murcko scaffold of each molecule, as SMILES without stereo; empty where there is no ring."""
    chem.rdkit()
    pieces = over_chunks(chem.murcko, smiles, progress, "finding scaffolds", workers)
    return [scaffold for piece in pieces for scaffold in piece]


def over_chunks(
    function: Callable[[Sequence[str]], Result],
    smiles: Sequence[str],
    progress: Progress,
    what: str,
    workers: int | None,
) -> list[Result]:
    """`function` over the molecules, some hundred at a time, in worker processes if there are many.

    Args:
        function: From a list of SMILES to any result; a top-level function.
        smiles: All molecules.
        progress: Told how many are done.
        what: What is being done, for the progress.
        workers: The number of processes; None: as many as pay.
    """
    total = len(smiles)
    chunks = [list(smiles[start : start + CHUNK]) for start in range(0, total, CHUNK)]
    if workers is None and total < PARALLEL_FROM:
        workers = 1

    def report(done: int, _: int, label: str) -> None:
        progress(min(done * CHUNK, total), total, label)

    return parallel_map(function, chunks, report, what, workers, chunk=1)


def _store(pieces: Sequence[Codes], smiles: list[str]) -> GraphStore:
    """Codes -> features, for all molecules at once."""
    pieces = pieces or [chem.encode([])]
    atoms, bonds, ends = (torch.from_numpy(_joined(pieces, name)) for name in ("atoms", "bonds", "ends"))
    nodes, pairs = (torch.from_numpy(_joined(pieces, name)) for name in ("num_atoms", "num_bonds"))
    # Each bond twice in a row, u -> v and then v -> u.
    edge_index = torch.stack([ends, ends.flip(1)], dim=1).reshape(-1, 2).t().contiguous()
    return GraphStore(
        _atom_features(atoms),
        edge_index,
        _pointer(nodes),
        _pointer(2 * pairs),
        edge_attr=_bond_features(bonds).repeat_interleave(2, dim=0),
        columns={"smiles": smiles},
    )


def _atom_features(codes: Tensor) -> Tensor:
    """[n, 8] codes -> [n, 39]."""
    symbol, degree, charge, radical, hybridisation, aromatic, hydrogens, chirality = codes.long().unbind(1)
    x = torch.zeros(len(codes), ATOM_FEATURES)
    row = torch.arange(len(codes))
    for first, code in ((0, symbol), (16, degree), (24, hybridisation), (31, hydrogens)):
        x[row, first + code] = 1
    for column, value in ((22, charge), (23, radical), (30, aromatic), (36, chirality > 0)):
        x[:, column] = value.float()
    x[:, 37], x[:, 38] = (chirality == 2).float(), (chirality == 3).float()
    return x


def _bond_features(codes: Tensor) -> Tensor:
    """[m, 4] codes -> [m, 10]."""
    kind, conjugated, ring, stereo = codes.long().unbind(1)
    out = torch.zeros(len(codes), BOND_FEATURES)
    row = torch.arange(len(codes))
    known = kind < 4
    out[row[known], kind[known]] = 1
    out[:, 4], out[:, 5] = conjugated.float(), ring.float()
    out[row, 6 + stereo] = 1
    return out


def _joined(pieces: Sequence[Codes], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(piece, name) for piece in pieces])


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
