"""One number for each method makes its probabilities honest, and no ranking changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ciga.errors import CigaError
from ciga.models.fit import fit_ensemble
from ciga.models.model import Model
from ciga.models.report_data import scan_parts
from ciga.models.summary import score
from ciga.models.temperature import LEAST, MOST, best_temperature, cooled
from tests.helpers import TINY
from tests.small_models import edit, toy_model, toy_splits


def overconfident(rows: int, factor: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels drawn from honest logits, and the probabilities of logits that are `factor` times as large."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, 3, generator=generator)
    y = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return (factor * logits).softmax(1).unsqueeze(0), y


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0, 6.0])
def test_the_temperature_undoes_what_made_the_logits_too_large(factor: float) -> None:
    every, y = overconfident(8000, factor)
    found = best_temperature(every, y)
    assert found == pytest.approx(factor, rel=0.08)
    after = cooled(every, found).mean(0)
    assert score(after, y, "ece") < 0.03
    assert torch.equal(after.argsort(1), every[0].argsort(1))


def test_few_rows_move_it_little_and_none_not_at_all() -> None:
    every, y = overconfident(5, 1.0)
    certain = torch.zeros(1, 5, 3).scatter(2, y.view(1, 5, 1), 0.5) + 1 / 6
    assert 0.5 < best_temperature(certain, y) < 1, "five right answers are no reason to be certain"
    assert best_temperature(every[:, :0], y[:0]) == 1
    wrong = torch.tensor([0.99, 0.01]).expand(1, 500, 2)  # hardly ever in doubt, and always wrong
    assert best_temperature(wrong, torch.ones(500, dtype=torch.long)) == MOST
    assert torch.equal(cooled(every, 1.0), every)


def test_a_fit_is_honest_on_shifted_validation_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    quick = {"layers": 1, "width": 4, "epochs": 2, "trees": 5, "bits": 32}
    model = fit_ensemble("spmotif-struc", "forest,erm", seeds=2, data=TINY, settings=quick, runs_dir=tmp_path)
    forest = model.only("forest")
    assert forest.temperature != 1
    assert LEAST <= forest.temperature <= MOST
    from ciga.data import load

    splits = load("spmotif-struc", **TINY)
    as_it_is, raw = (
        scan_parts(one, splits, ["ood_val"])["ood_val"] for one in (forest, replace(forest, temperature=1.0))
    )
    y = splits["ood_val"].y
    assert score(as_it_is.mean(0), y, "log_loss") < score(raw.mean(0), y, "log_loss")
    told = model.report_data["ensembles"]["forest"]["ood_val"]["mean"]
    assert told == pytest.approx(score(as_it_is.mean(0), y, splits.task.metric), abs=1e-5)


def test_it_is_saved_and_a_version_that_would_leave_it_out_refuses(tmp_path: Path) -> None:
    model = replace(toy_model(), temperature=2.5)
    model.save(tmp_path / "model")
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    assert (about["temperature"], about["format"]) == (2.5, "ciga.models.model/4")
    batch = toy_splits()["ood_test"].batch(slice(0, 9))
    found = Model.load(tmp_path / "model")
    assert torch.equal(found.predict(batch).every, model.predict(batch).every)
    expected = cooled(toy_model().predict(batch).every, 2.5)
    torch.testing.assert_close(found.predict(batch).every, expected)
    assert found.only(found.method_name).temperature == 2.5


@pytest.mark.parametrize("value", [0, -1, 1e9, float("nan"), "hot", None])
def test_a_temperature_that_is_none_is_refused(tmp_path: Path, value: object) -> None:
    toy_model().save(tmp_path / "model")
    edit(lambda about: about.update(temperature=value))(tmp_path / "model")
    with pytest.raises(CigaError, match="is damaged"):
        Model.load(tmp_path / "model")
