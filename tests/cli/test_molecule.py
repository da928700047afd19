"""`ciga predict MODEL --smiles …`: one molecule, answered on the screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ciga.estimator import GraphOODClassifier
from tests.helpers import ciga
from tests.small_models import toy_model

pytest.importorskip("rdkit")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    smiles = ["CCO", "c1ccccc1", "CCN", "CC(=O)O", "C1CCCCC1", "CCCl"] * 4
    classifier = GraphOODClassifier("erm", layers=1, width=8, epochs=2, device="cpu")
    classifier.fit(smiles, ["no", "yes"] * 12).save("model")
    return lambda *words: ciga(monkeypatch, capsys, *words, columns=80)


def test_one_molecule_is_answered_on_the_screen(run: Run) -> None:
    code, out, err = run("predict", "model", "--smiles", "CCOC", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["smiles"] == "CCOC"
    assert answer["prediction"] in ("no", "yes")
    assert float(answer["p(no)"]) + float(answer["p(yes)"]) == pytest.approx(1, abs=1e-5)
    code, out, err = run("predict", "model", "--smiles", "CCOC")
    assert (code, err) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in out.splitlines()[2:])
    assert {k: v.strip() for k, v in shown.items()} == {k: v for k, v in answer.items() if v}
    assert max(map(len, out.splitlines())) <= 80
    # A column of a table is still named so.
    Path("mols.csv").write_text("id,structure\n1,CCOC\n")
    code, out, err = run("predict", "model", "mols.csv", "--smiles", "structure", "--out", "-")
    assert code == 0, err
    assert out.splitlines()[1].startswith(f"1,CCOC,{answer['prediction']},{answer['probability']}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--smiles", "C(C"], "The molecule 'C(C' cannot be read: unparsable SMILES: correct the spelling."),
        (["--smiles", "CCO ethanol"], "a space in the SMILES"),
        ([], "or one molecule (predict MODEL --smiles CCO)"),
        (["--smiles", "CCO", "--out", "p.csv"], "Name a file of molecules or graphs"),
        (["mols.csv"], "Say where the predictions go: --out FILE.csv"),
    ],
)
def test_what_is_wrong_is_one_sentence(run: Run, words: list[str], says: str) -> None:
    code, out, err = run("predict", "model", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_a_model_of_graphs_reads_no_molecule(run: Run) -> None:
    toy_model("erm", 1).save("graphs")
    code, _, err = run("predict", "graphs", "--smiles", "CCO")
    assert code == 2
    assert "fitted on graphs, not on molecules" in err
