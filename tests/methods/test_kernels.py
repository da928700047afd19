"""Kernel values by hand and against grakel, graphlet counts against brute force, the machine on top."""

from __future__ import annotations

import os
from collections import Counter
from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest
import torch

from ciga.graphs.names import row_names
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore
from ciga.methods.base import make
from ciga.methods.kernels.features import DISCONNECTED, GRAPHLETS, graphlet_counts, wl_counts
from ciga.methods.kernels.svm import matrix
from ciga.nn.encoder import Backbone, Spec
from ciga.training.loop import fit


def store_of(
    graphs: list[nx.Graph], labels: list[list[int]] | None = None, y: list[int] | None = None
) -> GraphStore:
    """Undirected graphs, each edge stored one way only; a node's feature is its label."""
    from torch_geometric.data import Data

    out = []
    for i, graph in enumerate(graphs):
        edges = torch.tensor(list(graph.edges)).view(-1, 2).T.long()
        names = labels[i] if labels else [0] * len(graph)
        x = torch.nn.functional.one_hot(torch.tensor(names, dtype=torch.long), 3).float()
        out.append(Data(x=x, edge_index=edges, y=torch.tensor([y[i] if y else 0])))
    return GraphStore.from_pyg(out)


def wl_kernel(store: GraphStore, iterations: int) -> torch.Tensor:
    batch = store.batch(slice(None))
    found = wl_counts(row_names(batch.x), batch.edge_index, batch.batch, iterations)
    labels, column = found.label.unique(return_inverse=True)
    phi = torch.zeros(len(store), labels.numel())
    phi[found.graph, column] = found.count
    return phi @ phi.T


def test_wl_by_hand() -> None:
    """A path a-b-a and a triangle of b.

    Iteration 0: counts (a 2, b 1) and (a 0, b 3); products 5, 9 and 3. Iteration 1: the path has (a;b) twice
    and (b;aa), the triangle three times (b;bb): products 5, 9 and 0.
    """
    store = store_of([nx.path_graph(3), nx.cycle_graph(3)], [[0, 1, 0], [1, 1, 1]])
    assert wl_kernel(store, 0).tolist() == [[5, 3], [3, 9]]
    assert wl_kernel(store, 1).tolist() == [[10, 3], [3, 18]]


def random_labelled(count: int = 12) -> GraphStore:
    graphs = [nx.gnp_random_graph(4 + i % 6, 0.4, seed=i) for i in range(count)]
    generator = torch.Generator().manual_seed(0)
    labels = [torch.randint(3, (len(g),), generator=generator).tolist() for g in graphs]
    return store_of(graphs, labels, [i % 2 for i in range(count)])


def test_wl_equals_relabelling_with_a_dictionary() -> None:
    store = random_labelled()
    features = []
    for graph in store.to_pyg():
        whole = nx.Graph(graph.edge_index.T.tolist())
        whole.add_nodes_from(range(graph.num_nodes))
        label: dict[int, object] = {v: int(graph.x[v].argmax()) for v in whole}
        found = Counter(label.values())
        for _ in range(3):
            label = {v: (label[v], tuple(sorted((label[u] for u in whole[v]), key=repr))) for v in whole}
            found.update(label.values())
        features.append(found)
    slow = torch.tensor([[float(sum(a[k] * b[k] for k in a)) for b in features] for a in features])
    assert torch.equal(wl_kernel(store, 3), slow)


@pytest.mark.parametrize("iterations", [1, 3])
def test_wl_equals_grakel(iterations: int) -> None:
    grakel = pytest.importorskip("grakel", reason="grakel is not installed (extra: kernels)")
    # grakel cannot take graphs without edges
    store = store_of(
        [nx.wheel_graph(6), nx.path_graph(5), nx.cycle_graph(5), nx.star_graph(4)],
        [[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 0], [2, 2, 1, 1, 0], [0, 1, 1, 1, 1]],
    )
    graphs = []
    for g in store.to_pyg():
        edges = {(int(u), int(v)) for a, b in g.edge_index.T.tolist() for u, v in ((a, b), (b, a))}
        graphs.append(grakel.Graph(edges, node_labels={v: int(g.x[v].argmax()) for v in range(g.num_nodes)}))
    kernel = grakel.WeisfeilerLehman(
        n_iter=iterations, normalize=False, base_graph_kernel=grakel.VertexHistogram
    )
    assert wl_kernel(store, iterations).tolist() == kernel.fit_transform(graphs).tolist()


