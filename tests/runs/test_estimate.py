"""How long a run will take, and which records may say so."""

from __future__ import annotations

from typing import Any

import pytest

from ciga.runs.estimate import Estimate
from ciga.runs.plan import plan
from ciga.runs.records import Config
from tests.bench.conftest import record_of


def config(dataset: str = "spmotif-struc", method: str = "erm", seed: int = 1, **more: Any) -> Config:
    return plan(dataset, method, seed=seed, **more).config


def test_estimates_come_from_the_same_run_with_another_seed() -> None:
    first, second, other = config(), config(seed=2), config(method="ciga-v1")
    assert Estimate().seconds(first) > 0
    known = Estimate([record_of(first, 0.5, seconds=12_300.0)])
    assert known.seconds(second) == 12_300.0
    # Of another method nothing is known but how far off the model was here.
    assert known.seconds(other) / Estimate().seconds(other) > 5
    assert known.total([first, second]) == 24_600.0


TOYS = [
    ("spmotif-struc", {"train_per_class": 10, "val_per_class": 5, "test_per_class": 5}),
    ("failure-fiif", {"train_per_class": 6, "val_per_class": 3, "test_per_class": 3}),
]


@pytest.mark.parametrize(("dataset", "data"), TOYS)
def test_toy_runs_teach_nothing_about_full_ones(dataset: str, data: dict[str, Any]) -> None:
    """Runs of a split second on a handful of graphs turned 12.8 h into 4 min."""
    full = [config(method=m) for m in ("erm", "ciga-v2")] + [config("nci1", "gsat")]
    toys = [
        record_of(config(dataset, m, data=data), 0.5, seconds=0.02) for m in ("erm", "ciga-v1", "ciga-v2")
    ]
    assert Estimate(toys).total(full) == Estimate().total(full)
    # The same toy run is known, all the same.
    assert Estimate(toys).seconds(config(dataset, "erm", seed=7, data=data)) == 0.02


def test_datasets_the_model_does_not_know_teach_nothing_about_others() -> None:
    full = config("nci1", "gsat")
    small = record_of(full, 0.5, seconds=0.02) | {"dataset": "csv"}
    assert Estimate([small]).seconds(full) == Estimate().seconds(full)
