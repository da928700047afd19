"""The nearest training graph: how similarity is measured, kept in a file, and shown."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest
import torch

from ciga.data.reading.similarity import to_training
from ciga.errors import CigaError
from ciga.files import read_tensors, write_tensors
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore
from ciga.methods.forest.fingerprint import Naming, neighbourhoods
from ciga.models.model import Model
from ciga.models.neighbours import RADIUS, Neighbours
from ciga.models.shift import MEASURES, Gauge
from ciga.models.stream import predict_file
from tests.helpers import random_graph, undirected
from tests.small_models import toy_model, toy_splits

TEXTS = ["CCO", "CCN", "c1ccccc1C(=O)N", "c1ccccc1C(=O)O", "CC(=O)Oc1ccccc1C(=O)O", "C1CCNC1", "OC1CCOC1F"]


def test_molecules_are_compared_by_tanimoto_similarity() -> None:
    pytest.importorskip("rdkit")
    from rdkit import Chem, DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    from ciga.data.reading.featurise import featurise

    store = featurise(TEXTS).store
    train, asked = store.subset(slice(0, 4)), store.subset(slice(4, 7))
    nameless = store.subset(slice(0, 4))
    nameless.columns = {}
    usual = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    redundant = rdFingerprintGenerator.GetMorganGenerator(
        radius=2, fpSize=2**16, includeRedundantEnvironments=True
    )
    # With SMILES as RDKit has it, to the bit; from the graph alone, as models of version 0.1 did.
    for known, make, tolerance in (
        (Neighbours.of(train), usual, 1e-6),
        (Neighbours.of(nameless), redundant, 0.03),
    ):
        prints = [make.GetFingerprint(Chem.MolFromSmiles(text)) for text in TEXTS]
        found = known(asked.batch(slice(None)), asked)
        assert found is not None
        for i, query in enumerate(prints[4:]):
            expected = [DataStructs.TanimotoSimilarity(query, other) for other in prints[:4]]
            assert float(found.similarity[i]) == pytest.approx(max(expected), abs=tolerance)
        assert int(found.place[0]) == 3  # benzoic acid for aspirin
    known = Neighbours.of(train)
    assert known(store.batch([2]), store).similarity.tolist() == [1.0]  # type: ignore[union-attr]
    assert known.name(2) == TEXTS[2]
    assert known(store.batch([2])) is None, "nothing to compare without SMILES"


def test_a_split_and_a_model_mean_the_same_similarity() -> None:
    """`ciga data check` and the splits ask for the first, `ciga fit` and `ciga predict` for the second."""
    pytest.importorskip("rdkit")
    from ciga.data.reading.featurise import featurise

    store = featurise(TEXTS).store.labelled(torch.tensor([0, 1, 0, 1, 0, 1, 0]))
    train, asked = store.subset(slice(0, 4)), store.subset(slice(4, 7))
    found = Neighbours.of(train)(asked.batch(slice(None)), asked)
    assert found is not None
    of_split = to_training(Splits({"train": train, "ood_test": asked}, Task(2)))["ood_test"]["median"]
    assert of_split == pytest.approx(float(found.similarity.median()), abs=1e-6)


def test_other_graphs_are_compared_by_how_often_labels_occur() -> None:
    graphs = [nx.cycle_graph(5), nx.path_graph(7), nx.star_graph(4), nx.cycle_graph(12)]
    data = []
    for graph in graphs:
        one = random_graph(graph.number_of_nodes(), 0, 0, features=1)
        one.x, one.edge_index = torch.zeros(graph.number_of_nodes(), 1), undirected(list(graph.edges))
        data.append(one)
    store = GraphStore.from_pyg(data)
    known, batch = Neighbours.of(store.subset([0])), store.batch(slice(None))
    owner, name = neighbourhoods(batch, Naming.of(store), RADIUS)
    counts = [Counter(name[owner == i].tolist()) for i in range(4)]
    expected = [sum((c & counts[0]).values()) / sum((c | counts[0]).values()) for c in counts]
    torch.testing.assert_close(
        known(batch).similarity.double(), torch.tensor(expected).double(), atol=0.03, rtol=0
    )
    assert expected[3] == pytest.approx(5 / 12)  # a larger cycle has the same labels, more often


def test_what_has_no_relative_in_training_is_flagged_for_that() -> None:
    """Cycles among trees of the same sizes and features, which the other measures cannot tell apart."""

    def part(cycles: bool, low: int) -> GraphStore:
        out = []
        for seed in range(low, low + 40):
            graph = nx.random_labeled_tree(10, seed=seed % 8) if not cycles else nx.circular_ladder_graph(5)
            graph.remove_edges_from(list(graph.edges)[9:])
            one = random_graph(10, 0, seed, features=1, y=seed % 2)
            one.x, one.edge_index = torch.zeros(10, 1), undirected(list(graph.edges))
            out.append(one)
        return GraphStore.from_pyg(out)

    splits = Splits({"train": part(False, 0), "id_val": part(False, 100)}, Task(2))
    gauge = Gauge.calibrate(lambda b: [torch.zeros(b.num_graphs, 2)], splits)
    batch = part(True, 0).batch(slice(None))
    shift = gauge.measure(batch, [torch.zeros(batch.num_graphs, 2)])
    assert float((shift.ratio[:, MEASURES.index("similarity")] > 1).double().mean()) == 1.0
    assert set(shift.reasons()) == {"similarity"}
    assert gauge.usual is not None
    assert float(shift.nearest.similarity.max()) < gauge.usual  # type: ignore[union-attr]
    # Without other data the training graphs say what is usual, each compared with others than itself.
    alone = Gauge.calibrate(
        lambda b: [torch.zeros(b.num_graphs, 2)], Splits({"train": splits.train.subset(slice(0, 8))}, Task(2))
    )
    assert alone.usual is not None
    assert alone.usual < 1


# ---------------------------------------------------------------- files


def test_predictions_name_the_nearest_training_row(tmp_path: Path) -> None:
    model, store = toy_model(), toy_splits().train
    store.subset([7, 3]).save(tmp_path / "two.safetensors")
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    totals = predict_file(loaded, tmp_path / "two.safetensors", tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [row["similarity"] for row in rows] == ["1.0000", "1.0000"]
    assert totals.nearest == 1.0
    assert loaded.gauge is not None
    for row in rows:
        place = int(row["nearest_row"]) - 1
        again = loaded.gauge.neighbours(store.batch([place]))  # type: ignore[misc]
        assert again.similarity.tolist() == [1.0]
        assert row["nearest"] == f"row {row['nearest_row']}"


def test_many_training_graphs_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ciga.models.neighbours.MOST", 10)
    found = Neighbours.of(toy_splits().train)  # 60 of them
    assert len(found.bits) == 10
    assert found.rows == list(range(1, 61, 6))


@pytest.mark.parametrize("thresholds", [3, 4])
def test_a_model_without_fingerprints_has_three_measures(tmp_path: Path, thresholds: int) -> None:
    """As version 0.1 wrote it, or after the file was deleted."""
    model = toy_model()
    model.save(tmp_path / "model")
    (tmp_path / "model" / "nearest.safetensors").unlink()
    tensors, meta = read_tensors(tmp_path / "model" / "shift.safetensors")
    tensors["threshold"] = tensors["threshold"][:thresholds].clone()
    write_tensors(tmp_path / "model" / "shift.safetensors", tensors, meta)
    loaded = Model.load(tmp_path / "model")
    batch = toy_splits()["ood_test"].batch(slice(0, 5))
    assert loaded.gauge is not None
    assert model.gauge is not None
    old = loaded.gauge.measure(batch, loaded.embed(batch)).ratio
    torch.testing.assert_close(old, model.gauge.measure(batch, model.embed(batch)).ratio[:, :3])


@pytest.mark.parametrize("name", ["bits", "naming", "column.row"])
@pytest.mark.parametrize("kind", ["missing", "short", "of another kind"])
def test_fingerprints_that_do_not_fit_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    toy_model().save(tmp_path / "model")
    file = tmp_path / "model" / "nearest.safetensors"
    tensors, meta = read_tensors(file)
    if kind == "missing":
        del tensors[name]
    else:
        tensors[name] = tensors[name][:1].clone() if kind == "short" else torch.full((2, 2), 9.5)
    write_tensors(file, tensors, meta)
    with pytest.raises(CigaError, match="does not fit the model"):
        Model.load(tmp_path / "model")


def test_repeated_training_graphs_do_not_make_every_other_graph_strange() -> None:
    """Where validation graphs repeat training graphs, their distance is zero: the threshold is not."""
    import ciga
    from ciga.graphs.splits import Splits
    from ciga.models.shift import LEAST_DISTANCE, Gauge

    toy = ciga.load("spmotif-struc", train_per_class=5, val_per_class=5, test_per_class=5, size_shift=False)
    same = Splits({"train": toy.train, "id_val": toy.train, "ood_test": toy["ood_test"]}, toy.task)
    gauge = Gauge.calibrate(lambda batch: [], same)
    assert float(gauge.tensors["threshold"][-1]) == pytest.approx(LEAST_DISTANCE)