def brute_counts(graph: nx.Graph) -> dict[str, int]:
    """Name every induced subgraph of 3 and 4 nodes by its degrees: they tell these shapes apart."""
    names = {
        (1, 1, 2): "path3",
        (2, 2, 2): "triangle",
        (0, 1, 1): "edge+1",
        (0, 0, 0): "empty3",
        (1, 1, 1, 3): "star4",
        (1, 1, 2, 2): "path4",
        (1, 2, 2, 3): "paw",
        (2, 2, 2, 2): "cycle4",
        (2, 2, 3, 3): "diamond",
        (3, 3, 3, 3): "k4",
        (0, 0, 1, 1): "edge+2",
        (1, 1, 1, 1): "two edges",
        (0, 1, 1, 2): "path3+1",
        (0, 2, 2, 2): "triangle+1",
        (0, 0, 0, 0): "empty4",
    }
    sets = [s for k in (3, 4) for s in combinations(graph, k)]
    return Counter(names[tuple(sorted(d for _, d in graph.subgraph(s).degree()))] for s in sets)


def test_graphlet_counts_equal_brute_force() -> None:
    graphs = [nx.gnp_random_graph(n, p, seed=n) for n in (1, 2, 3, 4, 7, 9, 10) for p in (0.2, 0.5, 0.8)]
    graphs += [nx.complete_graph(6), nx.empty_graph(4), nx.wheel_graph(9), nx.star_graph(7)]
    batch = store_of(graphs).batch(slice(None))
    counts = graphlet_counts(batch.edge_index, batch.batch, batch.num_graphs)
    for graph, row in zip(graphs, counts.tolist(), strict=True):
        slow = brute_counts(graph)
        assert row == [slow[name] for name in GRAPHLETS + DISCONNECTED]


def test_graphlet_counts_equal_igraph() -> None:
    igraph = pytest.importorskip("igraph", reason="igraph is not installed (extra: kernels)")
    graph = nx.gnp_random_graph(40, 0.15, seed=3)
    batch = store_of([graph]).batch([0])
    row = graphlet_counts(batch.edge_index, batch.batch, 1)[0].tolist()
    other = igraph.Graph(n=40, edges=list(graph.edges))
    three, four = other.motifs_randesu(3), other.motifs_randesu(4)
    assert sorted(row[:2]) == sorted(c for c in three if c == c)
    assert sorted(row[2:8]) == sorted(c for c in four if c == c)


def test_self_loops_and_repeated_edges_do_not_count() -> None:
    clean = torch.tensor([[0, 1, 2], [1, 2, 0]])
    messy = torch.tensor([[0, 1, 2, 1, 0, 0, 2], [1, 2, 0, 0, 0, 1, 2]])
    graph = torch.zeros(4, dtype=torch.long)
    assert torch.equal(graphlet_counts(clean, graph, 1), graphlet_counts(messy, graph, 1))


