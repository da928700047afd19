"""Fidelity against a plain loop over graphs and edges."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from ciga.data import GraphStore
from ciga.explain.fidelity import DRAWS, Fidelity, fidelity, part_of
from ciga.models.model import Model
from tests.helpers import batch_of, mixed_graphs
from tests.small_models import toy_model, toy_splits


def alone(graph: Data, keep: set[frozenset[int]]) -> Data:
    """The graph with these undirected edges only, built edge by edge."""
    edges = [tuple(e) for e in graph.edge_index.T.tolist() if frozenset(e) in keep]
    nodes = sorted({n for e in edges for n in e}) or list(range(graph.num_nodes))
    place = {n: i for i, n in enumerate(nodes)}
    index = torch.tensor([[place[u], place[v]] for u, v in edges], dtype=torch.long).reshape(-1, 2).T
    return Data(x=graph.x[nodes], edge_index=index, y=graph.y)


def asked(model: Model, graph: Data) -> Tensor:
    batch = GraphStore.from_pyg([graph]).batch([0])
    with model.keeping_all():
        return model.predict(batch).probability[0]


def pairs_of(graph: Data) -> list[frozenset[int]]:
    """The undirected edges in the order of a store's pair numbers."""
    ends = sorted({tuple(sorted(e)) for e in graph.edge_index.T.tolist()})
    return [frozenset(e) for e in ends]


@pytest.mark.parametrize("method", ["ciga-v2", "gsat"])
def test_against_a_loop(method: str) -> None:
    model = toy_model(method)
    graphs = [*toy_splits()["ood_test"].to_pyg()[:4], *mixed_graphs()]
    graphs = [Data(x=g.x, edge_index=g.edge_index, y=g.y) for g in graphs]
    batch = batch_of(graphs)
    kept = model.predict(batch).kept
    assert kept is not None
    found = fidelity(model, batch, kept, torch.Generator().manual_seed(3))
    draws = [
        torch.rand(batch.num_pairs, generator=rng)
        for rng in [torch.Generator().manual_seed(3)]
        for _ in range(DRAWS)
    ]
    start = 0
    for i, graph in enumerate(graphs):
        pairs = pairs_of(graph)
        mine = slice(start, start + len(pairs))
        start += len(pairs)
        whole = model.predict(batch_of([graph])).probability[0]
        best = int(whole.argmax())
        keep = {p for p, yes in zip(pairs, kept[mine].tolist(), strict=True) if yes}
        on_kept, on_rest = asked(model, alone(graph, keep)), asked(model, alone(graph, set(pairs) - keep))
        random = []
        for chance in draws:
            order = sorted(range(len(pairs)), key=lambda j: -float(chance[mine][j]))
            random.append(asked(model, alone(graph, {pairs[j] for j in order[: len(keep)]})))
        expected = [whole[best], on_kept[best], on_rest[best], torch.stack(random)[:, best].mean()]
        for name, value in zip(("whole", "kept", "rest", "random"), expected, strict=True):
            assert float(getattr(found, name)[i]) == pytest.approx(float(value), abs=1e-4), name
        assert float(found.agrees_kept[i]) == float(on_kept.argmax() == best)
        share = sum(int(r.argmax()) == best for r in random) / DRAWS
        assert float(found.agrees_random[i]) == pytest.approx(share)


def test_the_same_seed_gives_the_same_numbers() -> None:
    model = toy_model()
    batch = toy_splits()["ood_test"].batch(slice(None))
    kept = model.predict(batch).kept
    assert kept is not None
    one, two = (fidelity(model, batch, kept, torch.Generator().manual_seed(0)).summary() for _ in range(2))
    assert one == two
    assert one["sufficiency"] == pytest.approx(one["whole"] - one["kept"])
    assert one["above_random"] == pytest.approx(one["kept"] - one["random"])


def test_keeping_everything_loses_nothing() -> None:
    """A method that keeps all its edges says the same of its kept part as of the whole."""
    model = toy_model(size=1.0)
    batch = toy_splits()["ood_test"].batch(slice(None))
    found = fidelity(model, batch, torch.ones(batch.num_pairs, dtype=torch.bool), torch.Generator())
    torch.testing.assert_close(found.kept, found.whole)
    torch.testing.assert_close(found.random, found.whole)


def test_parts_are_well_formed() -> None:
    batch = batch_of(mixed_graphs())
    mask = torch.rand(batch.num_pairs, generator=torch.Generator().manual_seed(0)) < 0.4
    part = part_of(batch, mask)
    assert part.num_pairs == int(mask.sum())
    assert part.num_graphs == batch.num_graphs
    assert torch.equal(part.batch[part.edge_index[0]], part.edge_batch)
    assert torch.equal(part.pair_batch[part.pair], part.edge_batch)
    assert set(part.batch.tolist()) == set(range(batch.num_graphs))


def test_joined_is_the_whole() -> None:
    ones = Fidelity(*[torch.ones(3)] * 7)
    zeros = Fidelity(*[torch.zeros(1)] * 7)
    assert Fidelity.joined([ones, zeros]).summary()["kept"] == 0.75
