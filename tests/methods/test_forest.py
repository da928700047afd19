"""The forest: its fingerprints, its trees as tensors, and what a hostile file may not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ciga.errors import CigaError
from ciga.files import read_tensors, write_tensors
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore
from ciga.methods.base import make
from ciga.methods.forest import Forest, table
from ciga.methods.forest.fingerprint import CHEMICAL, CONSTANT, ROWS, Naming, fingerprints, totals
from ciga.methods.forest.trees import ForestNetwork
from ciga.models.folder import load_network
from ciga.nn.encoder import Backbone, Spec
from ciga.runs.settings import resolve
from ciga.training.loop import fit
from tests.helpers import mixed_graphs, random_graph


def labelled(count: int = 24, classes: int = 3) -> GraphStore:
    """Graphs whose node labels are more often those of their class."""
    graphs = []
    for seed in range(count):
        graph = random_graph(6 + seed % 4, 7, seed, features=3, y=seed % classes)
        rng = torch.Generator().manual_seed(seed)
        kind = torch.where(torch.rand(graph.num_nodes, generator=rng) < 0.7, seed % classes, 0)
        graph.x = torch.nn.functional.one_hot(kind, 3).float()
        graphs.append(graph)
    return GraphStore.from_pyg(graphs)


def splits(classes: int = 3) -> Splits:
    store = labelled(48, classes)
    return Splits({"train": store.subset(slice(0, 24)), "id_val": store.subset(slice(24, 48))}, Task(classes))


@pytest.mark.parametrize("weight", ["none", "balanced"])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_scikit_learn(classes: int, weight: str) -> None:
    from sklearn.ensemble import RandomForestClassifier

    data = splits(classes)
    options = {"trees": 20, "bits": 64, "class_weight": weight}
    network = fit(make("forest", options), data, seed=3).network()
    assert isinstance(network, ForestNetwork)
    forest = RandomForestClassifier(20, class_weight=None if weight == "none" else weight, random_state=3)
    forest.fit(table(network, data.train), data.train.y.numpy())
    for part in data:
        expected = forest.predict_proba(table(network, data[part]))
        mine = network(data[part].batch(slice(None))).softmax(1)
        assert np.abs(mine.numpy() - expected).max() < 1e-6


def test_totals_of_continuous_features_fall_on_the_side_where_scikit_learn_has_them() -> None:
    from sklearn.ensemble import RandomForestClassifier

    graphs = [random_graph(5 + i % 3, 6, i, features=2, y=i % 2) for i in range(60)]
    for graph in graphs:
        graph.x = 1 + graph.x * 1e-6  # many thresholds lie between two neighbouring floats
    store = GraphStore.from_pyg(graphs)
    data = Splits({"train": store.subset(slice(0, 40)), "id_val": store.subset(slice(40, 60))}, Task(2))
    network = fit(make("forest", {"trees": 30, "bits": 8}), data, seed=1).network()
    assert isinstance(network, ForestNetwork)
    assert int(network.feature.max()) >= 8, "no tree asks for a total"
    forest = RandomForestClassifier(30, random_state=1).fit(table(network, data.train), data.train.y.numpy())
    for part in data:
        expected = forest.predict_proba(table(network, data[part]))
        assert np.abs(network(data[part].batch(slice(None))).softmax(1).numpy() - expected).max() < 1e-6


def test_totals_are_sums_over_a_graph() -> None:
    graph = random_graph(5, 4, 0, features=2)
    graph.edge_attr = torch.arange(graph.num_edges * 3).view(-1, 3).float()
    lone = graph.clone()
    lone.x, lone.edge_index, lone.edge_attr = graph.x[:1], graph.edge_index[:, :0], graph.edge_attr[:0]
    found = totals(GraphStore.from_pyg([graph, lone]).batch(slice(None)))
    whole = [graph.num_nodes, graph.num_edges, *graph.x.sum(0).tolist(), *graph.edge_attr.sum(0).tolist()]
    torch.testing.assert_close(found[0], torch.tensor(whole))
    torch.testing.assert_close(found[1], torch.tensor([1.0, 0.0, *graph.x[0].tolist(), 0.0, 0.0, 0.0]))


def test_without_totals_trees_see_the_fingerprint_alone() -> None:
    data = splits()
    network = fit(make("forest", {"trees": 5, "bits": 64, "totals": False}), data, seed=1).network()
    assert isinstance(network, ForestNetwork)
    assert table(network, data.train).shape == (24, 64)


def test_a_class_that_training_lacks_is_never_predicted() -> None:
    data = splits()
    rows = data.train.y != 1
    lone = Splits({"train": data.train.subset(rows), "id_val": data["id_val"]}, data.task)
    found = fit(make("forest", {"trees": 5, "bits": 64}), lone).network()(data["id_val"].batch(slice(None)))
    assert found.softmax(1)[:, 1].max() < 1e-6
    assert found.isfinite().all()


def test_the_seed_decides_the_trees() -> None:
    data, method = splits(), make("forest", {"trees": 5, "bits": 64})
    one, again, other = (fit(method, data, seed=s).network().state_dict() for s in (1, 1, 2))
    assert all(torch.equal(one[k], again[k]) for k in one)
    assert not torch.equal(one["threshold"][:20], other["threshold"][:20]) or not torch.equal(
        one["feature"][:20], other["feature"][:20]
    )


def test_a_sparse_table_grows_the_same_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    data, method = splits(), make("forest", {"trees": 5, "bits": 64})
    full = fit(method, data, seed=1).network().state_dict()
    monkeypatch.setattr("ciga.methods.forest.FULL", 10)
    sparse = fit(method, data, seed=1).network().state_dict()
    assert all(torch.equal(full[k], sparse[k]) for k in full)


# ---------------------------------------------------------------- fingerprints


def test_every_node_counts_once_for_every_step() -> None:
    store = GraphStore.from_pyg(mixed_graphs())
    batch = store.batch(slice(None))
    found = fingerprints(batch, Naming(), 2, 128)
    assert found.sum(1).tolist() == [3.0 * n for n in torch.bincount(batch.batch).tolist()]


def test_node_order_is_of_no_account_and_edge_labels_are() -> None:
    graph = random_graph(8, 10, 0, features=2)
    graph.x = (graph.x > 0).float()
    u, v = graph.edge_index
    graph.edge_attr = ((u + v) % 2).float().unsqueeze(1)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    turned = graph.clone()
    turned.x, turned.edge_index = graph.x[order], torch.argsort(order)[graph.edge_index]
    flipped = graph.clone()
    flipped.edge_attr = 1 - graph.edge_attr
    batch = GraphStore.from_pyg([graph, turned, flipped]).batch(slice(None))
    mine, same, other = fingerprints(batch, Naming(ROWS, ROWS), 1, 512)
    assert torch.equal(mine, same)
    assert not torch.equal(mine, other)
    blind = fingerprints(batch, Naming(ROWS, CONSTANT), 1, 512)
    assert torch.equal(blind[0], blind[2])


def test_continuous_features_are_not_names() -> None:
    assert Naming.of(GraphStore.from_pyg(mixed_graphs(edge_features=2))) == Naming(CONSTANT, CONSTANT)
    assert Naming.of(labelled()) == Naming(ROWS, CONSTANT)


def test_atoms_are_told_apart_as_in_ecfp() -> None:
    """The classes of atoms within radius 0, 1 and 2 are those of RDKit's Morgan fingerprint."""
    pytest.importorskip("rdkit")
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    from ciga.data.reading.featurise import featurise

    texts = ["CCO", "c1ccccc1C(=O)N", "CC(=O)Oc1ccccc1C(=O)O", "C1CCNC1", "C[N+](C)(C)CC#N", "OC1CCOC1F"]
    store = featurise(texts).store
    assert Naming.of(store) == Naming(CHEMICAL, CHEMICAL)
    batch = store.batch(slice(None))
    for radius in range(3):
        mine = fingerprints(batch, Naming(CHEMICAL, CHEMICAL), radius, 2**16)
        # Redundant neighbourhoods included, as here: then every atom counts once for every step.
        make_rdkit: Any = rdFingerprintGenerator.GetMorganGenerator(
            radius=radius, fpSize=2**16, includeRedundantEnvironments=True
        )
        theirs = [make_rdkit.GetSparseCountFingerprint(Chem.MolFromSmiles(t)) for t in texts]
        for row, expected in zip(mine, theirs, strict=True):
            counts = sorted(row[row > 0].int().tolist())
            assert counts == sorted(expected.GetNonzeroElements().values())


