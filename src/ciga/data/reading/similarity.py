"""How alike molecules are: Tanimoto similarity of Morgan fingerprints, block by block, in bounded memory.

A fingerprint has 2048 bits, one for each kind of neighbourhood of at most two bonds around an atom. The
similarity of two molecules is the number of bits they share over the number of bits that either has.
`Nearest` answers which of many molecules, say those a model was trained on, is most like a given one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciga.data.reading import chem
from ciga.data.reading.featurise import over_chunks
from ciga.graphs.splits import Splits
from ciga.progress import Progress, silent

Bits = NDArray[np.uint8]  # [n, 256], eight bits of a fingerprint in each byte
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

#: Blocks of rows and columns that are compared at a time: some 100 MB of numbers.
ROWS, COLUMNS = 1024, 8192


def fingerprints(smiles: Sequence[str], progress: Progress = silent, workers: int | None = None) -> Bits:
    """The Morgan fingerprint of each molecule, [n, 256]; all zeros for one that RDKit cannot read."""
    chem.rdkit()
    pieces = over_chunks(chem.morgan, smiles, progress, "fingerprints", workers)
    return np.concatenate(pieces) if pieces else np.zeros((0, chem.MORGAN_BYTES), np.uint8)


class Found(NamedTuple):
    """The most similar molecule of a collection, for each of the molecules asked about."""

    place: Ints  # [q] where it stands in the collection
    similarity: Floats  # [q] from 0 to 1


def nearest(queries: Bits, collection: Bits, progress: Progress = silent) -> Found:
    """For each query the most similar molecule of the collection (the first of equals)."""
    places = np.zeros(len(queries), np.int64)
    best = np.full(len(queries), -1, np.float32)
    for start, column, block in _blocks(queries, collection, progress, "nearest molecules"):
        rows = slice(start, start + len(block))
        place = block.argmax(1)
        here = block[np.arange(len(block)), place]
        better = here > best[rows]
        places[rows] = np.where(better, place + column, places[rows])
        best[rows] = np.maximum(best[rows], here)
    return Found(places, best.clip(min=0))


@dataclass
class Nearest:
    """A collection of molecules to be asked for the one most like another."""

    bits: Bits

    @classmethod
    def of(cls, smiles: Sequence[str], progress: Progress = silent) -> Nearest:
        """The collection of these molecules."""
        return cls(fingerprints(smiles, progress))

    def __call__(self, smiles: Sequence[str], progress: Progress = silent) -> Found:
        """The place in the collection of the molecule most like each of these, and its similarity."""
        return nearest(fingerprints(smiles, progress), self.bits, progress)


# ---------------------------------------------------------------- groups of like molecules


def clusters(bits: Bits, least: float, progress: Progress = silent) -> Ints:
    """The cluster of each molecule, [n], by Butina's rule.

    The molecule with the most neighbours, those at least `least` similar, forms a cluster with them; so does
    the next one that is still free, with its free neighbours; and so on.
    """
    count = np.zeros(len(bits), np.int64)
    for start, column, block in _blocks(bits, bits, progress, "counting neighbours", upper=True):
        near = block >= least
        count[start : start + len(block)] += near.sum(1)
        beyond = max(start + len(block) - column, 0)  # what is right of the diagonal counts for both
        count[column + beyond : column + near.shape[1]] += near[:, beyond:].sum(0)
    out = np.full(len(bits), -1, np.int64)
    waiting, found = np.argsort(-count, kind="stable"), 0
    while waiting.size:
        some = waiting[:ROWS]
        # Compared in one block; a centre takes those that no earlier one has taken.
        near = np.concatenate(
            [block >= least for _, _, block in _blocks(bits[some], bits[waiting], silent, "")], axis=1
        )
        for place, centre in enumerate(some):
            if out[centre] < 0:
                own = waiting[near[place]]
                out[own[out[own] < 0]] = out[centre] = found
                found += 1
        waiting = waiting[out[waiting] < 0]
        progress(len(bits) - len(waiting), len(bits), "clusters")
    return out


def components(bits: Bits, least: float, progress: Progress = silent) -> Ints:
    """The component of each molecule, [n]: any two in different ones are less than `least` similar."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    label = np.arange(len(bits))
    for start, column, block in _blocks(bits, bits, progress, "linking neighbours", upper=True):
        row, place = np.nonzero(block >= least)
        ends = np.unique(np.stack([label[row + start], label[place + column]]), axis=1)
        ends = ends[:, ends[0] != ends[1]]
        if ends.size:
            size = len(bits)
            links = coo_matrix((np.ones(ends.shape[1], np.int8), (ends[0], ends[1])), (size, size))
            label = connected_components(links, directed=False)[1][label]
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


# ---------------------------------------------------------------- what a split asks of a model


def spread(similarity: Floats) -> dict[str, float]:
    """The median of similarities, and the values that 10 % and 90 % of them lie below."""
    low, middle, high = np.quantile(similarity, [0.1, 0.5, 0.9])
    return {"median": float(middle), "low": float(low), "high": float(high)}


def to_training(splits: Splits, progress: Progress = silent, most: int = 5000) -> dict[str, dict[str, float]]:
    """For each part but train, how similar its molecules are to their nearest training molecules.

    Empty where the graphs are not molecules. At most `most` molecules of a part are looked at, spread evenly.
    """
    columns = {part: splits[part].columns.get("smiles") for part in splits}
    if not all(isinstance(column, list) for column in columns.values()) or len(columns) < 2:
        return {}
    train = Nearest.of([str(text) for text in columns["train"] or []], progress)
    out = {}
    for part in list(splits)[1:]:
        texts = [str(text) for text in columns[part] or []]
        step = -(-len(texts) // most)
        out[part] = spread(train(texts[::step], progress).similarity)
    return out


def hardness(median: float) -> str:
    """One sentence on a split whose test molecules have this median similarity to the training molecules."""
    if median >= 0.7:
        return "This is an easy split: most test molecules have a close relative in training."
    if median >= 0.5:
        return "This is a split of middling difficulty: test molecules resemble training molecules."
    if median >= 0.35:
        return "This is a hard split: few test molecules have a close relative in training."
    return "This is a very hard split: most test molecules are unlike anything in training."


def described(found: dict[str, float], part: str) -> str:
    """The figures and the sentence, for the notes of a split."""
    return (
        f"Tanimoto similarity of {part} to its nearest training molecules: median {found['median']:.2f}, "
        f"10 % below {found['low']:.2f}, 90 % below {found['high']:.2f}. {hardness(found['median'])}"
    )


# ---------------------------------------------------------------- arithmetic

#: The number of bits in each byte there is.
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1, dtype=np.uint8)


def _blocks(
    rows: Bits, columns: Bits, progress: Progress, what: str, upper: bool = False
) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """The similarities of all rows to all columns: the first row and column of a block, and its [r, c].

    With `upper`, where rows and columns are the same, those left of the diagonal's block are left out.
    """
    total = len(rows)
    sizes = [_BITS[table].sum(1, dtype=np.float32) for table in (rows, columns)]
    for start in range(0, total, ROWS):
        some = np.unpackbits(rows[start : start + ROWS], axis=1).astype(np.float32)
        mine = sizes[0][start : start + ROWS, None]
        for column in range(start if upper else 0, len(columns), COLUMNS):
            others = np.unpackbits(columns[column : column + COLUMNS], axis=1).astype(np.float32)
            shared = some @ others.T
            either = mine + sizes[1][column : column + COLUMNS] - shared
            yield start, column, np.divide(shared, either, out=shared, where=either > 0)
        progress(min(start + ROWS, total), total, what)
