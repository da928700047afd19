"""Subgraph densities against brute force, and the networks built on them."""

from __future__ import annotations

from itertools import combinations, permutations

import networkx as nx
import pytest
import torch
from torch import Tensor

from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import Batch, GraphStore
from ciga.graphs.topology import Adjacency
from ciga.methods.base import Context, Step, make
from ciga.methods.gamma.densities import draw_sets, enumerate_sets, subgraphs
from ciga.methods.gamma.gin import SubgraphGIN
from ciga.methods.gamma.kinds import from_rows, in_rows, name_kinds
from ciga.methods.gamma.shapes import shapes
from ciga.nn.encoder import Backbone, Spec
from ciga.training.loop import fit
from ciga.training.schedule import Training

BACKBONE = Backbone(width=8, layers=2)


def store_of(graphs: list[nx.Graph], features: int = 3, seed: int = 0) -> GraphStore:
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(seed)
    out = []
    for label, graph in enumerate(graphs):
        edges = torch.tensor([(u, v) for a, b in graph.edges for u, v in ((a, b), (b, a))]).view(-1, 2).T
        x = torch.rand(graph.number_of_nodes(), features, generator=generator)
        out.append(Data(x=x, edge_index=edges.long(), y=torch.tensor([label % 2])))
    return GraphStore.from_pyg(out)


def some_graphs() -> list[nx.Graph]:
    return [
        nx.gnp_random_graph(9, 0.35, seed=1),
        nx.star_graph(6),
        nx.wheel_graph(8),
        nx.disjoint_union(nx.path_graph(2), nx.cycle_graph(6)),
        nx.empty_graph(2),
    ]


def look(batch: Batch) -> tuple[Adjacency, Tensor, int]:
    return Adjacency.of(batch.edge_index, batch.num_nodes), batch.batch, batch.num_graphs


def brute_force(graph: nx.Graph, k: int) -> list[tuple[int, ...]]:
    """Connected k-sets, and the components that are smaller."""
    sets = []
    for component in nx.connected_components(graph):
        nodes = sorted(component)
        sets += [s for s in combinations(nodes, k) if nx.is_connected(graph.subgraph(s))]
        sets += [tuple(nodes)] if len(nodes) < k else []
    return sorted(sets)


@pytest.mark.parametrize(("k", "count"), [(2, 2), (3, 4), (4, 10), (5, 31)])
def test_shapes_are_the_connected_graphs(k: int, count: int) -> None:
    tables = shapes(k)
    assert tables.count == count  # 1 + 1 + 2 + 6 + 21
    atlas = [g for g in nx.graph_atlas_g() if 0 < len(g) <= k and nx.is_connected(g)]
    automorphisms = sorted(
        sum(1 for _ in nx.isomorphism.GraphMatcher(g, g).isomorphisms_iter()) for g in atlas
    )
    assert sorted(tables.symmetries.tolist()) == automorphisms


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_enumeration_equals_brute_force(k: int) -> None:
    graphs = some_graphs()
    batch = store_of(graphs).batch(slice(None))
    whole = nx.disjoint_union_all(graphs)
    adjacency, owner, count = look(batch)
    sets, large = enumerate_sets(adjacency, owner, count, k, 10_000)
    assert not large.any()
    assert sorted(tuple(v for v in s if v >= 0) for s in sets.tolist()) == brute_force(whole, k)
    found = subgraphs(adjacency, owner, count, shapes(k), 10_000, torch.zeros(1, k))
    mass = torch.zeros(count).index_add(0, found.graph, found.density)
    torch.testing.assert_close(mass, torch.ones(count))
    for i, a in enumerate(found.nodes.tolist()):  # same shape if and only if isomorphic
        for j in range(i % 41, i, 41):
            b = found.nodes[j].tolist()
            one, two = (whole.subgraph([v for v in s if v >= 0]) for s in (a, b))
            assert (found.shape[i] == found.shape[j]) == nx.is_isomorphic(one, two)


