"""Where a node stands, told by random walks: how likely one that starts there is back after m steps.

A message-passing GNN sees a node's neighbourhood as a tree and cannot tell a cycle of five from a path.
Return probabilities can, they are local (what is far away does not change them, so a larger graph has no
other nodes), and they do not depend on how nodes are numbered.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor


def return_probabilities(edge_index: Tensor, nodes: int, steps: int) -> Tensor:
    """[N, steps]: one over the degree, then the probabilities to be back after 2, …, `steps` steps.

    Edges count in both directions, once each, and self-loops not at all. Zero for a node without edges.
    """
    source, target = edge_index.detach().cpu().numpy().astype(np.int64)
    proper = source != target
    ends = np.concatenate([source[proper], target[proper]]), np.concatenate([target[proper], source[proper]])
    step = sparse.csr_array((np.ones(ends[0].size), ends), shape=(nodes, nodes))
    step.data[:] = 1.0  # an edge stored twice is one edge
    inverse = 1.0 / np.maximum(np.diff(step.indptr), 1)
    # D^-1/2 A D^-1/2 has the diagonals of the powers of D^-1 A, and is symmetric: the diagonal of its power
    # i + j is the sum over each row of power i times power j, so half the powers are enough.
    scale = np.sqrt(inverse)
    step.data = scale[step.indices] * step.data * np.repeat(scale, np.diff(step.indptr))
    powers = [step]
    while len(powers) < (steps + 1) // 2:
        powers.append(powers[-1] @ step)
    columns = [np.where(np.diff(step.indptr) > 0, inverse, 0.0)]
    columns += [
        np.asarray((powers[m // 2 - 1] * powers[(m - 1) // 2]).sum(axis=1)) for m in range(2, steps + 1)
    ]
    found = np.stack(columns[:steps], axis=1) if steps else np.zeros((nodes, 0))
    return torch.from_numpy(found.astype(np.float32)).to(edge_index.device)
