"""From cells to runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ciga.bench.grid import Variation, configs, plans
from ciga.bench.paper import exhibit
from ciga.errors import UsageError
from ciga.files import write_json
from ciga.runs.records import Records
from tests.bench.conftest import TINY, record_of, tiny_plans


def test_every_cell_of_the_paper_can_be_planned() -> None:
    """All names, options and settings exist: nothing surfaces only after hours of running."""
    plain = Variation()
    for name in ("table-spmotif", "table-real", "table-size", "table-single-env", "table-runtime"):
        shown = exhibit(name)
        assert plans(shown.cells(["all"], ["all"]), plain, [1])
    for name in ("figure-alpha", "figure-beta", "figure-subgraphs"):
        assert plans(exhibit(name).cells(), plain, [1])
    failure = plans(exhibit("figure-failure").cells(), plain, [1])
    assert len(failure) == 252  # of 448 cells: panels share their first line, FIIF and PIIF their structure


def test_variation_goes_where_it_fits() -> None:
    cells = exhibit("table-real").cells(["erm", "ciga-v2"], ["graph-sst5", "drugood-ic50-assay"])
    varied = Variation({"single_environment": "true"}, {"alpha": "3"}).apply(cells)
    for cell in varied:
        assert ("single_environment" in cell.data) == cell.dataset.startswith("drugood")
        assert ("alpha" in cell.settings) == (cell.method == "ciga-v2")


def test_variation_refuses_what_fits_nowhere_or_makes_columns_equal() -> None:
    cells = exhibit("table-spmotif").cells()
    with pytest.raises(UsageError, match="train_per_class"):
        Variation({"train_per_clas": "3"}).apply(cells)
    with pytest.raises(UsageError, match="bias is what"):
        Variation({"bias": "0.5"}).apply(cells)
    with pytest.raises(UsageError, match="epochs"):
        Variation(settings={"epoch": "3"}).apply(cells)
    assert Variation({"variant": "clean"}).apply(cells)[0].data["variant"] == "clean"


def test_what_defines_a_row_stays() -> None:
    cells = exhibit("table-spmotif").cells(["ciga-v1", "ciga-v1-count"], ["spmotif-struc-0.60"])
    first, second = Variation(settings={"size": "0.5"}).apply(cells)
    assert first.settings["size"] == "0.5"
    assert second.settings["size"] == 8


def test_seeds_outermost_and_each_run_once() -> None:
    todo = tiny_plans(seeds=(1, 2))
    assert [p.spec.seed for p in todo] == [1, 1, 2, 2]
    cells = exhibit("table-runtime").cells(["erm"])
    assert len(cells) == 2  # two columns of the same runs
    assert len(plans(cells, Variation(), [1])) == 1


def test_a_row_with_its_own_preset() -> None:
    cells = exhibit("table-spmotif").cells(["ciga-v2", "ciga-v2-tuned"], ["spmotif-struc-0.60"])
    published, tuned = plans(cells, Variation(), [1])
    assert published.config.settings["alpha"] == 4.0
    assert published.config.settings["budget"] == "ratio"
    assert tuned.spec.preset == "tuned"
    assert tuned.hash != published.hash


def test_records_from_folders_and_lines(tmp_path: Path) -> None:
    first, second = (p.config for p in tiny_plans(["erm"], (1, 2)))
    write_json(tmp_path / "runs" / first.hash / "record.json", record_of(first, 0.5))
    (tmp_path / "results").mkdir()
    line = json.dumps(record_of(second, 0.7))
    (tmp_path / "results" / "spmotif.jsonl").write_text(line + "\n\n")
    records = Records([tmp_path / "runs", tmp_path / "results"])
    assert records.find(first)["selected"]["ood-val"]["ood_test"]["accuracy"] == 0.5
    assert records.find(second)["selected"]["ood-val"]["ood_test"]["accuracy"] == 0.7
    assert records.find(replace(first, seed=3)) is None
    assert {r["hash"] for r in records} == {first.hash, second.hash}


def test_a_record_made_under_other_defaults_does_not_count(tmp_path: Path) -> None:
    config = tiny_plans(["erm"], (1,))[0].config
    old = record_of(config, 0.5)
    old["settings"]["dropout"] = 0.77
    write_json(tmp_path / config.hash / "record.json", old)
    records = Records([tmp_path])
    assert records.find(config) is None
    assert "dropout" in records.stale[0]


def test_configs_of_a_cell_differ_in_the_seed_alone() -> None:
    cell = TINY.apply(exhibit("table-spmotif").cells(["erm"], ["spmotif-mixed-0.90"]))[0]
    found = configs(cell, TINY)
    assert [c.seed for c in found] == [1, 2, 3, 4, 5]
    assert len({c.hash for c in found}) == 5
    assert found[0].data["bias"] == 0.9
    assert found[0].data["variant"] == "paper"
