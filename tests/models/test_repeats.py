"""Several splits of one table: what is drawn anew, what is refused, and what the splits say together."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from typer.testing import CliRunner

from ciga.cli import app
from ciga.data.dataset import make
from ciga.errors import UsageError
from ciga.models.model import Model
from ciga.models.repeats import split_options, summarise
from ciga.scoring import stats


def _table(path: Path, rows: int = 90) -> Path:
    rng = np.random.default_rng(0)
    lines = ["smiles,active,year,assay"]
    for i in range(rows):
        ring = "c1ccccc1" if i % 2 else "C1CCCCC1"
        tail = "C" * int(rng.integers(1, 9))
        lines.append(f"{ring}{tail}{'O' if i % 3 else 'N'},{(i % 2) ^ (i % 5 == 0)},{2000 + i},a{i % 9}")
    path.write_text("\n".join(lines) + "\n")
    return path


def _told(auto: list[float], forest: list[float]) -> dict[str, object]:
    """Report data of one split, the least that `summarise` reads: seeds and averages of two methods."""
    scores = {"auto": auto, "forest": forest}
    return {
        "where": "ood_test",
        "selection": "ood-val",
        "ensembles": {n: {"ood_test": {"mean": fmean(v) + 0.01}} for n, v in scores.items()},
        "scores": {n: {"ood-val": {"ood_test": {"roc_auc": v}}} for n, v in scores.items()},
    }


def test_splits_differ_in_their_seed_alone(tmp_path: Path) -> None:
    file = str(_table(tmp_path / "t.csv"))
    data = {"path": file, "label": "active", "split": "random", "seed": 3}
    found = split_options("molecules", data, 4)
    assert [one.pop("seed") for one in found] == [3, 4, 5, 6]
    assert all(one == {k: v for k, v in data.items() if k != "seed"} for one in found)
    assert split_options("molecules", data, 1) == [data]


def test_a_split_without_chance_is_refused(tmp_path: Path) -> None:
    file = str(_table(tmp_path / "t.csv"))
    with pytest.raises(UsageError, match="time:year split is the same every time: leave --repeats out"):
        split_options("molecules", {"path": file, "label": "active", "split": "time:year"}, 3)
    with pytest.raises(UsageError, match="time:year split is the same every time"):
        # `ciga fit` holds out some training rows at random: the test rows are still the same.
        split_options("molecules", {"path": file, "label": "active", "split": "time:year", "id_val": 0.1}, 2)
    with pytest.raises(UsageError, match="nci1 has no seed"):
        split_options("nci1", {}, 3)


def test_the_verdict_is_the_mean_over_splits_and_wider_for_the_rows_they_share() -> None:
    told = [_told([0.80, 0.82, 0.84], [0.78, 0.79, 0.80]), _told([0.70] * 3, [0.72] * 3),
            _told([0.75] * 3, [0.71] * 3), _told([0.81] * 3, [0.80] * 3)]  # fmt: skip
    alone, shared = (summarise(told, "roc_auc", 3, overlap) for overlap in (0.0, 0.25))
    gaps = [0.03, -0.02, 0.04, 0.01]
    for found in (alone, shared):
        assert found["shipped"] == "auto"
        assert found["comparisons"]["forest"]["difference"] == pytest.approx(fmean(gaps))
        assert found["scores"]["forest"] == pytest.approx([0.80, 0.73, 0.72, 0.81])
    wide, narrow = (
        f["comparisons"]["forest"]["high"] - f["comparisons"]["forest"]["low"] for f in (shared, alone)
    )
    assert wide / narrow == pytest.approx(math.sqrt(1 + 4 * 0.25))
    values = shared["scores"]["auto"]
    half = stats._student(3) * stdev(values) * math.sqrt(1 / 4 + 0.25)
    assert shared["intervals"]["auto"]["high"] == pytest.approx(fmean(values) + half)


def test_intervals_over_overlapping_splits_cover_what_they_say() -> None:
    """The widening allows for a correlation of overlap / (1 + overlap) between splits."""
    rng, overlap, n, hits, plain = np.random.default_rng(1), 0.25, 5, 0, 0
    rho = overlap / (1 + overlap)
    for _ in range(1500):
        values = math.sqrt(rho) * rng.normal() + math.sqrt(1 - rho) * rng.normal(size=n)
        wide, narrow = (stats.interval(list(values), overlap=o) for o in (overlap, 0.0))
        hits += wide["low"] <= 0 <= wide["high"]
        plain += narrow["low"] <= 0 <= narrow["high"]
    assert 0.93 < hits / 1500 < 0.97
    assert plain / 1500 < 0.88


def test_fit_judges_over_repeated_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    file = _table(tmp_path / "t.csv")
    options = (
        "--label active --split group:assay --candidates forest,ciga-v1 --seeds 3 --repeats 3 --epochs 1"
    )
    words = ["fit", str(file), *options.split(), "--set", "trees=5", "--set", "width=4"]
    done = CliRunner().invoke(
        app, [*words, "--out", str(tmp_path / "m"), "--runs-dir", str(tmp_path / "runs")]
    )
    assert done.exit_code == 0, done.output
    assert "3 splits" in done.output
    model = Model.load(tmp_path / "m")
    splits = make(model.source["dataset"], {**model.source["options"], "env": "assay"}).build()
    assays = {part: {*splits[part].columns["environment"]} for part in splits}
    assert assays["id_val"] <= assays["train"], "held out like the training rows"
    assert not assays["train"] & (assays["ood_val"] | assays["ood_test"]), "an assay stays whole"
    assert not assays["ood_val"] & assays["ood_test"]
    told = model.report_data
    assert told["repeats"]["splits"] == 3
    assert set(told["repeats"]["scores"]) == {"auto", "forest", "ciga-v1"}
    assert told["advice"] == told["repeats"]["advice"]
    assert "of 3 splits" in told["advice"]
    # The model is that of the first split, and its own score is the first of the three.
    assert told["repeats"]["scores"]["auto"][0] == told["ensembles"]["auto"]["ood_test"]["mean"]
    assert len({*told["repeats"]["scores"]["forest"]}) > 1
    json.dumps(told)


def test_repeats_compare_with_who_answers_and_not_with_who_was_named_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `--method a,b` the better one on validation rows answers: here it is the second."""
    monkeypatch.setattr("ciga.runs.pool.several.cores", lambda: 1)
    options = "--label active --split group:assay --method erm,forest --seeds 1 --repeats 2 --epochs 1"
    place = ["--out", str(tmp_path / "m"), "--runs-dir", str(tmp_path / "runs")]
    words = ["fit", str(_table(tmp_path / "t.csv")), *options.split(), *place]
    done = CliRunner().invoke(app, [*words, "--set", "trees=20", "--set", "width=4", "--set", "lr=1e-8"])
    assert done.exit_code == 0, done.output
    model = Model.load(tmp_path / "m")
    assert model.method_name == "forest"
    assert list(model.report_data["ensembles"]) == ["forest", "erm"]
    assert model.report_data["repeats"]["shipped"] == "forest"
    assert list(model.report_data["repeats"]["comparisons"]) == ["erm"]
    assert "--member forest" not in model.report_data["advice"]
