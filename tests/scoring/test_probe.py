"""What the rest tells: against plain loops, against chance, and against the cheat it is there to catch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ciga.data.dataset import load
from ciga.graphs.store import Batch, GraphStore
from ciga.scoring.probe import STEPS, describe_rest, probe


@pytest.fixture(scope="module")
def store() -> GraphStore:
    return load(
        "spmotif-struc", train_per_class=2, val_per_class=100, test_per_class=2, bias=0.9, variant="clean"
    )["ood_val"]


def whole(store: GraphStore) -> Batch:
    return next(iter(store.batches(store.num_graphs)))


def by_loops(batch: Batch, kept: Tensor) -> Tensor:
    """The same descriptions graph by graph, from dense matrices."""
    found = []
    for graph in range(batch.num_graphs):
        left = [
            (int(u), int(v))
            for (u, v), p in zip(batch.edge_index.T, batch.pair, strict=True)
            if batch.batch[u] == graph and not kept[p]
        ]
        nodes = sorted({end for edge in left for end in edge})
        if not nodes:
            found.append(torch.zeros(3 * (batch.x.size(1) + STEPS + 3) + 1))
            continue
        adjacent = np.zeros((len(nodes), len(nodes)))
        for u, v in left:
            adjacent[nodes.index(u), nodes.index(v)] = adjacent[nodes.index(v), nodes.index(u)] = 1
        degree = adjacent.sum(1)
        walk = adjacent / degree[:, None]
        columns = [1 / degree] + [np.diag(np.linalg.matrix_power(walk, k)) for k in range(2, STEPS + 1)]
        columns += [degree == k for k in (1, 2, 3)]
        rows = np.concatenate([batch.x[nodes].numpy(), np.stack(columns, 1)], 1)
        stats = [rows.mean(0), rows.max(0), rows.min(0), [np.log(1 + len(nodes))]]
        found.append(torch.tensor(np.concatenate(stats)))
    return torch.stack([f.float() for f in found])


def test_descriptions_against_loops(store: GraphStore) -> None:
    batch = next(iter(store.batches(12)))
    torch.manual_seed(0)
    kept = torch.rand(batch.num_pairs) < 0.4
    kept[batch.pair_batch == 3] = True  # nothing left
    torch.testing.assert_close(describe_rest(batch, kept), by_loops(batch, kept), atol=1e-5, rtol=1e-4)


def test_a_batch_that_keeps_everything_leaves_nothing_to_read(store: GraphStore) -> None:
    batch = next(iter(store.batches(12)))
    found = describe_rest(batch, torch.ones(batch.num_pairs, dtype=torch.bool))
    assert not found.any()
    assert probe(found, batch.y, 3).isfinite().all()


def test_no_memory_of_the_own_label() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(40, 60), torch.randint(3, (40,))
    before = probe(x, y, 3)
    y[7] = (y[7] + 1) % 3
    after = probe(x, y, 3)
    torch.testing.assert_close(after[1::2], before[1::2], atol=0, rtol=0)  # the fold of graph 7: untouched
    assert not torch.allclose(after[::2], before[::2])


def test_finds_what_is_there_and_nothing_else() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2000, 20), torch.randint(3, (2000,))
    hit = (probe(x, y, 3).argmax(1) == y).double().mean()
    assert 0.27 < hit < 0.4  # labels from nowhere: chance
    x[torch.arange(2000), y] += 5.0
    assert (probe(x, y, 3).argmax(1) == y).double().mean() > 0.95


def test_neither_of_two_motifs_is_found_out(store: GraphStore) -> None:
    """Keeping the motifs of two classes and 8 edges of the base for the third tells the classes apart as
    well as keeping all motifs does; the third motif is left behind, and read there."""
    batch = whole(store)
    assert batch.edge_truth is not None
    motif = torch.zeros(batch.num_pairs, dtype=torch.bool)
    motif[batch.pair[batch.edge_truth]] = True
    third = batch.y[batch.pair_batch] == 2
    base = torch.zeros_like(motif)
    for graph in (batch.y == 2).nonzero().flatten().tolist():
        base[((batch.pair_batch == graph) & ~motif).nonzero().flatten()[:8]] = True
    cheat = torch.where(third, base, motif)

    def told(kept: Tensor) -> float:
        return float((probe(describe_rest(batch, kept), batch.y, 3).argmax(1) == batch.y).double().mean())

    right, wrong = told(motif), told(cheat)
    assert wrong > right + 0.1, (right, wrong)
    assert told(torch.zeros_like(motif)) > right + 0.1  # nothing kept: everything is left
