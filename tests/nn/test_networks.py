"""Featurizer and classifier against a slow loop over graphs; defects 1 and 3 of the released code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import subgraph

from ciga.data import Batch
from ciga.nn import Backbone, GraphNetwork, InvariantNetwork, Parts, Spec
from ciga.nn.norm import PartNorm
from ciga.nn.readout import sum_of
from tests.helpers import batch_of, mixed_graphs, random_graph, same_tensors

SPEC = Spec(features=4, edge_features=2, classes=3, degrees=(1, 3, 4, 2))
CONVS = ("gcn-ogb", "gcn", "gin", "gat", "sage", "pna", "k123")


def batch_of_all() -> Batch:
    return batch_of(mixed_graphs(edge_features=2))


def network_of(conv: str = "gcn-ogb", seed: int = 0, **options: Any) -> InvariantNetwork:
    """A network after a few passes in training mode, so that no running statistic is 0 or 1."""
    torch.manual_seed(seed)
    shape = {k: options.pop(k) for k in ("readout", "jk", "virtual_node", "dropout") if k in options}
    chosen = {"scorer": "mlp", "budget": "ratio", "size": 0.4, "classifier_input": "feat", **options}
    network = InvariantNetwork(SPEC, Backbone(conv=conv, layers=2, width=8, **shape), **chosen)
    with torch.no_grad():
        for _ in range(2):
            network.predict_both(network.split(batch_of_all()))
    return network.eval()


# ---------------------------------------------------------------- a slow reference


def spurious_twin(network: InvariantNetwork) -> InvariantNetwork:
    """A copy whose statistics for G_c are those for G_s, so that G_s can be run as a graph of its own."""
    twin = copy.deepcopy(network)
    for module in twin.classifier.modules():
        if isinstance(module, PartNorm):
            module.norms[0] = module.norms[1]
    return twin


def one_part(
    network: InvariantNetwork,
    x: Tensor,
    edges: Tensor,
    attr: Tensor,
    weight: Tensor,
    chosen: Tensor,
    lone: bool,
) -> Tensor:
    """The representation [d] of one part of one graph, cut out as a graph with its own numbering."""
    nodes = torch.arange(len(x)) if lone else edges[:, chosen].unique()
    if not nodes.numel():
        return torch.zeros(network.classifier.dim)
    local, _, mask = subgraph(
        nodes, edges[:, chosen], relabel_nodes=True, num_nodes=len(x), return_edge_mask=True
    )
    assert mask.all()
    zeros = torch.zeros(local.size(1), dtype=torch.long)
    part = Batch(
        x=x[nodes], edge_index=local, edge_attr=attr[chosen], batch=torch.zeros(len(nodes), dtype=torch.long),
        edge_batch=zeros, pair=zeros, pair_batch=zeros[:1], y=torch.zeros(1), env=None, edge_truth=None,
        index=torch.zeros(1), num_graphs=1,
    )  # fmt: skip
    h = network.classifier(part, weight[chosen])
    return network.readout(h, part.batch, 1)[0]


def by_a_loop(network: InvariantNetwork, parts: Parts) -> tuple[Tensor, Tensor]:
    """Representations of all G_c and all G_s [G, d], graph by graph and part by part."""
    batch, twin = parts.batch, spurious_twin(network)
    inputs = batch.x if network.raw else parts.hidden
    causal, spurious = [], []
    for graph in range(batch.num_graphs):
        at = batch.batch == graph
        first = int(at.nonzero()[0])
        mine = batch.edge_batch == graph
        edges, attr = batch.edge_index[:, mine] - first, batch.edge_attr[mine]
        score, kept = (t[batch.pair[mine]] for t in (parts.partition.score, parts.partition.kept))
        causal.append(one_part(network, inputs[at], edges, attr, score.sigmoid(), kept, not edges.numel()))
        spurious.append(one_part(twin, inputs[at], edges, attr, (-score).sigmoid(), ~kept, False))
    return torch.stack(causal), torch.stack(spurious)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("classifier_input", ["feat", "raw"])
@pytest.mark.parametrize("conv", CONVS)
def test_predict_both_is_two_passes_over_cut_out_graphs(
    conv: str, classifier_input: str, gradient: bool
) -> None:
    network = network_of(conv, classifier_input=classifier_input, readout="sum")
    parts = network.split(batch_of_all())
    found = network.predict_both(parts, gradient)
    causal, spurious = by_a_loop(network, parts)
    torch.testing.assert_close(found.representation, causal, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.spurious_representation, spurious, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.logits, network.head(causal), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.spurious_logits, network.spurious_head(spurious), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.predict(parts).logits, found.logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"readout": "attention"},
        {"readout": "max", "jk": "cat"},
        {"readout": "mean", "virtual_node": True},
        {"budget": "count", "size": 3},
        {"budget": "threshold", "size": 0.5, "scorer": "inner"},
        {"classifier_width": 5},
    ],
)
def test_so_it_is_with_other_options(options: dict[str, Any]) -> None:
    network = network_of(**options)
    parts = network.split(batch_of_all())
    found = network.predict_both(parts)
    causal, spurious = by_a_loop(network, parts)
    torch.testing.assert_close(found.representation, causal, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.spurious_representation, spurious, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- the parts


@pytest.mark.parametrize("budget", [("ratio", 0.4), ("count", 3), ("threshold", 0.5)])
def test_the_parts_are_disjoint_and_complete(budget: tuple[str, float]) -> None:
    network = network_of(budget=budget[0], size=budget[1])
    batch = batch_of_all()
    parts = network.split(batch)
    kept = parts.partition.kept[batch.pair]
    score = parts.partition.score[batch.pair]
    both, weight = network._both(parts)
    assert torch.equal((both.edge_index < parts.border).all(0), kept)
    assert torch.equal((both.edge_index >= parts.border).all(0), ~kept)
    torch.testing.assert_close(weight, torch.where(kept, score, -score).sigmoid())
    for spurious, chosen in ((False, kept), (True, ~kept)):
        part, weight = network._part(parts, spurious)
        rows = parts.rows[parts.border :] - batch.num_nodes if spurious else parts.kept_nodes
        assert torch.equal(rows[part.edge_index], batch.edge_index[:, chosen])
        torch.testing.assert_close(weight, (-score if spurious else score)[chosen].sigmoid())
    # A node is in a part if one of its edges is; of a graph without edges, every node is in G_c.
    for graph in range(batch.num_graphs):
        mine = batch.edge_batch == graph
        ends = {k: set(batch.edge_index[:, mine & (kept == k)].flatten().tolist()) for k in (True, False)}
        everything = set((batch.batch == graph).nonzero().flatten().tolist())
        causal = ends[True] if mine.any() else everything
        assert set(parts.kept_nodes[batch.batch[parts.kept_nodes] == graph].tolist()) == causal
        assert int((both.batch == graph).sum()) == len(causal)
        assert int((both.batch == batch.num_graphs + graph).sum()) == len(ends[False])


def test_a_graph_without_edges_stays_in_the_batch_and_is_judged_by_its_features() -> None:
    network = network_of()
    graphs = mixed_graphs(edge_features=2)
    empty = [i for i, g in enumerate(graphs) if g.num_edges == 0]
    assert empty == [1, 4]
    before = network(batch_of(graphs))
    assert before.shape == (len(graphs), 3)
    assert before.isfinite().all()
    graphs[1].x += 1.0
    changed = ((network(batch_of(graphs)) - before).abs() > 1e-6).any(1)
    assert changed.nonzero().flatten().tolist() == [1]
    for row in empty:
        alone = network(batch_of([mixed_graphs(edge_features=2)[row]]))
        torch.testing.assert_close(alone[0], before[row], rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- defect 1: the pool sees the right nodes


def pools_its_own_nodes(pooled: Callable[[Parts], Tensor]) -> bool:
    """Is each row the sum over the kept nodes of its graph, moved by them and by no other graph's nodes?"""
    network, batch = network_of(), batch_of_all()
    parts = network.split(batch)
    kept, before = parts.partition.kept[batch.pair], pooled(parts)
    for graph in range(batch.num_graphs):
        nodes = batch.edge_index[:, kept & (batch.edge_batch == graph)].unique()
        nodes = nodes if (batch.edge_batch == graph).any() else (batch.batch == graph).nonzero().flatten()
        if not torch.allclose(before[graph], parts.hidden[nodes].sum(0), atol=1e-5):
            return False
        moved = copy.copy(parts)
        moved.hidden = parts.hidden.clone()
        moved.hidden[batch.batch == graph] += 1.0
        changed = (pooled(moved) != before).any(1)
        if changed.nonzero().flatten().tolist() != [graph]:
            return False
    return True