def test_a_graph_over_the_limit_is_drawn_and_the_others_are_not() -> None:
    batch = store_of([nx.path_graph(6), nx.star_graph(12)]).batch(slice(None))
    adjacency, owner, count = look(batch)
    _, large = enumerate_sets(adjacency, owner, count, 4, 50)
    assert large.tolist() == [False, True]
    found = subgraphs(adjacency, owner, count, shapes(4), 50, torch.rand(20, 4))
    assert torch.bincount(found.graph).tolist() == [3, 20]


def test_draws_are_connected_and_their_chances_exact() -> None:
    graph = nx.disjoint_union(nx.lollipop_graph(4, 3), nx.path_graph(2))
    batch = store_of([graph]).batch(slice(None))
    adjacency, owner, _ = look(batch)
    draws = torch.rand(20_000, 3, generator=torch.Generator().manual_seed(0))
    sets, log_chance = draw_sets(adjacency, owner, torch.tensor([0]), 1, 3, draws)
    seen: dict[tuple[int, ...], list[float]] = {}
    for s, chance in zip(sets.tolist(), log_chance.exp().tolist(), strict=True):
        members = tuple(v for v in s if v >= 0)
        assert len(set(members)) == len(members)
        assert nx.is_connected(graph.subgraph(members))
        seen.setdefault(members, []).append(chance)
    for chances in seen.values():
        assert max(chances) - min(chances) < 1e-9
        assert abs(len(chances) / 20_000 - chances[0]) < 5 * (chances[0] / 20_000) ** 0.5
    assert abs(sum(chances[0] for chances in seen.values()) - 1) < 1e-9


def test_sampled_densities_agree_with_exact_ones() -> None:
    batch = store_of([nx.wheel_graph(12), nx.lollipop_graph(5, 6)]).batch(slice(None))
    adjacency, owner, count = look(batch)
    tables = shapes(4)
    draws = torch.rand(2, 20_000, 4, generator=torch.Generator().manual_seed(1))
    densities = []
    for limit in (10_000, 1):
        found = subgraphs(adjacency, owner, count, tables, limit, draws)
        key = found.graph * tables.count + found.shape
        densities.append(torch.zeros(count * tables.count).index_add(0, key, found.density))
    assert float((densities[0] - densities[1]).abs().max()) < 0.015
    assert float(densities[0].max()) < 0.9  # more than one shape is present


@pytest.mark.parametrize("name", ["gamma-1hot", "gamma-gin", "gamma-rpgin"])
def test_evaluation_ignores_node_order_and_neighbours_in_the_batch(name: str) -> None:
    torch.manual_seed(0)
    store = store_of(some_graphs())
    network = make(name).network(Spec(3, 0, 2), BACKBONE).eval()
    with torch.no_grad():
        whole = network(store.batch(slice(None)))
        alone = torch.cat([network(store.batch([i])) for i in range(len(store))])
        torch.testing.assert_close(whole, alone)
        graph = store.to_pyg()[2]
        order = torch.randperm(graph.num_nodes)
        place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel()))
        graph.x, graph.edge_index = graph.x[order], place[graph.edge_index]
        torch.testing.assert_close(network(GraphStore.from_pyg([graph]).batch([0])), whole[2:3])


def test_evaluation_of_a_drawn_graph_is_the_same_every_time_and_everywhere() -> None:
    torch.manual_seed(0)
    store = store_of([nx.path_graph(4), nx.wheel_graph(14)])
    network = make("gamma-gin", {"exact": 20, "samples": 16}).network(Spec(3, 0, 2), BACKBONE).eval()
    with torch.no_grad():
        both, alone = network(store.batch([0, 1])), network(store.batch([1]))
    torch.testing.assert_close(both[1:], alone)


