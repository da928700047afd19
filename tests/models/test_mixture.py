"""Shares chosen on validation rows, and models that answer together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ciga.data import load
from ciga.data.check.report import check
from ciga.errors import CigaError, UsageError
from ciga.files import read_tensors
from ciga.methods.forest.fingerprint import CONSTANT, ROWS
from ciga.models.fit import AUTO, fit_ensemble, known_settings, methods_of, yardsticks_of
from ciga.models.mixture import best_shares
from ciga.models.model import Model
from ciga.models.report_data import scan_parts
from ciga.nn.encoder import Spec
from ciga.runs.settings import resolve
from tests.helpers import TINY
from tests.small_models import edit, toy_model, toy_splits


def said(right: float, y: torch.Tensor) -> torch.Tensor:
    """Probabilities that give the true class of two this much."""
    out = torch.full((len(y), 2), 1 - right)
    return out.scatter(1, y.unsqueeze(1), right)


def test_shares_go_to_who_is_right_and_few_rows_move_them_little() -> None:
    few, many = torch.arange(4) % 2, torch.arange(500) % 2
    little, much = (best_shares({"good": said(0.9, y), "poor": said(0.4, y)}, y) for y in (few, many))
    assert 0.6 < little["good"] < 0.9
    assert much["good"] > 0.99, "the poor one has next to nothing to say"
    none = torch.zeros(0, dtype=torch.long)
    assert best_shares({"a": said(0.9, none), "b": said(0.4, none)}, none) == {"a": 0.5, "b": 0.5}


def test_shares_are_whole_per_cents_that_make_a_hundred() -> None:
    y = torch.arange(30) % 2
    found = best_shares({"a": said(0.6, y), "b": said(0.61, y), "c": said(0.0, y)}, y)
    assert sum(round(100 * share) for share in found.values()) == 100
    assert all(abs(100 * share - round(100 * share)) < 1e-9 for share in found.values())
    assert found["c"] < found["a"] <= found["b"]
    assert found["c"] > 0  # a certain mistake is not the end of a candidate


# ---------------------------------------------------------------- a mixed model


def mixed() -> Model:
    other = toy_model("erm")
    return replace(toy_model(), rivals={"erm": other}, shares={"ciga-v2": 0.25, "erm": 0.75})


def test_a_mixture_answers_with_its_shares_and_shows_the_extracting_methods_part(tmp_path: Path) -> None:
    model = mixed()
    batch = toy_splits()["ood_test"].batch(slice(0, 12))
    mine, other, both = (m.predict(batch) for m in (toy_model(), toy_model("erm"), model))
    torch.testing.assert_close(both.probability, 0.25 * mine.probability + 0.75 * other.probability)
    assert both.kept is not None
    assert mine.kept is not None
    assert torch.equal(both.kept, mine.kept)
    assert model.label == "mix of erm 75 %, ciga-v2 25 %"
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert torch.equal(again.predict(batch).probability, both.probability)
    assert torch.equal(again.only("erm").predict(batch).probability, other.probability)
    assert torch.equal(again.only("ciga-v2").predict(batch).probability, mine.probability)
    assert again.only("erm").gauge is not None
    assert list(again.only("ciga-v2").report_data["scores"]) == ["ciga-v2"]
    # The embeddings that flagged the data are those of the method that shows subgraphs, not of ERM.
    assert {"any", "embedding"} <= again.only("ciga-v2").report_data["flagged"]["ood_test"].keys()
    others = again.only("erm").report_data["flagged"]["ood_test"].keys()
    assert "size" in others
    assert not {"any", "embedding"} & others
    with pytest.raises(UsageError, match="Known: ciga-v2, erm"):
        again.only("forest")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (edit(lambda about: about["shares"].update(erm=2.0)), "shares"),
        (edit(lambda about: about["shares"].update(erm="much")), "shares"),
        (edit(lambda about: about["shares"].update(gsat=0.0)), "shares"),
        (edit(lambda about: about.update(shares=[1])), "shares"),
        (lambda folder: (folder / "members" / "erm").rename(folder / "members" / "gsat"), "does not belong"),
        (lambda folder: (folder / "members" / "erm" / "model.json").unlink(), "no model.json"),
        (lambda folder: (folder / "members" / "erm" / "members").mkdir(), "members of members"),
    ],
)
def test_a_damaged_mixture_is_refused(tmp_path: Path, damage: Callable[[Path], Any], says: str) -> None:
    mixed().save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(CigaError, match=says):
        Model.load(tmp_path / "model")


def test_a_model_without_shares_keeps_the_format_that_older_versions_read(tmp_path: Path) -> None:
    toy_model().save(tmp_path / "one")
    mixed().save(tmp_path / "two")
    formats = [json.loads((tmp_path / n / "model.json").read_text())["format"] for n in ("one", "two")]
    assert formats == ["ciga.models.model/2", "ciga.models.model/3"]


# ---------------------------------------------------------------- which methods are trained


def test_what_is_trained_is_what_was_named() -> None:
    assert methods_of("auto") == ["forest", "erm", "ciga-v2", "ciga-complement"]
    assert methods_of("auto", ["wl", "erm", "wl"]) == ["wl", "erm"]
    assert methods_of("wl, gsat") == ["wl", "gsat"]
    for method, candidates, says in (
        ("erm", ["wl"], "--candidates is for --method auto"),
        ("auto,erm", [], "auto stands alone"),
        ("forst,erm", [], "Did you mean forest"),
    ):
        with pytest.raises(UsageError, match=says):
            methods_of(method, candidates)


def test_a_single_method_has_yardsticks_and_several_are_compared_alone() -> None:
    assert yardsticks_of("ciga-v2", ["ciga-v2"]) == ["forest", "erm"]
    assert yardsticks_of("erm", ["erm"]) == ["forest"]
    assert yardsticks_of("forest", ["forest"]) == ["erm"]
    assert yardsticks_of("wl,gsat", ["wl", "gsat"]) == []
    assert yardsticks_of("auto", ["gsat"]) == []


def test_a_setting_goes_to_the_methods_that_have_it() -> None:
    found = known_settings(["forest", "ciga-v2"], {"trees": 5, "alpha": 2, "epochs": 3})
    assert found == {"forest": {"trees": 5, "epochs": 3}, "ciga-v2": {"alpha": 2, "epochs": 3}}
    with pytest.raises(UsageError, match="Did you mean alpha"):
        known_settings(["forest", "ciga-v2"], {"alpa": 2})


QUICK = {"layers": 1, "width": 4, "epochs": 1, "trees": 5, "bits": 32}


def test_validation_rows_of_one_class_choose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ROC AUC is not defined on them: no epoch has a score, and the first one would be shipped."""
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    rows = [(f"{'C' * (1 + i % 7)}{'O' if i % 2 else 'N'}", i % 2, 2000 + i) for i in range(60)]
    rows = [(smiles, 1 if 2036 <= year < 2048 else y, year) for smiles, y, year in rows]
    lines = [f"{smiles},{y},{year}" for smiles, y, year in rows]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,active,year", *lines]) + "\n")
    data = {"path": str(tmp_path / "t.csv"), "label": "active", "split": "time:year", "id_val": 0.2}
    data |= {"fractions": "0.6,0.2,0.2"}
    splits = load("molecules", **data)
    assert splits.judging == ("train", "id_val", "ood_test")
    assert "All graphs of ood_val are of one class: no epoch is chosen by it." in check(splits).warnings()
    model = fit_ensemble(
        "molecules",
        AUTO,
        candidates=["forest", "erm"],
        data=data,
        seeds=1,
        settings={**QUICK, "epochs": 8, "warmup": 8},
        runs_dir=tmp_path / "runs",
    )
    assert model.selection == "id-val"
    told = model.report_data
    assert told["rules"] == {"auto": "id-val", "forest": "id-val", "erm": "id-val"}
    said = scan_parts(model.only("forest"), splits, ["id_val"])
    assert f"{len(said['id_val'][0])} validation rows" in told["made_of"], "nor are shares chosen on them"