def relabelled_twice(parts: Parts) -> Tensor:
    """What the released code pools: the rows the kept nodes' *new* numbers point at in the old batch."""
    wrong = torch.arange(parts.kept_nodes.numel())
    return sum_of(parts.hidden[wrong], parts.batch.batch[parts.kept_nodes], parts.batch.num_graphs)


def test_the_contrast_pools_the_kept_nodes_of_each_graph() -> None:
    assert pools_its_own_nodes(Parts.pooled)
    assert not pools_its_own_nodes(relabelled_twice)


@pytest.mark.parametrize("conv", CONVS)
def test_no_graph_sees_another(conv: str) -> None:
    network = network_of(conv)

    def everything(graphs: list[Any]) -> Tensor:
        parts = network.split(batch_of(graphs))
        found = network.predict_both(parts)
        assert found.spurious_representation is not None
        return torch.cat([parts.pooled(), found.representation, found.spurious_representation], 1)

    before = everything(mixed_graphs(edge_features=2))
    for graph in range(len(before)):
        moved = mixed_graphs(edge_features=2)
        moved[graph].x[0] += 1.0
        changed = ((everything(moved) - before).abs() > 1e-5).any(1)
        assert changed.nonzero().flatten().tolist() == [graph]


# ---------------------------------------------------------------- defect 3: G_s and the statistics of G_c