def test_regulariser_equals_a_loop() -> None:
    torch.manual_seed(0)
    batch = store_of(some_graphs()).batch(slice(None))
    network = SubgraphGIN(Spec(3, 0, 2), BACKBONE, 3, 500, 500, 16).eval()
    with torch.no_grad():
        found, adjacency = network.find(batch)
        each = network._encode(found.nodes, batch, adjacency)
        densities = network.densities(batch)
        whole, joined = network.encode(batch, densities)
        spread = network.spread(batch, densities, joined)
    expected, sums = 0.0, torch.zeros_like(whole)
    for g in range(batch.num_graphs):
        mine = [s for s in range(each.size(0)) if found.graph[s] == g]
        for s in mine:
            alike = [t for t in mine if found.shape[t] == found.shape[s]]
            centre = sum(each[t] for t in alike) / len(alike)
            expected += float(((each[s] - centre) ** 2).sum()) / len(mine) / batch.num_graphs
            sums[g] += each[s] / len(mine)
    torch.testing.assert_close(spread, torch.tensor(expected), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(whole, sums, rtol=1e-4, atol=1e-5)
    assert expected > 0


@pytest.mark.parametrize("edges", [0, 1])
@pytest.mark.parametrize("name", ["gamma-gin", "gamma-rpgin"])
def test_alike_subgraphs_are_encoded_once_and_right(name: str, edges: int) -> None:
    torch.manual_seed(0)
    batch = store_of(some_graphs()).batch(slice(None))
    batch.x = (batch.x > 0.8).float()
    if edges:
        batch.edge_attr = (torch.rand(batch.num_edges, 1) > 0.95).float()  # the two directions may differ
    network = make(name).network(Spec(3, edges, 2), BACKBONE).eval()
    assert isinstance(network, SubgraphGIN)
    with torch.no_grad():
        found, adjacency = network.find(batch)
        every = network._encode(found.nodes, batch, adjacency)
        densities = network.densities(batch)
        weighted = every * found.density.unsqueeze(1)
        whole = torch.zeros(batch.num_graphs, every.size(1)).index_add(0, found.graph, weighted)
        torch.testing.assert_close(network.encode(batch, densities)[0], whole)
    assert 10 < densities.kind.unique().numel() < densities.kind.numel() < found.graph.numel() - 10


@pytest.mark.parametrize("name", ["gamma-gin", "gamma-rpgin"])
def test_prepared_densities_give_the_loss_of_listed_ones(name: str) -> None:
    """Training lists the subgraphs once; a batch in any order gets from there what it would find itself."""
    torch.manual_seed(0)
    store = labelled_store()
    splits = Splits({"train": store}, Task(2))
    method = make(name, {"labels": "features", "k": 3, "penalty": 0.1})
    network = method.network(Spec.of(splits), BACKBONE).eval()
    method.learn(network, store)
    context = Context(splits, Spec.of(splits), BACKBONE, 1, lambda e: network, lambda n: torch.zeros(5, 2))
    side = method.prepare(context)
    rows = torch.tensor([3, 0, 2])
    batch = store.batch(rows)
    with torch.no_grad():
        kept = method.loss(network, batch, Step(side={k: v[rows] for k, v in side.items()}))
        listed = method.loss(network, batch, Step(side={"weight": side["weight"][rows]}))
    assert kept.keys() == listed.keys() == {"risk", "attributes"}
    for term, value in kept.items():
        torch.testing.assert_close(value, listed[term])
    measured = Splits({"train": store_of(some_graphs())}, Task(2))
    context = Context(measured, Spec.of(splits), BACKBONE, 1, lambda e: network, lambda n: torch.zeros(5, 2))
    assert make(name).prepare(context).keys() == {"weight"}  # measurements: every subgraph its own


def test_relational_pooling_equals_the_mean_over_orders() -> None:
    """Random one-hot ids: every order of the nodes is one assignment of ids (Murphy et al., 2019)."""
    torch.manual_seed(0)
    batch = store_of([nx.lollipop_graph(3, 1)]).batch([0])
    network = make("gamma-rpgin").network(Spec(3, 0, 2), BACKBONE).eval()
    with torch.no_grad():
        _, adjacency = network.find(batch)
        orders = [network._gin(torch.tensor([p]), batch, adjacency) for p in permutations(range(4))]
        assert len(orders) == 24
        torch.testing.assert_close(
            network.encode(batch, network.densities(batch))[0], torch.cat(orders).mean(0, keepdim=True)
        )
        assert float(torch.cat(orders).std(0).max()) > 1e-4  # the order matters, so the mean is no formality


@pytest.mark.parametrize("permutations", [1, 3])
def test_training_averages_as_many_random_orders_as_asked_for(
    permutations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = store_of([nx.star_graph(3), nx.path_graph(4)]).batch([0, 1])
    network = make("gamma-rpgin", {"permutations": permutations}).network(Spec(3, 0, 2), BACKBONE).train()
    asked: list[Tensor] = []
    gin = network._gin
    monkeypatch.setattr(network, "_gin", lambda n, b, a: asked.append(n) or gin(n, b, a))
    found = network.densities(batch)
    network.encode(batch, found)
    rows = asked[0].view(2, permutations, 4)
    assert rows.sort(2).values.unique(dim=1).tolist() == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
    seen = {tuple(r) for _ in range(40) for r in [network.encode(batch, found), asked[-1][0].tolist()][1:]}
    assert len(seen) > 12  # of 24: orders of all kinds, not the automorphisms of one form


@pytest.mark.parametrize("name", ["gamma-gin", "gamma-rpgin"])
def test_every_term_has_a_gradient(name: str) -> None:
    torch.manual_seed(0)
    method = make(name, {"samples": 16, "penalty": 0.1})
    network = method.network(Spec(3, 0, 2), BACKBONE)
    batch = store_of(some_graphs()).batch(slice(None))
    terms = method.loss(network, batch, Step(side={"weight": torch.ones(batch.num_graphs)}))
    for term in terms.values():
        gradients = torch.autograd.grad(
            term, list(network.encoder.parameters()), retain_graph=True, allow_unused=True
        )
        assert any(g is not None and bool((g != 0).any()) for g in gradients)


def test_training_encodes_each_kind_of_a_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the original does, whose batch norm sees each kind of subgraph once, however often it occurs."""
    store = labelled_store()
    batch = store.batch(slice(None))
    method = make("gamma-gin", {"labels": "features"})
    network = method.network(Spec(2, 0, 2), BACKBONE).train()
    asked: list[Tensor] = []
    gin = network._gin
    monkeypatch.setattr(network, "_gin", lambda n, b, a: asked.append(n) or gin(n, b, a))
    method.learn(network, store)
    found = network.densities(batch)
    network.encode(batch, found)
    kinds = found.kind.unique().numel()
    assert [nodes.size(0) for nodes in asked] == [kinds]
    assert kinds == network.kinds.numel() < network.find(batch)[0].shape.numel() / 2


# ---------------------------------------------------------------- attributed subgraphs, the head, the risk


def labelled_store(colours: int = 2, seed: int = 0) -> GraphStore:
    """The same graphs, each node with one of a few labels."""
    store = store_of(some_graphs(), colours, seed)
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(colours, (store.x.size(0),), generator=generator)
    store.x = torch.nn.functional.one_hot(label, colours).float()
    return store


def slow_densities(store: GraphStore, k: int) -> list[list[tuple[nx.Graph, float]]]:
    """Of each graph: its kinds of attributed k-node subgraphs, by isomorphism tests, and their shares."""
    out = []
    for data in store.to_pyg():
        graph = nx.Graph(data.edge_index.T.tolist())
        graph.add_nodes_from(range(data.num_nodes))
        nx.set_node_attributes(graph, dict(enumerate(data.x.argmax(1).tolist())), "label")
        sets = brute_force(graph, k)
        kinds: list[tuple[nx.Graph, float]] = []
        for nodes in sets:
            part = graph.subgraph(nodes)
            same = [i for i, (other, _) in enumerate(kinds) if alike(part, other)]
            if same:
                kinds[same[0]] = (kinds[same[0]][0], kinds[same[0]][1] + 1 / len(sets))
            else:
                kinds.append((part, 1 / len(sets)))
        out.append(kinds)
    return out


def alike(one: nx.Graph, two: nx.Graph) -> bool:
    return nx.is_isomorphic(one, two, node_match=lambda a, b: a["label"] == b["label"])


@pytest.mark.parametrize("k", [3, 4])
def test_one_hot_tells_attributed_subgraphs_apart_as_isomorphism_does(k: int) -> None:
    """The original's Gamma 1-hot: one column per attributed induced subgraph of the training graphs."""
    store = labelled_store()
    method = make("gamma-1hot", {"k": k, "labels": "features"})
    network = method.network(Spec(2, 0, 2), BACKBONE)
    method.learn(network, store)
    expected = slow_densities(store, k)
    columns: list[nx.Graph] = []
    for kinds in expected:
        columns += [part for part, _ in kinds if not any(alike(part, c) for c in columns)]
    assert network.kinds.numel() == len(columns)
    assert len(columns) > shapes(k).count + 5  # shapes alone would merge most of them
    table = network.table(network.densities(store.batch(slice(None))))
    for row, kinds in zip(table.tolist(), expected, strict=True):
        wanted = sorted(share for _, share in kinds)
        assert sorted(v for v in row if v) == pytest.approx(wanted)
    # Columns mean the same in every graph: the sums by column agree, whatever their order.
    sums = [sum(s for kinds in expected for p, s in kinds if alike(p, c)) for c in columns]
    assert sorted(table.sum(0).tolist()) == pytest.approx(sorted(sums))


def test_names_of_kinds_ignore_the_order_of_nodes_and_see_the_labels() -> None:
    batch = labelled_store().batch(slice(None))
    label = batch.x.argmax(1)
    adjacency, owner, count = look(batch)
    found = subgraphs(adjacency, owner, count, shapes(4), 10_000, torch.zeros(1, 4))
    whole = nx.disjoint_union_all(some_graphs())
    nx.set_node_attributes(whole, dict(enumerate(label.tolist())), "label")
    names = name_kinds(found, label, shapes(4)).tolist()
    parts = [whole.subgraph([v for v in nodes if v >= 0]) for nodes in found.nodes.tolist()]
    for i in range(len(parts)):
        for j in range(i % 37, i, 37):
            assert (names[i] == names[j]) == alike(parts[i], parts[j])


@pytest.mark.parametrize("name", ["gamma-1hot", "gamma-gin", "gamma-rpgin"])
def test_a_kind_that_training_never_had_is_left_out(name: str) -> None:
    """The original counts subgraphs that training and test have in common, and their densities sum to 1."""
    torch.manual_seed(0)
    store = labelled_store()
    method = make(name, {"k": 3, "labels": "features"})
    network = method.network(Spec(2, 0, 2), BACKBONE).eval()
    seen, strange = slow_densities(store.subset([1]), 3)[0], store.batch([2])  # a star, and a wheel
    method.learn(network, store.subset([1]))
    assert network.kinds.numel() == len(seen)
    both = [
        share
        for part, share in slow_densities(store.subset([2]), 3)[0]
        if any(alike(part, s) for s, _ in seen)
    ]
    assert 0 < sum(both) < 0.99
    found, adjacency = network.find(strange)
    _, share = network.known(network.name(found, strange), found.graph, found.density, 1)
    assert float(share.sum()) == pytest.approx(1)
    assert int((share == 0).sum()) == round((1 - sum(both)) * share.numel())
    if name == "gamma-1hot":
        assert sorted(v for v in network.table(network.densities(strange))[0].tolist() if v) == pytest.approx(
            sorted(v / sum(both) for v in both)
        )
        return
    with torch.no_grad():
        each = network._encode(found.nodes, strange, adjacency)
        expected = (each * share.unsqueeze(1)).sum(0, keepdim=True)
        torch.testing.assert_close(
            network.encode(strange, network.densities(strange))[0], expected, rtol=1e-4, atol=1e-4
        )


def test_the_most_common_kinds_are_known_where_there_are_too_many() -> None:
    store = labelled_store()
    method = make("gamma-1hot", {"k": 3, "kinds": 2, "labels": "features"})
    network = method.network(Spec(2, 0, 2), BACKBONE)
    method.learn(network, store)
    assert network.kinds.numel() == network.embed.in_features == 2
    names = [set(network.densities(store.batch([i])).kind.tolist()) for i in range(len(store))]
    most = sorted((sum(k in n for n in names) for k in set().union(*names)), reverse=True)
    assert sorted((sum(k in n for n in names) for k in network.kinds.tolist()), reverse=True) == most[:2]


def test_rows_of_densities_come_back_as_they_were() -> None:
    store = labelled_store()
    method = make("gamma-1hot", {"labels": "features"})
    network = method.network(Spec(2, 0, 2), BACKBONE)
    method.learn(network, store)
    parts = [network.densities(store.batch(rows)) for rows in ([0, 1, 2], [3, 4])]
    again = from_rows(*in_rows(parts))
    torch.testing.assert_close(
        network.table(again), network.table(network.densities(store.batch(slice(None))))
    )


@pytest.mark.parametrize("name", ["gamma-1hot", "gamma-gin", "gamma-rpgin"])
def test_the_risk_is_weighted_by_one_over_the_share_of_a_class(name: str) -> None:
    torch.manual_seed(0)
    store = store_of(some_graphs() * 2)
    store.y = torch.tensor([0] * 7 + [1] * 3)
    splits = Splits({"train": store}, Task(2))
    method = make(name)
    network = method.network(Spec.of(splits), BACKBONE)
    context = Context(
        splits, Spec.of(splits), BACKBONE, 1, lambda epochs: network, lambda n: torch.zeros(10, 2)
    )
    rows = torch.tensor([0, 1, 8])
    batch = store.batch(rows)
    side = {key: value[rows] for key, value in method.prepare(context).items()}
    network.eval()  # the loss then shows no chance
    with torch.no_grad():
        logits = network(batch)
        weights = [1 / 0.7, 1 / 0.7, 1 / 0.3]
        losses = [torch.nn.functional.cross_entropy(logits[i], batch.y[i]) for i in range(3)]
        expected = sum(w * one for w, one in zip(weights, losses, strict=True)) / sum(weights)
        torch.testing.assert_close(method.loss(network, batch, Step(side=side))["risk"], expected)


@pytest.mark.parametrize("name", ["gamma-1hot", "gamma-gin", "gamma-rpgin"])
def test_the_head_is_the_originals(name: str) -> None:
    """Batch norm without scale and shift on the representation, one hidden layer of 128, dropout.

    The representation of 1-hot is a linear map of the densities, as wide as the network.
    """
    backbone = Backbone(width=8, layers=2, dropout=0.3)
    network = make(name).network(Spec(3, 0, 2), backbone)
    assert not network.norm.affine
    kinds = [type(layer).__name__ for layer in network.head]
    assert kinds == ["Linear", "ReLU", "Dropout", "Linear"]
    assert network.head[0].in_features == network.norm.num_features == 8
    assert (network.head[0].out_features, network.head[2].p) == (128, 0.3)
    batch = store_of(some_graphs()).batch(slice(None))
    seen = network.train().represent(batch)
    varied = seen.std(0, correction=0) > 0.5
    torch.testing.assert_close(seen.mean(0), torch.zeros(seen.size(1)), atol=1e-5, rtol=0)
    assert varied.any()


def test_one_hot_is_saved_with_the_kinds_it_knows() -> None:
    store = labelled_store()
    splits = Splits({"train": store, "id_val": store}, Task(2))
    training = Training(epochs=2, batch_size=3, trial=1, starts=1)
    fitted = fit(make("gamma-1hot", {"labels": "features"}), splits, backbone=BACKBONE, training=training)
    one = fitted.network()
    fresh = make("gamma-1hot", {"labels": "features"}).network(Spec.of(splits), BACKBONE)
    assert fresh.kinds.numel() != one.kinds.numel()
    fresh.load_state_dict(one.state_dict())
    batch = store.batch(slice(None))
    with torch.no_grad():
        assert torch.equal(fresh.eval()(batch), one(batch))


def test_evaluation_remembers_a_batch_by_its_content() -> None:
    torch.manual_seed(0)
    store = labelled_store()
    method = make("gamma-1hot", {"labels": "features"})
    network = method.network(Spec(2, 0, 2), BACKBONE).eval()
    method.learn(network, store)
    with torch.no_grad():
        first = network.represent(store.batch([2]))
        other = store.batch([2])
        other.x = other.x.flip(1)
        changed = network.represent(other)
        assert torch.equal(network.represent(store.batch([2])), first)
    assert not torch.equal(changed, first)
    assert len(network._seen) == 2
