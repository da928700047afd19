"""The connected graphs of up to k nodes, and which of them an adjacency is.

An adjacency among j ordered nodes is a code: bit b says whether the b-th pair (i, l), i < l, is joined. Every
code is looked up in a table, so that naming a million subgraphs is one gather.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any

import numpy as np
import torch
from torch import Tensor

MAX_K = 6


@dataclass(frozen=True)
class Shapes:
    """Tables over (size, code); the codes of size j begin at row `offset[j]`."""

    k: int
    count: int  # number of shapes: connected graphs of 1…k nodes, up to isomorphism
    offset: Tensor  # [k + 1]
    shape: Tensor  # [T] number of the shape; -1 where the code is not connected
    canonical: Tensor  # [T, k] order of the nodes that gives the shape's own code; padding stays at its place
    growths: Tensor  # [T] in how many orders the nodes can be added so that every start is connected
    symmetry_start: Tensor  # [count] where a shape's automorphisms begin
    symmetries: Tensor  # [count] how many it has
    symmetry: Tensor  # [sum, k] the automorphisms, as orders of the nodes


@lru_cache
def shapes(k: int) -> Shapes:
    """All tables for subgraphs of up to k nodes."""
    offset, shape, canonical, growths, starts, sizes, symmetry = [0], [], [], [], [], [], []
    row = seen = total = 0
    for j in range(1, k + 1):
        codes = np.arange(2 ** (j * (j - 1) // 2))
        best, order = codes.copy(), np.tile(np.arange(k), (len(codes), 1))
        for p in permutations(range(j)):
            moved = _reorder(codes, p)
            better = moved < best
            best[better] = moved[better]
            order[better, :j] = p
        grown = _growths(codes, j)
        found = np.unique(best[grown > 0])
        number = np.full(len(codes), -1)
        number[grown > 0] = seen + np.searchsorted(found, best[grown > 0])
        offset.append(row)
        row += len(codes)
        seen += len(found)
        shape.append(number)
        canonical.append(order)
        growths.append(grown)
        for code in found:
            same = [p for p in permutations(range(j)) if _reorder(np.array([code]), p)[0] == code]
            symmetry += [[*p, *range(j, k)] for p in same]
            starts.append(total)
            sizes.append(len(same))
            total += len(same)
    return Shapes(
        k,
        seen,
        torch.tensor(offset),
        torch.from_numpy(np.concatenate(shape)),
        torch.from_numpy(np.concatenate(canonical)),
        torch.from_numpy(np.concatenate(growths)),
        torch.tensor(starts),
        torch.tensor(sizes),
        torch.tensor(symmetry),
    )


def pairs_of(k: int) -> Tensor:
    """The pairs (i, l), i < l < k, in the order of the bits of a code: [2, B].

    Sorted by l, so that the bits of the first j nodes are the first bits.
    """
    return torch.tensor(sorted(combinations(range(k), 2), key=lambda p: (p[1], p[0]))).view(-1, 2).T


def _reorder(codes: np.ndarray[Any, Any], order: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The codes of the same graphs with node `order[i]` at place i."""
    ends = pairs_of(len(order)).T.tolist()
    bit = {tuple(e): b for b, e in enumerate(ends)}
    out = np.zeros_like(codes)
    for b, (i, m) in enumerate(ends):
        out |= (codes >> bit[tuple(sorted((order[i], order[m])))] & 1) << b
    return out


def _growths(codes: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """Orders in which the nodes can be added one by one, each next to an earlier one; 0 if not connected."""
    bit = {tuple(e): b for b, e in enumerate(pairs_of(size).T.tolist())}
    ways = {1 << v: np.ones(len(codes), dtype=np.int64) for v in range(size)}
    for chosen in range(1, 2**size):
        members = [v for v in range(size) if chosen >> v & 1]
        if len(members) < 2:
            continue
        total = np.zeros(len(codes), dtype=np.int64)
        for v in members:
            joined = np.zeros(len(codes), dtype=bool)
            for u in members:
                if u != v:
                    joined |= (codes >> bit[tuple(sorted((u, v)))] & 1).astype(bool)
            total += np.where(joined, ways[chosen & ~(1 << v)], 0)
        ways[chosen] = total
    return ways[2**size - 1]