def test_one_candidate_is_not_compared_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    model = fit_ensemble(
        "spmotif-struc", AUTO, candidates=["forest"], seeds=1, data=TINY, settings=QUICK, runs_dir=tmp_path
    )
    assert model.shares == {"forest": 1.0}
    assert model.report_data["comparisons"] == {}
    assert model.report_data["advice"].startswith("Nothing was trained beside the mixture")


def test_auto_mixes_its_candidates_by_validation_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    model = fit_ensemble(
        "spmotif-struc",
        AUTO,
        candidates=["forest", "ciga-v1"],
        seeds=2,
        data=TINY,
        settings=QUICK,
        runs_dir=tmp_path,
    )
    assert model.method_name == "ciga-v1"  # subgraphs come from a method that extracts
    assert set(model.rivals) == {"forest"}
    assert set(model.shares) == {"forest", "ciga-v1"}
    told = model.report_data
    assert f"forest {100 * model.shares['forest']:.0f} %" in told["made_of"]
    assert "validation rows" in told["made_of"]
    assert f"Subgraphs are those of ciga-v1, {100 * model.shares['ciga-v1']:.0f} %" in told["made_of"]
    assert list(told["scores"]) == ["auto", "ciga-v1", "forest"]
    assert set(told["comparisons"]) == {"ciga-v1", "forest"}
    assert set(told["ensembles"]) == {"auto", "ciga-v1", "forest"}
    assert len(told["scores"]["auto"][model.selection]["ood_test"]["accuracy"]) == 2

    monkeypatch.setattr("ciga.models.fit.best_shares", lambda said, y: {"forest": 0.95, "ciga-v1": 0.05})
    again = fit_ensemble(
        "spmotif-struc", AUTO, candidates=["forest", "ciga-v1"], seeds=2, data=TINY, settings=QUICK,
        runs_dir=tmp_path,
    )  # fmt: skip
    assert "5 % of the answer: they explain little of it (--member ciga-v1" in again.report_data["made_of"]


