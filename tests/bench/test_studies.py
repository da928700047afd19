"""Tables of ours, without a number of the paper: their cells are experiments, and they can be shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ciga.bench.exhibit import PaperTable
from ciga.bench.paper import common_methods, exhibit, main_tables
from ciga.data.dataset import make
from ciga.data.datasets.spmotif import MotifDataset
from ciga.runs.plan import plan
from tests.helpers import ciga

STUDIES = ("table-hinge", "table-budget", "table-barrier", "table-features", "table-mechanisms")


def study(name: str) -> PaperTable:
    table = exhibit(name)
    assert isinstance(table, PaperTable)
    return table


@pytest.mark.parametrize("name", STUDIES)
def test_every_cell_is_an_experiment_that_can_be_planned(name: str) -> None:
    table = study(name)
    cells = table.cells(["all"], ["all"])
    assert len(cells) == len(table.rows) * len(table.columns)
    hashes: dict[str, str] = {}
    for row in table.rows:
        for column in table.columns:
            cell = table.cell(row, column)
            assert cell is not None
            assert cell.seeds == (1, 2, 3, 4, 5)
            config = plan(
                cell.dataset,
                cell.method,
                data=cell.data,
                settings=cell.settings,
                preset=cell.preset or "published",
            ).config
            # Rows differ in what is run; columns that differ in the metric alone share their runs.
            assert hashes.setdefault(config.hash, row.key) == row.key
    assert table not in main_tables()
    assert not table.printed


def test_the_rows_are_what_they_are_called() -> None:
    hinge = {row.key: row.settings for row in study("table-hinge").rows}
    assert hinge["v2-detached"] == {"spurious_gradient": False}
    assert sorted(s["beta"] for s in hinge.values() if "beta" in s) == [0.5, 1.0, 2.0, 4.0]
    budget = [row.settings for row in study("table-budget").rows if row.method == "ciga-v2"]
    assert [(s["budget"], s["size"]) for s in budget] == [
        ("count", 3), ("count", 6), ("count", 12), ("threshold", 0.5)
    ]  # fmt: skip
    barrier = study("table-barrier").rows
    assert all(row.settings["node_features"] for row in barrier)
    for method in ("erm", "ciga-v1", "ciga-v2"):  # the same price for all
        prices = {row.settings.get("gate_price", 0.0) for row in barrier if row.method == method}
        assert prices == {0.0, 1.0}
    features = {row.key: row.settings for row in study("table-features").rows}
    for row, settings in features.items():  # one gate for all, and the barrier wherever there is a part
        assert [settings[k] for k in ("node_features", "gate_price", "gate_speed")] == [True, 3.0, 10.0]
        assert row == "erm" or settings["classifier_input"] == "raw"
    for row in ("v1", "complement"):  # what is held differs from what is not in nothing else
        held = features[f"{row}-held"].items() - features[row].items()
        assert dict(held) == {"settle": True, "trial": 8, "starts": 3}
    for settings in (row.settings for row in study("table-mechanisms").rows):
        assert [settings[k] for k in ("node_features", "gate_price", "gate_speed")] == [True, 3.0, 10.0]
    assert "erm" in common_methods()


def test_each_mechanism_is_the_one_it_is_called() -> None:
    data = {c.key: c.data for c in study("table-mechanisms").columns}
    for key, structure, attribute, noise in (
        ("fiif", "fiif", "none", 0.0),
        ("piif", "piif", "none", 0.05),
        ("miif", "fiif", "piif", 0.05),
    ):
        dataset = make("spmotif-struc", data[key])
        assert isinstance(dataset, MotifDataset)
        made = dataset.mechanism()
        assert (made.structure.kind, made.attribute.kind, made.noise) == (structure, attribute, noise)


@pytest.mark.parametrize("name", STUDIES)
def test_it_is_shown_before_anything_is_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ciga(monkeypatch, capsys, "table", name, "--runs-dir", tmp_path)
    assert code == 0, err
    assert "A study of ours" in out
    assert "Paper:" not in out
    for row in study(name).rows:
        assert row.label in out
