"""Which training graph is most like a new one, and how alike the two are, from 0 to 1.

Molecules are compared by the Tanimoto similarity of their Morgan fingerprints, as everywhere in the library
(`ciga.data.reading.similarity`): kinds of neighbourhoods of at most two bonds that both have, over those that
either has. They need the SMILES of the graphs. Other graphs are compared in the same way by their
Weisfeiler-Lehman labels, and there each label counts as often as it occurs.

A model keeps the fingerprints of its training graphs (256 bytes each), of at most `MOST`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ciga.data.reading.similarity import Bits, fingerprints, nearest
from ciga.errors import CigaError, MissingExtra
from ciga.graphs import columns
from ciga.graphs.names import mix
from ciga.graphs.store import Batch, GraphStore
from ciga.methods.forest.fingerprint import CHEMICAL, Naming, neighbourhoods

MOST = 10_000
RADIUS, BYTES = 2, 256
#: Beside the kinds of names that `Naming` knows: what RDKit makes of SMILES.
MORGAN = Naming(CHEMICAL + 1, CHEMICAL + 1)


class NearestGraph(NamedTuple):
    """The training graph that is most like each graph of a batch."""

    place: Tensor  # [G] its place in the collection
    similarity: Tensor  # [G]


@dataclass
class Neighbours:
    """Training graphs, to be asked for the one most like another."""

    bits: Bits  # [n, 256]
    naming: Naming
    rows: list[int]  # of the training graphs: their row in the file, or their place, from 1
    names: list[str]  # their SMILES; empty for other graphs

    @classmethod
    def of(cls, train: GraphStore) -> Neighbours:
        """Those of the training graphs; of more than `MOST`, evenly spread ones."""
        step = -(-train.num_graphs // MOST)
        some = train.subset(slice(0, None, step)) if step > 1 else train
        row, names = some.columns.get("row"), smiles_of(some)
        places = torch.arange(some.num_graphs) * step + 1
        rows = row.tolist() if isinstance(row, Tensor) else places.tolist()
        if names is not None:
            with suppress(MissingExtra):
                return cls(fingerprints(names), MORGAN, rows, names)
        naming = Naming.of(some)
        bits = [fingerprint(batch, naming) for batch in some.batches(256, chunk=4)]
        return cls(np.concatenate(bits), naming, rows, names or [])

    def __call__(self, batch: Batch, store: GraphStore | None = None) -> NearestGraph | None:
        """The nearest training graph of each graph of a batch of `store`; None for want of its SMILES."""
        if self.naming != MORGAN:
            bits = fingerprint(batch, self.naming)
        else:
            names = None if store is None else smiles_of(store)
            if names is None:
                return None
            bits = fingerprints([names[row] for row in batch.index.tolist()], workers=1)
        found = nearest(bits, self.bits)
        return NearestGraph(torch.from_numpy(found.place), torch.from_numpy(found.similarity))

    def among_themselves(self) -> Tensor:
        """How similar each second graph is to the nearest of the others: what is usual without other data."""
        if len(self.bits) < 2:
            return torch.ones(1)
        return torch.from_numpy(nearest(self.bits[1::2], self.bits[::2]).similarity)

    def name(self, place: int) -> str:
        """What to call a training graph: its SMILES, or its row."""
        return self.names[place] if self.names else f"row {self.rows[place]}"

    # ---------------------------------------------------------------- files

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a file."""
        kept: dict[str, columns.Column] = {"row": torch.tensor(self.rows, dtype=torch.long)}
        if self.names:
            kept["smiles"] = self.names
        naming = torch.tensor([self.naming.nodes, self.naming.edges])
        return {"bits": torch.from_numpy(self.bits), "naming": naming, **columns.to_tensors(kept)}

    @classmethod
    def restore(cls, tensors: dict[str, Tensor]) -> Neighbours:
        """From a file; refuses what does not fit together."""
        tensors = dict(tensors)
        try:
            found = columns.from_tensors(tensors)
            bits, naming = tensors.pop("bits"), tensors.pop("naming").tolist()
            rows, names = found.pop("row"), found.pop("smiles", [])
            sound = (
                not tensors
                and not found
                and bits.dtype == torch.uint8
                and bits.dim() == 2
                and bits.size(1) == BYTES
                and 0 < len(bits) == len(rows)
                and len(names) in (0, len(bits))
                and len(naming) == 2
                and (all(0 <= kind <= CHEMICAL for kind in naming) or Naming(*naming) == MORGAN)
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError):
            sound = False
        if not sound:
            raise CigaError("The fingerprints of the training graphs do not fit together.")
        return cls(bits.numpy(), Naming(*naming), [int(row) for row in rows], [str(name) for name in names])


def smiles_of(store: GraphStore) -> list[str] | None:
    """The SMILES of the graphs, where they are molecules."""
    column = store.columns.get("smiles")
    return [str(text) for text in column] if isinstance(column, list) else None


def fingerprint(batch: Batch, naming: Naming) -> Bits:
    """The kinds of neighbourhoods in each graph, as bits [G, 256].

    Molecules (`CHEMICAL`) are compared so in models of version 0.1, and where RDKit is missing.
    """
    batch = batch.to("cpu")
    graph, name = neighbourhoods(batch, naming, RADIUS)
    if naming.nodes != CHEMICAL:
        # The second occurrence of a label is another thing than the first: then bits count.
        order = torch.from_numpy(np.lexsort((name.numpy(), graph.numpy())))
        graph, name = graph[order], name[order]
        new = torch.ones_like(name, dtype=torch.bool)
        new[1:] = (name[1:] != name[:-1]) | (graph[1:] != graph[:-1])
        place = torch.arange(len(name))
        name = mix(name + place - torch.where(new, place, 0).cummax(0).values)
    table = torch.zeros(batch.num_graphs * 8 * BYTES, dtype=torch.uint8)
    table[graph * 8 * BYTES + name.remainder(8 * BYTES)] = 1
    return np.packbits(table.view(batch.num_graphs, -1).numpy(), axis=1)
