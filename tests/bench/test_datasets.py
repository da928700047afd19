"""The table of dataset statistics."""

from __future__ import annotations

import csv
import io

import pytest

from ciga.bench.datasets import statistics_table
from ciga.bench.exhibit import Statistics
from ciga.bench.grid import Variation
from ciga.bench.paper import exhibit
from ciga.errors import UsageError


def test_ours_beside_the_papers(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    shown = exhibit("table-datasets")
    assert isinstance(shown, Statistics)
    assert len(shown.columns) == 12
    small = Variation({"train_per_class": "30", "val_per_class": "10", "test_per_class": "10"})
    wanted = ["spmotif-struc", "drugood-ic50-size"]
    text = statistics_table(shown, "csv", wanted, small)
    rows = {(r["dataset"], r["metric"]): r for r in csv.DictReader(io.StringIO(text))}
    assert rows["spmotif-struc", "graphs.train"]["mean"] == "90.0"
    assert rows["spmotif-struc", "graphs.train"]["paper_mean"] == "9000.0"
    assert rows["spmotif-struc", "nodes_mean"]["paper_mean"] == "44.96"
    assert 25 < float(rows["spmotif-struc", "nodes_mean"]["mean"]) < 60
    assert rows["drugood-ic50-size", "graphs.train"]["mean"] == ""
    page = statistics_table(shown, "md", wanted, small)
    assert "36,597" in page
    assert "lbap_core_ic50_size.json" in page  # what is missing, and where to get it
    with pytest.raises(UsageError, match="nci109"):
        statistics_table(shown, "md", ["nci19"], small)
