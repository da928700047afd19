"""GIB's terms against loops, and no node lost."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Data

from ciga.data import load
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.methods.base import Step, make
from ciga.methods.gib.network import AssignmentNetwork, connectivity
from ciga.nn.encoder import Backbone, Spec


@pytest.fixture(scope="module")
def splits() -> Splits:
    return load("spmotif-struc", train_per_class=4, val_per_class=2, test_per_class=2)


def build(splits: Splits) -> AssignmentNetwork:
    torch.manual_seed(0)
    return AssignmentNetwork(Spec.of(splits), Backbone(width=8))


def test_connectivity_equals_dense_matrices(splits: Splits) -> None:
    batch = splits.train.batch(slice(None))
    share = torch.rand(batch.num_nodes, generator=torch.Generator().manual_seed(0))
    slow = 0.0
    for g in range(batch.num_graphs):
        rows = (batch.batch == g).nonzero().flatten()
        s = torch.stack([share[rows], 1 - share[rows]], 1)
        a = torch.zeros(len(rows), len(rows))
        for u, v in batch.edge_index[:, batch.edge_batch == g].T.tolist():
            a[u - rows[0], v - rows[0]] += 1
        links = s.T @ a @ s
        links = links / links.sum(1, keepdim=True)
        slow += float(torch.linalg.norm(links - torch.eye(2)))
    torch.testing.assert_close(connectivity(share, batch), torch.tensor(slow / batch.num_graphs))


def test_no_node_is_lost_on_one_way_edges() -> None:
    """A sink has no outgoing edge: its share must count and get a gradient all the same."""
    path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0]))
    back = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[2, 1], [1, 0]]), y=torch.tensor([0]))
    share = torch.tensor([0.9, 0.6, 0.2], requires_grad=True)
    one = connectivity(share, GraphStore.from_pyg([path]).batch([0]))
    two = connectivity(share, GraphStore.from_pyg([back]).batch([0]))
    torch.testing.assert_close(one, two)
    (gradient,) = torch.autograd.grad(one, share)
    assert bool((gradient != 0).all())
    network = make("gib").network(Spec(1, 0, 2), Backbone(width=8)).eval()
    store = GraphStore.from_pyg([path])
    before = network.embed(store.batch([0]))[1]
    store.x = torch.tensor([[1.0], [1.0], [5.0]])  # the sink
    assert float((network.embed(store.batch([0]))[1] - before).detach().abs().max()) > 1e-4


def test_information_equals_a_loop(splits: Splits) -> None:
    network = build(splits)
    part, whole = torch.randn(5, 8), torch.randn(5, 8)

    def t(i: int, j: int) -> float:
        hidden = (network.critic["part"](part[i]) + network.critic["whole"](whole[j])).relu()
        return float(network.critic["out"](hidden).detach())

    joint = sum(t(i, i) for i in range(5)) / 5
    apart = [math.exp(t(i, j)) for i in range(5) for j in range(5) if i != j]
    slow = joint - math.log(sum(apart) / len(apart))
    assert float(network.information(part, whole).detach()) == pytest.approx(slow, abs=1e-5)


def test_critic_finds_information_where_there_is_some(splits: Splits) -> None:
    """The bound rises for a copy of the graph's embedding, and stays near 0 for noise."""
    network = build(splits)
    whole = torch.randn(64, 8)
    found = {}
    for name, part in (("copy", whole), ("noise", None)):
        torch.manual_seed(1)
        optimizer = torch.optim.Adam(network.critic.parameters(), 1e-2)
        for _ in range(150):
            here = torch.randn(64, 8) if part is None else part
            optimizer.zero_grad()
            (-network.information(here, whole)).backward()
            optimizer.step()
        fresh = torch.randn(64, 8) if part is None else part
        found[name] = float(network.information(fresh, whole).detach())
    assert found["copy"] > 0.5
    assert found["noise"] < 0.2


def test_head_has_one_unbounded_output_per_class(splits: Splits) -> None:
    network = build(splits)
    logits = network(splits.train.batch(slice(None)))
    assert logits.shape == (len(splits.train), 3)
    assert not any(isinstance(layer, torch.nn.ReLU) for layer in list(network.head)[-1:])
    assert bool((logits < 0).any())


def test_players_and_terms(splits: Splits) -> None:
    method, network = make("gib"), build(splits)
    batch = splits.train.batch(slice(None))
    critic = {id(p) for p in method.critic_parameters(network)}
    method.critic_loss(network, batch, Step()).backward()
    moved = {id(p) for p in network.parameters() if p.grad is not None}
    assert moved == critic
    assert method.critic_steps == 5
    for name, term in method.loss(network, batch, Step()).items():
        gradients = torch.autograd.grad(
            term, list(network.encoder.parameters()), retain_graph=True, allow_unused=True
        )
        assert any(g is not None and bool((g != 0).any()) for g in gradients), name
        if name != "risk":
            (gradient,) = torch.autograd.grad(term, network.assign[2].weight, retain_graph=True)
            assert bool((gradient != 0).any()), name


def test_the_objective_is_what_its_equation_says(splits: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    """The risk is of the subgraph; the network lowers the information that the critic raises."""
    method, network = make("gib", {"penalty": 3.0, "connect": 0.5}), build(splits)
    batch = splits.train.batch(slice(None))
    graphs = batch.num_graphs
    logit, part, whole = torch.randn(batch.num_nodes), torch.randn(graphs, 8), torch.randn(graphs, 8)
    monkeypatch.setattr(network, "embed", lambda batch: (logit, part, whole))
    logits, y = network.head(part), batch.y.tolist()
    risk = sum(logits[i].logsumexp(0) - logits[i, c] for i, c in enumerate(y)) / len(y)
    information = network.information(part, whole)
    assert abs(float(information.detach())) > 1e-3
    expected = {
        "risk": risk,
        "information": 3.0 * information,
        "connectivity": 0.5 * connectivity(logit.sigmoid(), batch),
    }
    torch.testing.assert_close(method.loss(network, batch, Step()), expected)
    torch.testing.assert_close(method.critic_loss(network, batch, Step()), -information)


def test_one_graph_and_no_edges(splits: Splits) -> None:
    method, network = make("gib"), build(splits)
    terms = method.loss(network, splits.train.batch([0]), Step())
    assert float(terms["information"].detach()) == 0.0
    bare = Data(x=torch.rand(3, 4), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0]))
    terms = method.loss(network, GraphStore.from_pyg([bare, bare]).batch([0, 1]), Step())
    assert all(bool(t.isfinite()) for t in terms.values())
    assert float(terms["connectivity"].detach()) == 0.0


def test_edge_scores_are_the_chance_of_both_ends(splits: Splits) -> None:
    method, network = make("gib"), build(splits)
    network.eval()
    batch = splits.train.batch([0, 1])
    node = network.embed(batch)[0].sigmoid()
    partition = method.infer(network, batch).partition
    assert partition is not None
    score, kept = partition.score, partition.kept
    for edge in range(batch.num_edges):
        u, v = batch.edge_index[:, edge]
        torch.testing.assert_close(score.sigmoid()[batch.pair[edge]], node[u] * node[v])
        assert bool(kept[batch.pair[edge]]) == bool((node[u] >= 0.5) & (node[v] >= 0.5))