# ---------------------------------------------------------------- files


def test_a_forest_survives_its_file(tmp_path: Path) -> None:
    data = splits()
    chosen = resolve("forest", {"trees": 5, "bits": 64}, preset="none")
    network, file = fit(chosen.method, data).network(), tmp_path / "weights.safetensors"
    write_tensors(file, network.state_dict(), {})
    again = load_network(file, chosen, Spec.of(data))
    batch = data["id_val"].batch(slice(None))
    assert torch.equal(again(batch), network(batch))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("left", 1, 0), ("right", 0, 10**6), ("feature", 0, 64 + 2 + 3), ("root", 0, -1), ("naming", 0, 7)],
)
def test_trees_that_lead_nowhere_or_in_a_circle_are_refused(
    tmp_path: Path, name: str, place: int, value: int
) -> None:
    data = splits()
    chosen = resolve("forest", {"trees": 2, "bits": 64}, preset="none")
    file = tmp_path / "weights.safetensors"
    write_tensors(file, fit(chosen.method, data).network().state_dict(), {})
    tensors, _ = read_tensors(file)
    tensors[name][place] = value
    write_tensors(file, tensors, {})
    with pytest.raises(CigaError, match="do not fit"):
        load_network(file, chosen, Spec.of(data))


def test_a_new_network_says_nothing_yet() -> None:
    network = Forest().network(Spec(3, 0, 3), Backbone())
    found = network(labelled(6).batch(slice(None))).softmax(1)
    torch.testing.assert_close(found, torch.full((6, 3), 1 / 3))
