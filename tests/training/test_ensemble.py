"""Several networks as one: each is trained alone, and the mean of what they say is what counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ciga.data import Splits, load
from ciga.errors import UsageError
from ciga.estimator import GraphOODClassifier
from ciga.explain.explanation import explain
from ciga.files import read_tensors
from ciga.methods.base import make, methods
from ciga.models.fit import collect, fit_ensemble
from ciga.nn import Backbone, Spec
from ciga.runs.plan import execute, plan
from ciga.runs.settings import resolve
from ciga.training.ensemble import infer, mean_score
from ciga.training.evaluation import evaluate
from ciga.training.fitted import Fitted
from ciga.training.members import fit_members
from ciga.training.schedule import Training
from tests.helpers import SHORT, TINY, same_tensors, without_time

BACKBONE = Backbone(layers=2, width=8)
TRAINED = [name for name in methods if not methods[name].closed_form]


def few() -> Splits:
    return load("spmotif-struc", train_per_class=5, val_per_class=2, test_per_class=2, size_shift=False)


def run(
    name: str, folder: Path | None = None, members: int = 2, seed: int = 1, on_epoch: Any = None
) -> Fitted:
    training = Training(epochs=2, batch_size=8, members=members)
    return fit_members(
        make(name), few(), backbone=BACKBONE, training=training, seed=seed, folder=folder, device="cpu",
        on_epoch=on_epoch,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["erm", "ciga-v1", "gsat", "gib"])
def test_what_they_say_is_the_mean_of_their_probabilities(name: str, toy: Splits) -> None:
    method, batch = make(name), toy.train.batch(slice(None))
    networks = [method.network(Spec.of(toy), BACKBONE).eval() for _ in range(3)]
    every = [method.infer(network, batch) for network in networks]
    found = infer(method, networks, batch)
    torch.testing.assert_close(found.logits.softmax(1), sum(one.logits.softmax(1) for one in every) / 3)
    assert torch.equal(found.representation, torch.cat([one.representation for one in every], 1))
    assert (found.partition is not None) == method.extracts
    if found.partition is not None:
        mean = sum(one.partition.score.sigmoid() for one in every if one.partition is not None) / 3
        torch.testing.assert_close(found.partition.score.sigmoid(), mean)
        assert torch.equal(found.partition.kept, method.keep(networks[0], found.partition.score, batch))


def test_large_scores_of_several_networks_still_have_an_order() -> None:
    scores = torch.tensor([20.0, 30.0, 40.0, -20.0, -30.0])
    mean = mean_score([scores, scores])
    assert mean.argsort().tolist() == [4, 3, 0, 1, 2]
    torch.testing.assert_close(mean, scores)


@pytest.mark.parametrize("name", ["ciga-v1", "gib"])
def test_what_selection_scored_is_what_explain_shows(name: str, toy: Splits, tmp_path: Path) -> None:
    """Edges kept by the networks of a run, as its scores and as a model's explanations see them."""
    settings = {**SHORT, "members": 3}
    planned = plan("spmotif-struc", name, data=TINY, settings=settings, preset="none")
    record = execute(planned, tmp_path, device="cpu")
    splits = planned.load()
    file = tmp_path / planned.config.hash / f"weights.{record['selection']}.safetensors"
    networks = planned.settings.networks(Spec.of(splits), read_tensors(file)[0])
    model = collect([planned], [record], tmp_path, splits)
    assert len(model.members) == 3
    test = splits["ood_test"]
    scored = infer(planned.settings.method, networks, test.batch(slice(None)))
    assert scored.partition is not None
    shown = explain(model, test)
    edges = test.batch(slice(None)).pair
    assert torch.equal(scored.partition.kept[edges], torch.cat([e.kept for e in shown]))
    torch.testing.assert_close(scored.partition.score.sigmoid()[edges], torch.cat([e.score for e in shown]))
    torch.testing.assert_close(scored.logits.softmax(1), torch.stack([e.probability for e in shown]))
    found = record["selected"][record["selection"]]["ood_test"]
    assert found["edge_auroc"] == pytest.approx(evaluate(model.method, model.members, test)["edge_auroc"])


@pytest.mark.parametrize("name", TRAINED)
def test_every_method_can_have_several_networks(name: str) -> None:
    both, alone = run(name), run(name, members=1)
    first, second = (member.state_dict() for member in both.networks("last"))
    assert same_tensors(first, alone.network("last").state_dict())
    assert not same_tensors(first, second)
    rule = both.selector.name
    assert both.selected.keys() == alone.selected.keys()
    assert both.selected[rule].keys() == alone.selected[rule].keys()
    assert both.selected[rule]["epoch"][0] == alone.selected[rule]["epoch"]
    assert [row["member"] for row in both.history] == [1, 1, 2, 2]


def test_the_scores_are_those_of_the_mean() -> None:
    data, fitted = few(), run("erm")
    test = data["ood_test"]
    right = infer(fitted.method, fitted.networks(), test.batch(slice(None))).logits.argmax(1) == test.y
    scores = fitted.selected[fitted.selector.name]["ood_test"]
    assert scores["accuracy"] == pytest.approx(float(right.float().mean()))


def test_a_broken_run_goes_on_with_the_member_it_was_at(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def third(row: dict[str, Any], epochs: int) -> None:
        seen.append((row["epoch"], epochs))
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("ciga-v1", tmp_path, on_epoch=third)
    assert seen == [(0, 4), (1, 4), (2, 4)]
    again: list[int] = []
    continued = run("ciga-v1", tmp_path, on_epoch=lambda row, epochs: again.append(row["epoch"]))
    whole = run("ciga-v1")
    assert again == [3]
    assert without_time(continued.history) == without_time(whole.history)
    assert continued.selected == whole.selected


def test_a_method_with_one_solution_has_one_network() -> None:
    with pytest.raises(UsageError, match="wl has one solution, leave members at 1"):
        resolve("wl", {"members": 3}, preset="none")


def test_a_run_keeps_the_weights_of_all(tmp_path: Path) -> None:
    planned = plan("spmotif-struc", "ciga-v1", data=TINY, settings={**SHORT, "members": 2}, preset="none")
    record = execute(planned, tmp_path, device="cpu")
    assert record["settings"]["members"] == 2
    weights, _ = read_tensors(tmp_path / planned.config.hash / f"weights.{record['selection']}.safetensors")
    assert len(planned.settings.networks(Spec.of(planned.load()), weights)) == 2
    assert not [*(tmp_path / planned.config.hash).glob("member-*")]  # nothing is left of the way there


def test_the_classifier_has_them_too_and_finds_them_again(toy: Splits, tmp_path: Path) -> None:
    graphs = toy.train.to_pyg()
    labels = [int(g.y) for g in graphs]
    model = GraphOODClassifier("ciga-v1", members=2, **SHORT)
    model.fit(graphs, labels)
    assert len(model.model_.members) == 2
    model.save(tmp_path / "model")
    again = GraphOODClassifier.load(tmp_path / "model")
    assert (again.predict_proba(graphs) == model.predict_proba(graphs)).all()


def test_a_model_over_seeds_has_no_members_of_members(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--seeds"):
        fit_ensemble("spmotif-struc", "erm", data=TINY, settings={"members": 2}, runs_dir=tmp_path)