def statistics(network: InvariantNetwork, part: int) -> dict[str, Tensor]:
    """Running statistics of the classifier for one part."""
    return {
        f"{name}.{key}": value.clone()
        for name, module in network.classifier.named_modules()
        if isinstance(module, PartNorm)
        for key, value in module.norms[part].named_buffers()
    }


def spurious_part_leaves_no_trace(conv: str, gradient: bool) -> bool:
    """Do statistics and predictions of G_c stay what they are without the pass over G_s?"""
    network, alone = network_of(conv).train(), network_of(conv).train()
    batch = batch_of([random_graph(8, 12, seed, edge_features=2) for seed in range(6)])
    before = statistics(network, 1)
    with_spurious = network.predict_both(network.split(batch), gradient).logits
    without = alone.predict(alone.split(batch)).logits
    assert not same_tensors(statistics(network, 1), before)
    same = [torch.allclose(v, statistics(alone, 0)[k]) for k, v in statistics(network, 0).items()]
    assert same
    return all(same) and torch.allclose(with_spurious, without, atol=1e-5)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("conv", CONVS)
def test_the_spurious_part_never_touches_the_statistics_of_the_invariant_one(
    conv: str, gradient: bool
) -> None:
    assert spurious_part_leaves_no_trace(conv, gradient)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("conv", ["gcn-ogb", "gin"])
