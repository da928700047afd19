"""The scikit-learn contract, subgraphs, and model folders that are whole or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import (
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
)
from torch_geometric.data import Data

from ciga.data import GraphStore, Splits
from ciga.errors import CigaError, UsageError
from ciga.estimator import GraphOODClassifier
from tests.helpers import permuted, random_graph
from tests.small_models import edit

QUICK: dict[str, Any] = {"layers": 1, "width": 8, "epochs": 2, "device": "cpu"}
CLASSES = np.array(["cycle", "house", "crane"])


@pytest.fixture(scope="module")
def store(toy: Splits) -> GraphStore:
    return toy.train.subset(range(0, 60, 2))


@pytest.fixture(scope="module")
def graphs(store: GraphStore) -> list[Data]:
    return store.to_pyg()


@pytest.fixture(scope="module")
def labels(store: GraphStore) -> np.ndarray:
    return CLASSES[store.y.numpy()]


@pytest.fixture(scope="module")
def model(graphs: list[Data], labels: np.ndarray) -> GraphOODClassifier:
    return GraphOODClassifier("ciga-v2", budget="count", size=6, **QUICK).fit(graphs, labels)


# ---------------------------------------------------------------- scikit-learn


def test_parameters_and_clones() -> None:
    made = GraphOODClassifier("ciga-v1", seed=3, alpha=2.0, width=16)
    parameters = made.get_params()
    assert parameters["method"] == "ciga-v1"
    assert parameters["alpha"] == 2.0
    copy = clone(made)
    assert copy is not made
    assert copy.get_params() == parameters
    copy.set_params(alpha=5.0, seed=4, epochs=7)
    assert copy.get_params() == {**parameters, "alpha": 5.0, "seed": 4, "epochs": 7}
    assert made.get_params() == parameters
    assert is_classifier(made)
    assert repr(made) == "GraphOODClassifier('ciga-v1', seed=3, alpha=2.0, width=16)"
    assert repr(GraphOODClassifier()) == "GraphOODClassifier('ciga-v2')"


def test_init_sets_nothing_but_parameters() -> None:
    for made in (GraphOODClassifier(), GraphOODClassifier("erm", epochs=1)):
        check_no_attributes_set_in_init("GraphOODClassifier", made)
        check_parameters_default_constructible("GraphOODClassifier", made)


def test_a_misspelt_setting_is_refused_before_any_work() -> None:
    with pytest.raises(UsageError, match=r"setting of ciga-v2 called 'alhpa'\. Did you mean alpha"):
        GraphOODClassifier(alhpa=1)
    made = GraphOODClassifier("erm", epochs=3)
    with pytest.raises(UsageError, match="setting of erm called 'alpha'"):
        made.set_params(alpha=2.0, seed=9)
    assert made.get_params()["seed"] == 1
    made.set_params(method="ciga-v1", alpha=2.0)
    assert made.get_params()["alpha"] == 2.0
    assert GraphOODClassifier("a-plugins-method", strength=1).get_params()["strength"] == 1  # not loaded yet


def test_the_metric_is_the_command_lines(graphs: list[Data]) -> None:
    two, three = ([i % k for i in range(len(graphs))] for k in (2, 3))
    quick = {**QUICK, "epochs": 1}
    assert GraphOODClassifier("erm", **quick).fit(graphs, two).model_.metric == "roc_auc"
    assert GraphOODClassifier("erm", **quick).fit(graphs, three).model_.metric == "accuracy"
    assert GraphOODClassifier("erm", metric="mcc", **quick).fit(graphs, two).model_.metric == "mcc"


def test_predictions(model: GraphOODClassifier, graphs: list[Data], labels: np.ndarray) -> None:
    assert model.classes_.tolist() == sorted(CLASSES)
    probability = model.predict_proba(graphs)
    assert probability.shape == (len(graphs), 3)
    np.testing.assert_allclose(probability.sum(1), 1, rtol=1e-5)
    predicted = model.predict(graphs)
    assert predicted.tolist() == model.classes_[probability.argmax(1)].tolist()
    assert model.score(graphs, labels) == pytest.approx(np.mean(predicted == labels))


def test_a_store_and_a_list_are_the_same_graphs(
    model: GraphOODClassifier, graphs: list[Data], store: GraphStore, labels: np.ndarray
) -> None:
    np.testing.assert_array_equal(model.predict_proba(store), model.predict_proba(graphs))
    fitted = GraphOODClassifier("ciga-v2", budget="count", size=6, **QUICK).fit(store, labels)
    np.testing.assert_array_equal(fitted.predict_proba(store), model.predict_proba(store))


def test_labels_of_the_graphs_serve_where_none_are_given(store: GraphStore) -> None:
    fitted = GraphOODClassifier("erm", **QUICK).fit(store)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert set(fitted.predict(store).tolist()) <= {0, 1, 2}


def test_grid_search(graphs: list[Data], labels: np.ndarray) -> None:
    search = GridSearchCV(GraphOODClassifier("erm", **QUICK), {"width": [4, 8], "lr": [0.01]}, cv=2)
    search.fit(graphs, labels)
    assert search.best_params_["width"] in (4, 8)
    assert search.best_estimator_.get_params()["lr"] == 0.01
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert len(search.predict(graphs)) == len(graphs)


@pytest.mark.parametrize("kind", ["graphs", "store"])
def test_cross_validation(kind: str, labels: np.ndarray, request: pytest.FixtureRequest) -> None:
    given = request.getfixturevalue(kind)
    scores = cross_val_score(GraphOODClassifier("erm", **QUICK), given, labels, cv=2, error_score="raise")
    assert scores.shape == (2,)
    assert ((scores >= 0) & (scores <= 1)).all()


def test_it_learns(graphs: list[Data], labels: np.ndarray) -> None:
    settings = {**QUICK, "layers": 2, "width": 16, "epochs": 60, "warmup": 60, "lr": 0.01, "readout": "sum"}
    fitted = GraphOODClassifier("erm", validation=0, **settings).fit(graphs, labels)
    assert fitted.score(graphs, labels) > 0.8


def test_the_same_seed_gives_the_same_model(
    model: GraphOODClassifier, graphs: list[Data], labels: np.ndarray
) -> None:
    again, other = clone(model).fit(graphs, labels), clone(model).set_params(seed=2).fit(graphs, labels)
    np.testing.assert_array_equal(again.predict_proba(graphs), model.predict_proba(graphs))
    assert not np.array_equal(other.predict_proba(graphs), model.predict_proba(graphs))


def test_a_validation_set_of_ones_own_chooses_the_epoch(graphs: list[Data], labels: np.ndarray) -> None:
    made = GraphOODClassifier("erm", **QUICK).fit(graphs, labels, validation=(graphs[:9], labels[:9]))
    assert made.predict(graphs).shape == labels.shape
    with pytest.raises(UsageError, match="validation label 'wheel' does not occur in training"):
        made.fit(graphs, labels, validation=(graphs[:1], ["wheel"]))


def test_environments_reach_the_method(graphs: list[Data], labels: np.ndarray) -> None:
    env = ["left", "right"] * (len(graphs) // 2)
    GraphOODClassifier("irm", **QUICK).fit(graphs, labels, env=env)
    with pytest.raises(UsageError, match=r"irm .*environments"):
        GraphOODClassifier("irm", **QUICK).fit(graphs, labels, env=["left"] * len(graphs))


@pytest.mark.parametrize(
    ("settings", "change", "says"),
    [
        ({"alhpa": 1}, {}, "Did you mean alpha"),
        ({"epochs": 0}, {}, "epochs=0 is too small"),
        ({"method": "cigav2"}, {}, "Did you mean ciga-v2"),
        ({}, {"y": ["a", "b"]}, "labels of shape"),
        ({}, {"y": "same"}, "nothing to tell apart"),
    ],
)
def test_mistakes(graphs: list[Data], settings: dict[str, Any], change: dict[str, Any], says: str) -> None:
    y = change.get("y", [0, 1] * (len(graphs) // 2))
    y = [y] * len(graphs) if isinstance(y, str) else y
    with pytest.raises(UsageError, match=says):
        GraphOODClassifier(**{**QUICK, **settings}).fit(graphs, y)


def test_other_features_than_in_training(model: GraphOODClassifier) -> None:
    with pytest.raises(UsageError, match=r"graphs have 5 features, the model was trained on 4"):
        model.predict([random_graph(4, 3, 0, features=5)])
    with pytest.raises(UsageError, match=r"graphs have 2 edge features, the model was trained on 0"):
        model.predict([random_graph(4, 3, 0, edge_features=2)])


def test_not_fitted(graphs: list[Data], tmp_path: Path) -> None:
    made = GraphOODClassifier()
    for use in (made.predict, made.predict_proba, made.subgraphs, made.save):
        with pytest.raises(NotFittedError):
            use(tmp_path if use == made.save else graphs)


# ---------------------------------------------------------------- subgraphs


def test_subgraphs_are_what_the_method_chose(model: GraphOODClassifier, graphs: list[Data]) -> None:
    plain = [Data(x=g.x, edge_index=g.edge_index, y=g.y) for g in graphs[:5]]
    odd = [*plain, random_graph(4, 0, 0), random_graph(2, 1, 1)]
    found = model.subgraphs(odd)
    assert len(found) == len(odd)
    for graph, part in zip(odd, found, strict=True):
        assert torch.equal(part.edge_index, graph.edge_index)
        assert part.score.shape == part.kept.shape == (graph.num_edges,)
        assert part.kept.dtype == torch.bool
        assert int(part.kept.sum()) == min(12, graph.num_edges)  # six undirected edges
        assert ((part.score >= 0) & (part.score <= 1)).all()
        outside = part.score[~part.kept]
        assert not outside.numel() or part.score[part.kept].min() >= outside.max()
        batch = GraphStore.from_pyg([graph]).batch([0])
        with torch.inference_mode():
            found = model.method_.infer(model.network_, batch).partition
        assert found is not None
        torch.testing.assert_close(part.score, found.score.sigmoid()[batch.pair], rtol=1e-4, atol=1e-5)
        assert torch.equal(part.kept, found.kept[batch.pair])


def test_renamed_nodes_keep_their_subgraph(model: GraphOODClassifier, graphs: list[Data]) -> None:
    for seed, graph in enumerate(graphs[:6]):
        other, _, order = permuted(graph, seed)
        one, two = model.subgraphs([graph])[0], model.subgraphs([other])[0]
        torch.testing.assert_close(two.score, one.score[order], rtol=1e-4, atol=1e-5)
        assert torch.equal(two.kept, one.kept[order])


def test_explain_and_report(model: GraphOODClassifier, graphs: list[Data], tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="jinja2 is missing: pip install 'ciga[report]'")
    fresh = [random_graph(9, 12, seed, y=seed % 3) for seed in range(4)]
    known = [Data(x=g.x, edge_index=g.edge_index, y=g.y) for g in graphs[:3]]
    found = model.explain(fresh)
    assert [len(one.kept) for one in found] == [graph.num_edges for graph in fresh]
    names = model.classes_[[one.predicted for one in found]]
    assert names.tolist() == model.predict(fresh).tolist()
    assert found[0].to_pyg().edge_mask.shape == found[0].score.shape
    assert model.shift(fresh).flag.shape == (4,)
    model.report([*known, *fresh], tmp_path / "r.html", y=["house"] * 6 + ["dragon"], title="Mine & yours")
    page = (tmp_path / "r.html").read_text()
    assert "<h1>Mine &amp; yours</h1>" in page
    gallery = page.partition('id="cards"')[2]
    assert gallery.count('class="card"') == 7
    assert gallery.count('data-label="house"') == 6  # nothing is known of dragons
    assert gallery.count('data-correct="unknown"') == 1
    # 80 % of the graphs went into training, the rest chose the epoch
    assert 1 <= gallery.count('data-seen="1"') <= 3


def test_a_method_without_subgraphs_says_so(graphs: list[Data], labels: np.ndarray) -> None:
    fitted = GraphOODClassifier("erm", **QUICK).fit(graphs, labels)
    with pytest.raises(UsageError, match="erm does not extract a subgraph"):
        fitted.subgraphs(graphs)


# ---------------------------------------------------------------- folders


@pytest.fixture
def folder(model: GraphOODClassifier, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("kind", [str, int, float, bool])
def test_a_loaded_model_predicts_the_same(
    kind: type, graphs: list[Data], store: GraphStore, tmp_path: Path
) -> None:
    y = store.y.numpy() > 0 if kind is bool else store.y.numpy().astype(kind)
    fitted = GraphOODClassifier("ciga-v2", alpha=2.0, **QUICK).fit(graphs, y)
    fitted.save(tmp_path / "model")
    loaded = GraphOODClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(graphs), fitted.predict_proba(graphs))
    assert loaded.predict(graphs).tolist() == fitted.predict(graphs).tolist()
    assert loaded.classes_.dtype.kind == fitted.classes_.dtype.kind
    assert loaded.get_params()["alpha"] == 2.0
    assert loaded.method == "ciga-v2"
    assert [torch.equal(a.kept, b.kept) for a, b in zip(
        loaded.subgraphs(graphs), fitted.subgraphs(graphs), strict=True
    )] == [True] * len(graphs)  # fmt: skip


def test_a_loaded_model_can_be_cloned_and_saved_again(
    folder: Path, graphs: list[Data], model: GraphOODClassifier, tmp_path: Path
) -> None:
    loaded = GraphOODClassifier.load(folder)
    assert clone(loaded).get_params() == loaded.get_params()
    loaded.save(tmp_path / "again")
    again = GraphOODClassifier.load(tmp_path / "again")
    np.testing.assert_array_equal(again.predict_proba(graphs), model.predict_proba(graphs))


def test_nothing_in_a_folder_is_a_pickle(folder: Path) -> None:
    assert {p.suffix for p in folder.iterdir()} == {".json", ".safetensors"}


def weights(folder: Path) -> Path:
    return next(p for p in folder.iterdir() if p.name.startswith("weights"))


def flip(folder: Path) -> None:
    content = bytearray(weights(folder).read_bytes())
    content[-3] ^= 1
    weights(folder).write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no description": lambda f: (f / "model.json").unlink(),
    "no weights": lambda f: weights(f).unlink(),
    "empty description": lambda f: (f / "model.json").write_text(""),
    "half a description": lambda f: (f / "model.json").write_text((f / "model.json").read_text()[:80]),
    "a list": lambda f: (f / "model.json").write_text("[]"),
    "a number": lambda f: (f / "model.json").write_text("3"),
    "not text": lambda f: (f / "model.json").write_bytes(b"\xff\xfe\x00"),
    "a flipped bit": flip,
    "cut weights": lambda f: weights(f).write_bytes(weights(f).read_bytes()[:-9]),
    "empty weights": lambda f: weights(f).write_bytes(b""),
    "pickled weights": lambda f: torch.save({"a": torch.ones(2)}, weights(f)),
    "another format": edit(lambda a: a.update(format="ciga.models.model/99")),
    "no format": edit(lambda a: a.pop("format")),
    "no classes": edit(lambda a: a.pop("classes")),
    "too many classes": edit(lambda a: a["classes"].append("wheel")),
    "an unknown method": edit(lambda a: a.update(method="cigav9")),
    "a method that is no name": edit(lambda a: a.update(method=["erm"])),
    "another method": edit(lambda a: a.update(method="groupdro")),
    "an unknown setting": edit(lambda a: a["settings"].update(alhpa=1)),
    "a setting out of range": edit(lambda a: a["settings"].update(layers=-1)),
    "settings that are none": edit(lambda a: a.update(settings=3)),
    "another width": edit(lambda a: a["settings"].update(width=9)),
    "other features": edit(lambda a: a["spec"].update(features=7)),
    "features that are no number": edit(lambda a: a["spec"].update(features="many")),
    "negative features": edit(lambda a: a["spec"].update(features=-4)),
    "classes that are no number": edit(lambda a: a["spec"].update(classes=None)),
    "an unknown part of the spec": edit(lambda a: a["spec"].update(colour="red")),
    "degrees that are none": edit(lambda a: a["spec"].update(degrees=4)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_hostile_folder_is_refused_with_a_sentence(damage: str, folder: Path) -> None:
    DAMAGES[damage](folder)
    with pytest.raises(CigaError) as error:
        GraphOODClassifier.load(folder)
    assert len(str(error.value)) > 10


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CigaError, match="is not a model folder"):
        GraphOODClassifier.load(tmp_path / "nothing")


# ---------------------------------------------------------------- molecules


def test_molecules_are_predicted_as_they_come(tmp_path: Path, store: GraphStore) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    pandas = pytest.importorskip("pandas")
    smiles = ["CCO", "c1ccccc1", "CCN", "CC(=O)O", "C1CCCCC1", "CCCl"] * 4
    labels = [i % 2 for i in range(24)]
    fitted = GraphOODClassifier("ciga-v1", size=0.6, **QUICK).fit(smiles, labels)
    fitted.save(tmp_path / "model")
    model = GraphOODClassifier.load(tmp_path / "model")
    few = ["CCO", "CC(=O)O"]
    wanted = fitted.predict_proba(few)
    frame = pandas.DataFrame({"name": ["a", "b"], "smiles": few})
    for given in (few, frame, frame["smiles"], [chem.MolFromSmiles(text) for text in few]):
        np.testing.assert_allclose(model.predict_proba(given), wanted, atol=1e-6)
        assert model.predict(given).tolist() == wanted.argmax(1).tolist()
    assert [len(e.score) for e in model.explain(few)] == [4, 6]
    assert len(model.shift(frame).flag) == 2
    with pytest.raises(UsageError, match="Molecule 2, 'C\\(C', cannot be read: unparsable SMILES"):
        model.predict(["CCO", "C(C"])
    graphs = GraphOODClassifier("erm", **QUICK).fit(store)
    with pytest.raises(UsageError, match="fitted on graphs, not on molecules"):
        graphs.predict(few)
