"""Return probabilities against dense powers of the transition matrix, and on graphs where they are known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ciga.data import GraphStore
from ciga.graphs.walks import return_probabilities
from tests.helpers import batch_of, mixed_graphs


def slowly(edge_index: Tensor, nodes: int, steps: int) -> Tensor:
    """The diagonal of every power of D^-1 A."""
    adjacency = torch.zeros(nodes, nodes, dtype=torch.float64)
    for u, v in edge_index.T.tolist():
        if u != v:
            adjacency[u, v] = adjacency[v, u] = 1
    degree = adjacency.sum(1)
    step = adjacency / degree.clamp(min=1)[:, None]
    power, columns = torch.eye(nodes, dtype=torch.float64), []
    for m in range(1, steps + 1):
        power = power @ step
        first = torch.where(degree > 0, 1 / degree.clamp(min=1), 0.0)
        columns.append(first if m == 1 else power.diagonal())
    return torch.stack(columns, 1).float()


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 9])
def test_as_by_dense_powers(steps: int) -> None:
    batch = batch_of(mixed_graphs())
    found = return_probabilities(batch.edge_index, batch.num_nodes, steps)
    assert found.shape == (batch.num_nodes, steps)
    torch.testing.assert_close(found, slowly(batch.edge_index, batch.num_nodes, steps))


def test_a_cycle_of_five_is_no_path() -> None:
    cycle = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    walks = return_probabilities(cycle, 5, 5)
    # Two steps: there and back. Three and one: impossible. Five: once around, either way.
    torch.testing.assert_close(walks, torch.tensor([[1 / 2, 1 / 2, 0, 3 / 8, 2 / 32]]).expand(5, 5))
    path = return_probabilities(cycle[:, :4], 5, 5)
    assert float(path[:, 4].abs().max()) == 0


def test_direction_order_doubles_and_loops_do_not_matter() -> None:
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])
    plain = return_probabilities(edges, 5, 6)
    other = torch.cat([edges.flip(0), edges[:, :2], torch.tensor([[3, 4], [3, 4]])], 1)
    torch.testing.assert_close(return_probabilities(other, 5, 6), plain)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(return_probabilities(order[edges], 5, 6)[order], plain)
    assert plain[4].tolist() == [0] * 6  # a node without edges


def test_what_is_far_away_does_not_matter() -> None:
    def path(nodes: int) -> Tensor:
        return torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])

    short, long = (return_probabilities(path(n), n, 8) for n in (9, 200))
    torch.testing.assert_close(short[:4], long[:4])


def test_a_store_remembers_them_for_its_batches() -> None:
    store = GraphStore.from_pyg(mixed_graphs())
    order = torch.randperm(len(store), generator=torch.Generator().manual_seed(0))
    plain = [b.return_probabilities(6) for b in store.batches(3, order)]
    assert all(b.walks is None for b in store.batches(3, order))
    seen: list[tuple[int, int, str]] = []
    store.remember_walks(6, lambda *report: seen.append(report))
    assert seen[-1] == (len(store), len(store), "walks")
    kept = list(store.batches(3, order))
    for one, batch in zip(plain, kept, strict=True):
        assert batch.walks is not None
        torch.testing.assert_close(batch.walks, one)
        torch.testing.assert_close(batch.return_probabilities(4), one[:, :4])  # fewer steps: fewer columns
        assert batch.return_probabilities(7).shape == (batch.num_nodes, 7)  # more: worked out anew
    before = store.walks
    store.remember_walks(4)
    assert store.walks is before