def toy_splits(classes: int = 3) -> Splits:
    """Trees, ladders and cycles, of other sizes in the test part."""

    def part(low: int, high: int) -> GraphStore:
        graphs, y = [], []
        for n in range(low, high):
            shapes = [nx.random_labeled_tree(n, seed=n), nx.ladder_graph(n // 2), nx.cycle_graph(n)]
            graphs += shapes[:classes]
            y += list(range(classes))
        return store_of(graphs, y=y)

    return Splits({"train": part(8, 24), "id_val": part(10, 20), "ood_test": part(24, 32)}, Task(classes))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["wl", "graphlet"])
def test_learns_and_is_saved_and_judges_each_graph_alone(name: str, classes: int, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    splits = toy_splits(classes)
    fitted = fit(make(name), splits)
    assert fitted.selected["id-val"]["id_val"]["accuracy"] == 1.0
    assert fitted.selected["id-val"]["ood_test"]["accuracy"] > 0.8
    network, store = fitted.network(), splits["ood_test"]
    save_file(network.state_dict(), tmp_path / "state.safetensors")
    again = make(name).network(Spec.of(splits), Backbone())
    again.load_state_dict(load_file(tmp_path / "state.safetensors"))
    whole = network(store.batch(slice(None)))
    assert torch.equal(again(store.batch(slice(None))), whole)
    alone = torch.cat([network(store.batch([i])) for i in range(len(store))])
    torch.testing.assert_close(whole, alone)


def test_the_graphlet_kernel_is_a_product_of_raw_counts() -> None:
    """As Shervashidze et al. count them, unless `normalise` asks for standardised shares."""
    splits = toy_splits()
    names = GRAPHLETS[:8]
    graphs = [nx.Graph(g.edge_index.T.tolist()) for g in splits.train.to_pyg()]
    slow = []
    for graph in graphs:
        counts = Counter()
        for size in (3, 4):
            for nodes in combinations(graph, size):
                part = graph.subgraph(nodes)
                if nx.is_connected(part):
                    counts[size, part.number_of_edges(), max(d for _, d in part.degree)] += 1
        slow.append(counts)
    keys = {
        "path3": (3, 2, 2),
        "triangle": (3, 3, 2),
        "star4": (4, 3, 3),
        "path4": (4, 3, 2),
        "paw": (4, 4, 3),
    }
    keys |= {"cycle4": (4, 4, 2), "diamond": (4, 5, 3), "k4": (4, 6, 3)}
    phi = torch.tensor([[float(c[keys[n]]) for n in names] for c in slow], dtype=torch.double)
    x = torch.from_numpy(matrix(fit(make("graphlet", {"C": 1.0}), splits).network(), splits.train).toarray())
    torch.testing.assert_close(x @ x.T, phi @ phi.T)
    shares = matrix(fit(make("graphlet", {"C": 1.0, "normalise": True}), splits).network(), splits.train)
    spread = torch.from_numpy(shares.toarray()).std(0, correction=0)
    torch.testing.assert_close(spread[spread > 0], torch.ones_like(spread[spread > 0]))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["wl", "graphlet"])
def test_scores_are_those_of_a_support_vector_machine(name: str, classes: int) -> None:
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC

    splits = toy_splits(classes)
    network = fit(make(name, {"C": 0.01}), splits).network()
    x = matrix(network, splits.train)
    machine = OneVsRestClassifier(SVC(C=0.01, kernel="linear")).fit(x.toarray(), splits.train.y.numpy())
    mine = network(splits.train.batch(slice(None))).double()
    mine = mine if classes > 2 else mine[:, 1] - mine[:, 0]
    expected = torch.from_numpy(machine.decision_function(x.toarray()))
    torch.testing.assert_close(mine, expected, rtol=1e-2, atol=1e-2)


def test_the_kernel_matrix_is_only_a_short_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = toy_splits()
    one = fit(make("graphlet", {"C": 1.0}), splits).network()
    monkeypatch.setattr("ciga.methods.kernels.svm.GRAM", 5)
    two = fit(make("graphlet", {"C": 1.0}), splits).network()
    torch.testing.assert_close(one.weight, two.weight, rtol=1e-2, atol=1e-3)


def test_c_is_chosen_on_validation_and_never_on_test() -> None:
    splits = toy_splits()
    other = Splits({**splits.parts, "ood_test": splits["ood_test"].subset([0, 1])}, splits.task)
    one, two = (fit(make("graphlet"), s).network().weight for s in (splits, other))
    assert torch.equal(one, two)
    # Validation labels that contradict training want the least C; agreeing ones a larger one.
    upside = splits["id_val"].subset(slice(None))
    upside.y = (upside.y + 1) % 3
    turned = Splits({**splits.parts, "id_val": upside}, splits.task)
    assert float(fit(make("graphlet"), turned).network().weight.norm()) < float(one.norm())


def test_continuous_features_give_constant_labels() -> None:
    splits = toy_splits()
    for part in splits.parts.values():
        part.x = torch.rand(part.x.shape, generator=torch.Generator().manual_seed(1))
    network = fit(make("wl"), splits).network()
    assert not bool(network.named)
    assert fit(make("wl"), splits).selected["id-val"]["id_val"]["accuracy"] == 1.0


def test_a_label_training_never_saw_scores_nothing() -> None:
    splits = toy_splits()
    network = fit(make("wl", {"labels": "features", "iterations": 1}), splits).network()
    strange = store_of([nx.cycle_graph(9)], [[2] * 9]).batch([0])
    torch.testing.assert_close(network(strange)[0], network.bias)


@pytest.mark.parametrize("name", ["wl", "graphlet"])
def test_one_class_is_always_predicted(name: str) -> None:
    splits = toy_splits()
    rows = splits.train.y == 1
    lone = Splits({"train": splits.train.subset(rows), "ood_test": splits["ood_test"]}, splits.task)
    network = fit(make(name), lone).network()
    assert network(splits["ood_test"].batch(slice(None))).argmax(1).unique().tolist() == [1]


@pytest.mark.data
def test_wl_on_nci1() -> None:
    if not (Path(os.environ.get("CIGA_DATA", "")) / "TU" / "NCI1" / "raw").is_dir():
        pytest.skip("set CIGA_DATA to a folder with TU/NCI1/raw")
    from ciga.data import load

    metrics = fit(make("wl"), load("nci1")).selected["id-val"]
    assert metrics["id_val"]["accuracy"] > 0.8
    assert 0.3 < metrics["ood_test"]["mcc"] < 0.45  # the paper has 0.39
