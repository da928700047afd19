"""Numbers come through the door of a store unchanged, or not at all."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from ciga.errors import CigaError
from ciga.graphs.numbers import whole_numbers
from ciga.graphs.store import GraphStore


def store(**changed):
    parts = {
        "x": torch.ones(2, 1),
        "edge_index": torch.tensor([[0, 1], [1, 0]]),
        "node_ptr": torch.tensor([0, 2]),
        "edge_ptr": torch.tensor([0, 2]),
        "y": torch.tensor([1]),
    }
    return GraphStore(**{**parts, **changed})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"edge_index": torch.tensor([[0, 2**32], [2**32, 0]])}, "edge_index holds 4294967296"),
        ({"edge_index": torch.tensor([[0, 0.5], [1, 0]])}, "edge_index holds 0.5"),
        ({"edge_index": torch.tensor([[0, 1e30], [1, 0]])}, "edge_index holds 1"),
        ({"edge_index": torch.tensor([[0, 1j], [1, 0]])}, "edge_index holds complex numbers"),
        ({"y": torch.tensor([1.7])}, "y holds 1.7: it takes whole numbers"),
        ({"y": torch.tensor([float("nan")])}, "y holds nan: it takes whole numbers"),
        ({"y": torch.tensor([1e30])}, "y holds 1000000.*it takes numbers from"),
        ({"y": torch.tensor([2**63], dtype=torch.uint64)}, "y holds 9223372036854775808"),
        ({"env": torch.tensor([0.5])}, "env holds 0.5"),
        ({"x": torch.ones(2, 1) * 1j}, "x holds complex numbers"),
        ({"edge_attr": torch.ones(2, 1) * 1j}, "edge_attr holds complex numbers"),
        ({"node_ptr": torch.tensor([0, 2.5])}, "node_ptr holds 2.5"),
    ],
)
def test_what_cannot_be_kept_is_refused(changed, words):
    with pytest.raises(CigaError, match=words):
        store(**changed)


def test_whole_floats_are_taken():
    assert store(y=torch.tensor([3.0])).y.tolist() == [3]
    assert store(y=torch.tensor([True])).y.tolist() == [1]
    assert store(edge_index=torch.tensor([[0.0, 1.0], [1.0, 0.0]])).edge_index.dtype == torch.int32
    assert whole_numbers(torch.zeros(0), "y").dtype == torch.int64
    with pytest.raises(CigaError, match="y holds"):
        store().labelled(torch.tensor([0.5]))


def test_graphs_of_pyg_are_checked_alike():
    ends = torch.tensor([[0], [1]])
    for changed, words in (
        ({"x": torch.ones(2, 1) * 1j}, "Graph 0: x holds complex numbers"),
        ({"x": torch.tensor([[1.0], [1e300]], dtype=torch.double)}, "Graph 0 has NaN, infinite or too large"),
        ({"y": torch.tensor([1j])}, "Graph 0: y holds complex numbers"),
        ({"edge_index": torch.tensor([[0], [2**40]])}, "edge_index holds 1099511627776"),
    ):
        with pytest.raises(CigaError, match=words):
            GraphStore.from_pyg([Data(**{"x": torch.ones(2, 1), "edge_index": ends, "y": 0, **changed})])
    trained = torch.ones(2, 1, requires_grad=True)
    assert not GraphStore.from_pyg([Data(x=trained, edge_index=ends, y=0)]).x.requires_grad
    with pytest.raises(CigaError, match="Labels must be whole numbers"):
        GraphStore.from_pyg([Data(x=trained, edge_index=ends)], y=["a"])  # type: ignore[list-item]