def test_the_test_above_fails_on_shared_statistics(
    conv: str, gradient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shared(self: PartNorm, h: Tensor, border: int | None) -> Tensor:
        for norm in self.norms[1:]:  # touched, so that only the sharing is what fails
            norm(h[border or 0 :]) if len(h[border or 0 :]) > 1 else None
        out: Tensor = self.norms[0](h)
        return out

    monkeypatch.setattr(PartNorm, "forward", shared)
    assert not spurious_part_leaves_no_trace(conv, gradient)


def test_a_spurious_part_of_nothing_leaves_everything_as_it_was() -> None:
    """With the whole graph kept, G_s has no row: no NaN, no change of its statistics."""
    network = network_of(size=1.0).train()
    before = statistics(network, 1)
    found = network.predict_both(network.split(batch_of_all()))
    assert found.spurious_logits is not None
    assert found.spurious_logits.isfinite().all()
    assert same_tensors(statistics(network, 1), before)


# ---------------------------------------------------------------- the plain network


def test_graph_network_by_hand() -> None:
    torch.manual_seed(0)
    network = GraphNetwork(SPEC, Backbone(layers=2, width=8)).eval()
    batch = batch_of_all()
    h = network.encoder(batch)
    mean = torch.stack([h[batch.batch == g].mean(0) for g in range(batch.num_graphs)])
    torch.testing.assert_close(network.represent(batch), mean)
    torch.testing.assert_close(network(batch), network.head(mean))
    half = network.represent(batch, torch.full((batch.num_edges,), 0.5))
    assert not torch.allclose(half, mean)


# ---------------------------------------------------------------- edges stored once


def stored_once(graph: Any) -> Any:
    """The same graph with each edge in one direction only, whichever comes first."""
    keep: dict[tuple[int, int], int] = {}
    for i, (u, v) in enumerate(graph.edge_index.T.tolist()):
        keep.setdefault((min(u, v), max(u, v)), i)
    chosen = torch.tensor(sorted(keep.values()), dtype=torch.long)
    once = graph.clone()
    once.edge_index, once.edge_attr = graph.edge_index[:, chosen], graph.edge_attr[chosen]
    return once


def both_directions(graph: Any) -> Any:
    """Every edge there and back, with the same features."""
    both = graph.clone()
    both.edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1)
    both.edge_attr = torch.cat([graph.edge_attr, graph.edge_attr])
    return both


@pytest.mark.parametrize("conv", CONVS[:3])
def test_undirected_sees_an_edge_stored_once_as_one_stored_twice(conv: str) -> None:
    once = [stored_once(g) for g in mixed_graphs(edge_features=2)]
    twice = [both_directions(g) for g in once]
    torch.manual_seed(0)
    shape = Backbone(conv=conv, layers=2, width=8, undirected=True)
    options: dict[str, Any] = {"scorer": "mlp", "budget": "ratio", "size": 0.4, "classifier_input": "raw"}
    for network in (GraphNetwork(SPEC, shape).eval(), InvariantNetwork(SPEC, shape, **options).eval()):
        one, two = network(batch_of(once)), network(batch_of(twice))
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    directed = GraphNetwork(SPEC, Backbone(conv=conv, layers=2, width=8)).eval()
    assert (directed(batch_of(once)) - directed(batch_of(twice))).abs().max() > 1e-3


def test_both_ways_adds_what_is_missing_and_nothing_else() -> None:
    full = batch_of_all()
    assert torch.equal(full.both_ways.edge_index, full.edge_index)
    once = batch_of([stored_once(g) for g in mixed_graphs(edge_features=2)])
    both = once.both_ways
    assert both.num_edges == 2 * once.num_edges
    assert torch.equal(both.pair, once.pair.repeat(2))
    directed = set(map(tuple, both.edge_index.T.tolist()))
    assert directed == set(map(tuple, full.edge_index.T.tolist()))
    assert len(directed) == both.num_edges


def test_parts_of_a_batch_both_ways_are_both_ways_and_not_doubled_again() -> None:
    once = batch_of([stored_once(g) for g in mixed_graphs(edge_features=2)])
    assert not once.symmetric
    both = once.both_ways
    assert both.both_ways is both
    options: dict[str, Any] = {"scorer": "mlp", "budget": "ratio", "size": 0.4, "classifier_input": "raw"}
    network = InvariantNetwork(SPEC, Backbone(layers=2, width=8, undirected=True), **options).eval()
    parts = network.split(once)
    for part, _ in (network._part(parts, False), network._part(parts, True), network._both(parts)):
        there = set(map(tuple, part.edge_index.T.tolist()))
        assert part.symmetric
        assert there == {(v, u) for u, v in there}