def test_shares_go_by_rows_that_did_not_choose_the_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    seen: dict[str, Any] = {}

    def watch(said: dict[str, torch.Tensor], y: torch.Tensor) -> dict[str, float]:
        seen.update(said)
        return best_shares(said, y)

    monkeypatch.setattr("ciga.models.fit.best_shares", watch)
    # So many that the two parts choose different epochs.
    rows = {**TINY, "train_per_class": 20, "val_per_class": 10}
    settings = {**QUICK, "width": 16, "epochs": 6, "warmup": 0, "lr": 0.02, "averaging": 0}
    model = fit_ensemble(
        "spmotif-struc", AUTO, candidates=["forest", "erm"], seeds=3, data=rows, settings=settings,
        runs_dir=tmp_path,
    )  # fmt: skip
    splits = load("spmotif-struc", **rows)
    n = splits["id_val"].num_graphs
    for name in ("forest", "erm"):
        shipped = model.only(name)
        torch.testing.assert_close(seen[name][:n], scan_parts(shipped, splits, ["id_val"])["id_val"].mean(0))
    assert model.report_data["rules"]["erm"] == "ood-val"
    own = known_settings(["forest", "erm"], settings)["erm"]
    chosen = resolve("erm", own, dataset="spmotif-struc")
    records = [json.loads(file.read_text()) for file in tmp_path.glob("*/record.json")]
    hashes = [r["hash"] for r in sorted(records, key=lambda r: r["seed"]) if r["method"] == "erm"]
    weights = [read_tensors(tmp_path / name / "weights.id-val.safetensors")[0] for name in hashes]
    networks = [network for one in weights for network in chosen.networks(Spec.of(splits), one)]
    other = replace(model.only("erm"), members=networks)
    expected = scan_parts(other, splits, ["ood_val"])["ood_val"].mean(0)
    torch.testing.assert_close(seen["erm"][n:], expected)
    assert not torch.equal(seen["erm"][n:], scan_parts(shipped, splits, ["ood_val"])["ood_val"].mean(0))


def test_of_several_methods_the_best_on_validation_rows_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    model = fit_ensemble("spmotif-struc", "forest,erm", seeds=1, data=TINY, settings=QUICK, runs_dir=tmp_path)
    splits = load("spmotif-struc", **TINY)
    rows = {part: len(splits[part]) for part in ("id_val", "ood_val") if part in splits}
    told = model.report_data["ensembles"]
    scores = {name: sum(n * told[name][part]["mean"] for part, n in rows.items()) for name in told}
    assert scores[model.method_name] == max(scores.values())
    assert not model.shares
    assert {model.method_name, *model.rivals} == {"forest", "erm"}
    assert f"The answer is that of {model.method_name}, the best on" in model.report_data["made_of"]


def test_a_single_method_stands_beside_a_forest_and_erm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    model = fit_ensemble("spmotif-struc", "ciga-v1", seeds=2, data=TINY, settings=QUICK, runs_dir=tmp_path)
    assert model.method_name == "ciga-v1"
    assert list(model.rivals) == ["forest", "erm"]
    assert not model.shares, "the method answers alone"
    told = model.report_data
    for found in (told["scores"], told["ensembles"]):
        assert list(found) == ["ciga-v1", "forest", "erm"]
    assert set(told["comparisons"]) == {"forest", "erm"}
    assert told["comparison"] == told["comparisons"]["erm"]
    erm, forest = (model.only(name).settings for name in ("erm", "forest"))
    assert (erm["width"], erm["layers"], erm["epochs"]) == (4, 1, 1), (
        "ERM has the method's network and schedule"
    )
    assert (forest["trees"], forest["bits"]) == (5, 32), "and the forest what was meant for it"
    assert list(told["caveats"]) == ["forest"], "features of these graphs are measurements"


def test_a_forest_says_what_it_cannot_use() -> None:
    train = load("spmotif-struc", **TINY).train
    for totals, rest in ((True, "only sums over each graph"), (False, "nothing")):
        chosen = resolve("forest", {"totals": totals}, preset="none")
        network = chosen.method.network(Spec(train.num_features, 0, 2), chosen.backbone)
        for nodes, said in ((ROWS, ""), (CONSTANT, f"of them the forest sees {rest}.")):
            network.hold("naming", torch.tensor([nodes, CONSTANT], dtype=torch.int32))
            assert chosen.method.caveat(network, train).endswith(said)
            assert bool(chosen.method.caveat(network, train)) == bool(said)
