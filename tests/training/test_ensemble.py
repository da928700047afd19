"""Several networks as one: each is trained alone, and the mean of what they say is what counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ciga.data import Splits, load
from ciga.errors import UsageError
from ciga.estimator import GraphOODClassifier
from ciga.files import read_tensors
from ciga.methods.base import make, methods
from ciga.models.fit import fit_ensemble
from ciga.nn import Backbone, Spec
from ciga.runs.plan import execute, plan
from ciga.runs.settings import resolve
from ciga.training.ensemble import Members, fit_members, separate
from ciga.training.loop import Fitted, Training
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


@pytest.mark.parametrize("name", ["erm", "ciga-v1"])
def test_what_they_say_is_the_mean_of_their_probabilities(name: str, toy: Splits) -> None:
    one = make(name)
    several = Members(one, 2)
    network = several.network(Spec.of(toy), BACKBONE).eval()
    batch = toy.train.batch(slice(None))
    logits, edges = several.infer(network, batch)
    first, second = separate(network)
    mean = (one.logits(first, batch).softmax(1) + one.logits(second, batch).softmax(1)) / 2
    torch.testing.assert_close(logits.softmax(1), mean)
    torch.testing.assert_close(several.logits(network, batch), logits)
    assert (edges is not None) == one.extracts
    if edges is not None:
        (score, kept), (other_score, other_kept) = (one.edge_scores(m, batch) for m in (first, second))
        torch.testing.assert_close(edges[0], (score + other_score) / 2)
        assert torch.equal(edges[1], kept | other_kept)  # of two, one is half
        assert all(torch.equal(a, b) for a, b in zip(several.edge_scores(network, batch), edges, strict=True))


@pytest.mark.parametrize("name", TRAINED)
def test_every_method_can_have_several_networks(name: str) -> None:
    both, alone = run(name), run(name, members=1)
    first, second = (member.state_dict() for member in separate(both.network("last")))
    assert same_tensors(first, alone.network("last").state_dict())
    assert not same_tensors(first, second)
    rule = both.selector.name
    assert both.selected.keys() == alone.selected.keys()
    assert both.selected[rule].keys() == alone.selected[rule].keys()
    assert both.selected[rule]["epoch"][0] == alone.selected[rule]["epoch"]
    assert [row["member"] for row in both.history] == [1, 1, 2, 2]


def test_the_scores_are_those_of_the_mean() -> None:
    data, fitted = few(), run("erm")
    network, test = fitted.network(), data["ood_test"]
    right = fitted.method.logits(network, test.batch(slice(None))).argmax(1) == test.y
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


def test_settings_decide_how_many() -> None:
    assert not isinstance(resolve("erm", preset="none").learner, Members)
    several = resolve("erm", {"members": 3}, preset="none").learner
    assert isinstance(several, Members)
    assert several.count == 3
    with pytest.raises(UsageError, match="wl has one solution, leave members at 1"):
        resolve("wl", {"members": 3}, preset="none")


def test_a_run_keeps_the_weights_of_all(tmp_path: Path) -> None:
    planned = plan("spmotif-struc", "ciga-v1", data=TINY, settings={**SHORT, "members": 2}, preset="none")
    record = execute(planned, tmp_path, device="cpu")
    assert record["settings"]["members"] == 2
    network = planned.settings.learner.network(Spec.of(planned.load()), planned.settings.backbone)
    weights, _ = read_tensors(tmp_path / planned.config.hash / f"weights.{record['selection']}.safetensors")
    network.load_state_dict(weights)
    assert len(separate(network)) == 2
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
