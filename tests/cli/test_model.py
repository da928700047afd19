"""`ciga fit`, `predict`, `explain`, `export` as a new user would type them."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ciga.estimator import GraphOODClassifier
from ciga.models import neighbours
from ciga.models.model import Model
from tests.helpers import ciga
from tests.small_models import molecule_model, toy_splits, write_molecules

pytest.importorskip("rdkit", reason="RDKit is missing: pip install 'ciga[chem]'")
SHORT = ["--set", "layers=1", "--set", "width=8", "--epochs", "2", "--data", "fractions=0.6,0.2,0.2"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))
    write_molecules(tmp_path / "mols.csv")
    return tmp_path


def test_from_a_table_to_a_report_in_three_commands(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: object) -> tuple[int, str, str]:
        return ciga(monkeypatch, capsys, *words)

    code, out, err = run(
        "fit", "mols.csv", "--label", "active", "--method", "ciga-v2", "--seeds", 2, "--out", "model", *SHORT
    )
    assert code == 0, err
    for word in (
        "ciga-v2",
        "forest",
        "erm",
        "like training (id_val)",
        "shifted (ood_test)",
        "calibration error",
        "Shift:",
        "--member NAME): forest, erm",
    ):
        assert word in out
    assert "2 rows were set aside" in out
    model = Model.load("model")
    assert model.featuriser["column"] == "smiles"
    assert model.names == ["0", "1"]
    assert model.gauge is not None
    assert model.gauge.calibrated_on == "id_val"
    assert set(model.report_data["scores"]) == {"ciga-v2", "forest", "erm"}
    assert model.report_data["comparison"]["low"] is None  # two seeds have no interval
    assert "fit with --seeds 3 or more to see how much of that is luck" in model.report_data["advice"]

    code, out, err = run("predict", "model", "mols.csv", "--out", "predictions.csv")
    assert code == 0, err
    assert "50 rows" in err
    assert "2 rows could not be read" in err
    rows = list(csv.DictReader((here / "predictions.csv").open()))
    assert len(rows) == 50
    assert {"id", "note", "prediction", "probability", "uncertainty", "shift", "error"} <= set(rows[0])

    code, out, err = run("explain", "model", "mols.csv", "--out", "report.html")
    assert code == 0, err
    assert "kept part" in out
    page = (here / "report.html").read_text()
    assert page.count('class="card"') == 48 + 4  # the gallery, and four to look at first
    assert "2 rows could not be read" in page
    seen = page.partition('id="cards"')[2].count('data-seen="1"')
    assert f"The model was trained on {seen} of the 48 molecules" in page
    assert 20 <= seen <= 30
    assert f"these molecules ({48 - seen})" in page
    assert '<span title="m0">m0</span>' in page
    assert 'class="molecule"' in page
    assert "ciga explain model mols.csv" in page

    code, out, _ = run("predict", "model", "mols.csv", "--out", "-")
    assert out.splitlines()[0].startswith("id,smiles,active,note,prediction")
    loaded = GraphOODClassifier.load("model")
    assert loaded.method == "ciga-v2"
    code, out, err = run("explain", "model", "--json", "--out", "test.html", "--gallery", 3)
    assert code == 0, err
    assert json.loads(out)["graphs"] > 0
    # ERM starts from the same settings by itself as beside another method, so its runs are there already
    before = set((here / "runs").iterdir())
    again = [
        "fit",
        "mols.csv",
        "--label",
        "active",
        "--seeds",
        2,
        "--out",
        "model",
        "--method",
        "erm",
        *SHORT,
    ]
    (here / "model" / "notes.txt").write_text("mine")
    code, _, err = run(*again)
    assert (code, "holds notes.txt, which is not part of its model" in err) == (2, True), err
    (here / "model" / "notes.txt").unlink()
    code, out, err = run(*again, "--json")
    assert code == 0, err
    assert json.loads(out)["method"] == "erm"
    assert err.splitlines().count("model holds a model: the new one will replace it.") == 1
    assert set((here / "runs").iterdir()) == before
    code, _, err = run("explain", "model", "mols.csv")
    assert (code, "does not extract" in err) == (2, True)


def test_a_mixture_of_methods_is_the_default(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: object) -> tuple[int, str, str]:
        return ciga(monkeypatch, capsys, *words)

    few = ["--candidates", "forest,erm,ciga-v1", "--set", "trees=5", "--seeds", 1, *SHORT]
    code, out, err = run("fit", "mols.csv", "--label", "active", "--out", "model", *few)
    assert code == 0, err
    said = " ".join(out.split())
    assert "The answer is made of " in said
    assert re.search(r"Shift: .* roc_auc is [01]\.\d{3} on id_val and [01]\.\d{3} on ood_test\.", said)
    assert re.search(r"nearest training graph, median: [^:]* in ood_test\. This is an? .* split", said)
    assert "Subgraphs are those of ciga-v1" in said
    assert "(ciga predict … --member NAME): ciga-v1, forest, erm" in said
    model = Model.load("model")
    rows, steps = {}, {}
    for member in (None, "forest", "erm", "ciga-v1"):
        words = [] if member is None else ["--member", member]
        code, out, err = run("predict", "model", "mols.csv", "--out", "-", *words)
        assert code == 0, err
        steps[member] = [line.partition("   (")[0] for line in err.splitlines() if line.startswith("Next:")]
        rows[member] = [float(r["p(1)"]) for r in csv.DictReader(out.splitlines()) if not r["error"]]
    for i, together in enumerate(rows[None]):
        assert together == pytest.approx(
            sum(share * rows[name][i] for name, share in model.shares.items()), abs=1e-5
        )
    assert steps == {
        None: ["Next:  ciga explain model mols.csv"],
        "forest": [],  # has no subgraph, and cannot be exported
        "erm": ["Next:  ciga export model --member erm"],
        "ciga-v1": ["Next:  ciga explain model mols.csv --member ciga-v1"],
    }
    code, _, err = run("export", "model", "--member", "erm")
    assert code == 0, err
    assert "Next:  ciga predict model FILE --out predictions.csv --member erm " in err
    code, _, err = run("explain", "model", "mols.csv", "--gallery", 2, "--member", "ciga-v1")
    assert code == 0, err
    assert "Next:  ciga export model --member ciga-v1 " in err
    code, out, err = run("explain", "model", "mols.csv", "--gallery", 2)
    assert code == 0, err
    assert "Next:  ciga export model --member ciga-v1 " in err
    assert f"those of ciga-v1, {100 * model.shares['ciga-v1']:.0f} % of the answer" in out
    assert "mix of" in (here / "report.html").read_text()
    for words, says in (
        (["explain", "model", "mols.csv", "--member", "forest"], "subgraph: use --member ciga-v1."),
        (
            ["predict", "model", "mols.csv", "--out", "p.csv", "--member", "gsat"],
            "Known: ciga-v1, erm, forest",
        ),
        (["export", "model"], "--member NAME"),
    ):
        code, _, err = run(*words)
        assert (code, says in err) == (2, True), err


def test_graphs_of_ones_own(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_splits().train.save(here / "graphs.safetensors")
    words = ["--split", "random", "--seeds", 1, "--method", "gsat", *SHORT]
    code, out, err = ciga(monkeypatch, capsys, "fit", "graphs.safetensors", "--out", "model", *words)
    assert code == 0, err
    assert "one seed" in out
    code, out, err = ciga(
        monkeypatch, capsys, "explain", "model", "graphs.safetensors", "--gallery", 4, "--most", 20
    )
    assert code == 0, err
    assert "edge AUROC" in out
    assert "Only the first 20 rows" in (here / "report.html").read_text()


def test_what_the_next_step_needs_is_in_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "add.py").write_text("")
    (here / "two columns.csv").write_text("mol,other\nCCO,CCN\n")
    molecule_model("ciga-v2").save(here / "model")
    words = ["--smiles", "other", "--plugin", "add.py"]
    _, _, err = ciga(monkeypatch, capsys, "predict", "model", "two columns.csv", "--out", "p.csv", *words)
    assert "Next:  ciga explain model 'two columns.csv' --smiles other --plugin add.py " in err


def test_no_row_that_can_be_predicted_is_a_failure(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    molecule_model("ciga-v2").save(here / "model")
    (here / "bad.csv").write_text("smiles,id\n,1\nC(C,2\n")
    for place, where in (("p.csv", "the column error of p.csv"), ("-", "the column error")):
        for json_ in ([], ["--json"]):
            code, out, err = ciga(monkeypatch, capsys, "predict", "model", "bad.csv", "--out", place, *json_)
            assert (code, "Next:" in err) == (1, False)
            why = f"No row of bad.csv could be predicted: {where} says why"
            assert err == f"ciga: {why}; check that --smiles names the column of SMILES.\n"
            text = (here / "p.csv").read_text() if place == "p.csv" else out
            assert [bool(row["error"]) for row in csv.DictReader(text.splitlines()[:3])] == [True, True]
            if json_:
                assert json.loads(out.splitlines()[-1])["errors"] == 2


def test_predict_says_what_it_was_trained_on_and_compares_with(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(neighbours, "MOST", 10)
    model = molecule_model("ciga-v2")  # of 24 molecules, of which it keeps 8
    model.save(here / "silent")
    model.report_data = {"data": {"splits": {"train": {"graphs": 24}}}}
    model.save(here / "model")
    (here / "new.csv").write_text("smiles\nCCO\nC1CCCCC1\nCCCCCCCC\nC(C\n")
    (here / "one.csv").write_text("smiles\nCCO\n")
    (here / "other.csv").write_text("smiles\nCCCCCCCC\n")
    said = {}
    for name, file in (("model", "new"), ("model", "one"), ("model", "other"), ("silent", "new")):
        code, _, err = ciga(monkeypatch, capsys, "predict", name, f"{file}.csv", "--out", "p.csv")
        assert code == 0
        said[name, file] = err
    lines = said["model", "new"].splitlines()
    assert lines.count(
        "The model was trained on 2 of these 3 rows: its answers there say nothing about new ones."
    ) == 1  # fmt: skip
    assert "The model was trained on this row: its answers" in said["model", "one"]
    assert "was trained on" not in said["model", "other"]
    assert "Similarity to the nearest of 8 of the 24 training molecules: median " in said["model", "new"]
    assert "Similarity to the nearest training row: median " in said["silent", "new"]
    _, out, _ = ciga(monkeypatch, capsys, "predict", "model", "new.csv", "--out", "p.csv", "--json")
    assert json.loads(out)["seen"] == 2


def test_rows_are_counted_alike_in_the_report_and_in_predictions(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    molecule_model("ciga-v2").save(here / "model")
    (here / "new.csv").write_text("smiles\nCCO\nC(C\nCCN\nCCCO\n")
    code, _, err = ciga(monkeypatch, capsys, "explain", "model", "new.csv")
    assert code == 0, err
    page = (here / "report.html").read_text().partition('id="cards"')[2]
    assert re.findall(r'<span title="([^"]*)"', page) == ["row 2", "row 4", "row 5"]
    assert '<th scope="row">3</th><td>unparsable SMILES' in page
    assert re.findall(r'data-row="(\d+)"', page) == ["2", "4", "5"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["fit", "nothing.csv", "--out", "m"], 2, "no file"),
        (["fit", "mols.csv", "--out", "m"], 2, "label"),
        (["fit", "mols.csv", "--label", "activ", "--out", "m"], 2, "Did you mean active"),
        (
            ["fit", "mols.csv", "--label", "active", "--method", "cigav2", "--out", "m"],
            2,
            "Did you mean ciga-v2",
        ),
        (["fit", "spmotif-struc", "--label", "active", "--out", "m"], 2, "use --data"),
        (["fit", "mols.csv", "--label", "active", "--out", "."], 2, "not a model folder"),
        (["predict", "mols.csv", "mols.csv", "--out", "p.csv"], 1, "not a model folder"),
        (["explain", "nothing", "mols.csv"], 1, "not a model folder"),
        (["export", "nothing"], 1, "not a model folder"),
        (["export", "nothing", "--format", "pickle"], 2, "no export format"),
    ],
)
def test_mistakes_get_a_sentence(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[Any],
    code: int,
    says: str,
) -> None:
    found, _, err = ciga(monkeypatch, capsys, *words)
    assert says in err
    assert found == code
    assert "Traceback" not in err


def test_the_report_of_a_run(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = [w for k in ("train", "val", "test") for w in ("--data", f"{k}_per_class=4")]
    words = ["--epochs", 2, "--set", "width=8", *tiny, "--report", "run.html"]
    code, out, err = ciga(monkeypatch, capsys, "run", "spmotif-struc", "ciga-v1", *words)
    assert code == 0, err
    assert "report: run.html" in out
    assert "ciga-v1 on spmotif-struc" in (here / "run.html").read_text()
