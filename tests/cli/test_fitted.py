"""What `ciga fit` prints at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ciga.cli.fitted import print_summary
from ciga.models.report_data import outline
from tests.small_models import toy_model

_PARTS = {p: {"accuracy": 0.5, "ece": 0.1} for p in ("id_val", "ood_val", "ood_test")}
RUNS: list[dict[str, Any]] = [
    {"selected": {"ood-val": {"epoch": 1, **_PARTS}}, "selection": "ood-val", "seconds": 1.0}
] * 2


@pytest.mark.parametrize(("method", "explained"), [("ciga-v2", True), ("erm", False)])
def test_explain_is_offered_where_there_are_subgraphs(
    method: str, explained: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(toy_model(method), tmp_path, "molecules.csv")
    printed = capsys.readouterr()
    said = " ".join((printed.out + printed.err).split())
    assert f"Next: ciga predict {tmp_path} FILE --out predictions.csv" in said
    assert ("ciga explain" in said) is explained
    assert "Gates:" not in said


def test_closed_gates_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = toy_model("erm")
    report_data = model.report_data
    runs = [{**run, "closed_features": closed} for run, closed in zip(RUNS, ([0, 1, 3], [1, 3]), strict=True)]
    try:
        model.report_data = {**report_data, **outline({"erm": runs}, "accuracy", model.selection)}
        print_summary(model, tmp_path, "graphs.pt")
    finally:
        model.report_data = report_data
    said = " ".join(capsys.readouterr().out.split())
    assert "Gates: erm ignores 2 node features (closed by gates in every training run)" in said
    assert "node feature 1, node feature 3." in said


def test_data_warnings_of_molecules_speak_of_atoms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = toy_model("erm")
    warned = {**model.report_data["data"], "warnings": ["2 columns of x are constant and say nothing."]}
    monkeypatch.setattr(model, "report_data", {**model.report_data, "data": warned})
    print_summary(model, tmp_path, "graphs.pt")
    assert "Data: 2 columns of x are constant" in capsys.readouterr().out
    monkeypatch.setattr(model, "featuriser", {"kind": "smiles"})
    print_summary(model, tmp_path, "molecules.csv")
    assert "Data: 2 atom features are constant" in capsys.readouterr().out


def test_the_averaged_seeds_have_a_calibration_error_and_no_reason_where_nothing_is_flagged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = toy_model("erm")
    told = model.report_data
    ece = told["calibration"]["erm"]["ood_test"]
    none = {part: dict.fromkeys(found, 0.0) for part, found in told["flagged"].items()}
    try:
        model.report_data = {**told, "flagged": none}
        print_summary(model, tmp_path, "graphs.pt")
    finally:
        model.report_data = told
    out = capsys.readouterr().out
    assert "mostly by" not in out
    row = next(line for line in out.splitlines() if line.startswith("erm "))
    assert row.split()[-1] == f"{ece:.3f}"
    print_summary(model, tmp_path, "graphs.pt")
    assert "mostly by size" in capsys.readouterr().out


def test_names_and_scores_are_whole_in_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ciga-complem…` is no method."""
    monkeypatch.setenv("COLUMNS", "80")
    model = toy_model("erm")
    report_data = model.report_data
    spreads = [{p: {"accuracy": 0.5 + i / 9, "ece": 0.1 + i / 9} for p in _PARTS} for i in range(3)]
    runs = [{**RUNS[0], "selected": {"ood-val": {"epoch": 1, **found}}} for found in spreads]
    try:
        model.report_data = {**report_data, **outline({"ciga-complement": runs}, "accuracy", model.selection)}
        print_summary(model, tmp_path, "graphs.pt")
    finally:
        model.report_data = report_data
    table = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    row = next(i for i, line in enumerate(table) if line.startswith("ciga-complement "))
    assert table[row].split() == ["ciga-complement", "0.611", "0.611", "0.611", "0.211"]
    assert len(table[row + 1].split("[")) == 5
    assert table[row + 1].count("]") == 4
    assert max(map(len, table[: row + 2])) <= 80
