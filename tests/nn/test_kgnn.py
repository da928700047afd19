"""The 1-2-3-GNN against plain loops, and against what a 1-GNN cannot tell apart."""

from __future__ import annotations

from itertools import combinations, pairwise

import networkx as nx
import pytest
import torch

from ciga.errors import CigaError
from ciga.graphs.store import GraphStore
from ciga.nn.conv import Edges
from ciga.nn.encoder import Backbone, Encoder, Spec
from ciga.nn.kgnn import connected_sets
from ciga.nn.networks import GraphNetwork, InvariantNetwork
from ciga.nn.readout import mean_of


def store_of(graphs: list[nx.Graph], features: int = 0, seed: int = 0) -> GraphStore:
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(seed)
    out = []
    for graph in graphs:
        edges = torch.tensor([(u, v) for a, b in graph.edges for u, v in ((a, b), (b, a))]).view(-1, 2).T
        x = torch.rand(graph.number_of_nodes(), features, generator=generator)
        out.append(Data(x=x, edge_index=edges.long(), y=torch.tensor([0])))
    return GraphStore.from_pyg(out)


def random_graphs() -> list[nx.Graph]:
    return [nx.gnp_random_graph(n, 0.35, seed=n) for n in (1, 2, 5, 7, 9)] + [
        nx.star_graph(5),
        nx.empty_graph(3),
    ]


def test_sets_and_their_neighbours_equal_a_loop() -> None:
    graphs = random_graphs()
    batch = store_of(graphs).batch(slice(None))
    whole = nx.disjoint_union_all(graphs)
    for k, sets in zip(
        (2, 3), connected_sets(Edges(batch.edge_index, None, None, batch.num_nodes), batch.batch), strict=True
    ):
        expected = [
            s for s in combinations(range(whole.number_of_nodes()), k) if nx.is_connected(whole.subgraph(s))
        ]
        assert [tuple(s) for s in sets.members.tolist()] == expected
        links = set()
        for i, s in enumerate(expected):
            for j, t in enumerate(expected):
                out, new = set(t) - set(s), set(s) - set(t)
                if len(out) == 1 and whole.has_edge(out.pop(), new.pop()):
                    links.add((j, i))
        assert {tuple(link) for link in sets.next_to.T.tolist()} == links
        assert sets.next_to.size(1) == len(links)
        triangles = [k == 3 and whole.subgraph(s).number_of_edges() == 3 for s in expected]
        assert sets.closed.flatten().bool().tolist() == triangles


def test_tells_apart_what_one_gnn_cannot() -> None:
    """Two triangles and a hexagon look alike to every 1-GNN without features."""
    twins = [nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), nx.cycle_graph(6)]
    batch = store_of(twins).batch(slice(None))
    gap = {}
    for conv in ("gin", "k123"):
        torch.manual_seed(0)
        encoder = Encoder(0, 0, Backbone(conv=conv, width=8)).eval()
        both = mean_of(encoder(batch), batch.batch, 2)
        gap[conv] = float((both[0] - both[1]).detach().abs().max())
    assert gap["gin"] < 1e-6
    assert gap["k123"] > 1e-3


def test_permutation_invariance_and_independence_of_the_batch() -> None:
    torch.manual_seed(0)
    network = GraphNetwork(Spec(3, 0, 2), Backbone(conv="k123", width=8)).eval()
    store = store_of(random_graphs(), features=3)
    whole = network(store.batch(slice(None)))
    alone = torch.cat([network(store.batch([i])) for i in range(len(store))])
    torch.testing.assert_close(whole, alone)
    graph = store.to_pyg()[4]
    order = torch.randperm(graph.num_nodes)
    place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel()))
    graph.x, graph.edge_index = graph.x[order], place[graph.edge_index]
    torch.testing.assert_close(network(GraphStore.from_pyg([graph]).batch([0])), whole[4:5])


def test_edge_weights_reach_every_level() -> None:
    torch.manual_seed(0)
    encoder = Encoder(0, 0, Backbone(conv="k123", width=8)).eval()
    batch = store_of([nx.cycle_graph(4), nx.path_graph(3)]).batch(slice(None))
    weight = torch.ones(batch.num_edges, requires_grad=True)
    encoder(batch, weight).square().sum().backward()
    assert weight.grad is not None
    assert bool((weight.grad != 0).all())
    # An edge of weight zero is as good as absent in levels 2 and 3, except for counting.
    levels = encoder.sets
    assert levels is not None
    h = torch.rand(batch.num_nodes, 8)
    off = torch.zeros(batch.num_edges)
    out = levels(h, Edges(batch.edge_index, off, None, batch.num_nodes), batch.batch)
    bare = torch.cat([h, torch.zeros(batch.num_nodes, 16)], 1)
    torch.testing.assert_close(out, levels.join(bare))


def test_as_featurizer_and_classifier_of_both_parts() -> None:
    torch.manual_seed(0)
    options = {"scorer": "mlp", "budget": "ratio", "size": 0.5, "classifier_input": "raw"}
    network = InvariantNetwork(Spec(3, 0, 2), Backbone(conv="k123", width=8), spurious=True, **options)
    batch = store_of([nx.cycle_graph(6), nx.star_graph(4), nx.empty_graph(2)], features=3).batch(slice(None))
    prediction = network.predict_both(network.split(batch))
    assert prediction.spurious_logits is not None
    (prediction.logits.square().sum() + prediction.spurious_logits.square().sum()).backward()
    scorer = network.extractor.mlp
    assert scorer is not None
    assert float(scorer["out"].weight.grad.abs().sum()) > 0


def test_a_graph_too_large_is_refused_in_one_sentence() -> None:
    star = torch.tensor([[0] * 300, list(range(1, 301))])
    batch = GraphStore(torch.zeros(301, 0), star, torch.tensor([0, 301]), torch.tensor([0, 300])).batch([0])
    with pytest.raises(
        CigaError, match="at most 20,000 paths of three nodes, and one of 301 nodes has 44,850"
    ):
        Encoder(0, 0, Backbone(conv="k123", width=4))(batch)


def test_a_path_has_consecutive_sets() -> None:
    batch = store_of([nx.path_graph(5)]).batch([0])
    two, three = connected_sets(Edges(batch.edge_index, None, None, 5), batch.batch)
    assert [tuple(s) for s in two.members.tolist()] == list(pairwise(range(5)))
    assert three.inside.tolist() == [[0, -1, 1], [1, -1, 2], [2, -1, 3]]
