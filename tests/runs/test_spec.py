"""A run to be done is one value, and what it resolves to keeps its name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ciga.runs.plan import plan
from ciga.runs.pool.job import Job
from ciga.runs.records import Config
from ciga.runs.spec import RunSpec

SMALL = {"bias": 0.9, "train_per_class": 30, "val_per_class": 10, "test_per_class": 10}
SHORT = {"data": SMALL, "settings": {"epochs": 3}}
#: Hashes under which runs were recorded: another one orphans the committed records.
HASHES: list[tuple[str, str, dict[str, Any], str]] = [
    ("spmotif-struc", "ciga-v2", {}, "1427d62e664b842f"),
    ("spmotif-struc", "erm", {"seed": 2}, "aafbddcc744a2371"),
    ("spmotif-mixed", "ciga-complement", {"data": {"bias": 0.6}}, "45c5455bfa5687bc"),
    ("spmotif-struc", "ciga-v2", {"preset": "studies"}, "cb3d00b5ed55fc30"),
    ("spmotif-struc", "ciga-v2", SHORT | {"preset": "studies"}, "7116a068e61dd496"),
    ("spmotif-struc", "erm", {"seed": 2, "preset": "studies"}, "876c6f7ee2300f77"),
    ("spmotif-mixed", "ciga-complement", {"data": {"bias": 0.6}, "preset": "studies"}, "f24ea7accc686419"),
    ("spmotif-struc", "ciga-v1", {"preset": "published"}, "f7b2c1afc36dd571"),
    ("spmotif-struc", "ciga-v2", {"preset": "none"}, "0cd71d1de471a42b"),
    ("spmotif-struc", "gsat", {"protocol": "iid", "preset": "studies"}, "8b86ecb764bd3efa"),
    ("nci1", "gsat", {}, "6d43a598c1e13833"),
    ("nci1", "ciga-v2", {"preset": "published"}, "5380f4846ecc4624"),
    ("nci1", "erm", {"preset": "ensemble", "seed": 3}, "4e8c85c8fc1b4596"),
    ("proteins", "wl", {}, "52c433150e9c839b"),
    ("nci1", "eiil", {}, "591923ea10239e63"),
    ("drugood-ec50-assay", "irm", {"preset": "published"}, "00067f2290b3e217"),
    ("graph-sst5", "dir", {}, "58f1f02a659d70ef"),
    ("cmnist-sp", "ciga-v2", {"settings": {"alpha": 2, "beta": "4"}}, "93b910c7a8ca8376"),
]


def name(config: Config) -> str:
    """The hash without what is raised on purpose when a method or a dataset is corrected."""
    return replace(config, identity={}).hash


@pytest.mark.parametrize(("dataset", "method", "more", "expected"), HASHES)
def test_the_hashes_are_what_they_were(
    dataset: str, method: str, more: dict[str, Any], expected: str
) -> None:
    assert name(plan(dataset, method, **more).config) == expected
    assert name(plan(RunSpec(dataset, method, **more)).config) == expected


def test_a_spec_survives_the_wire() -> None:
    spec = RunSpec("nci1", "erm", 3, {"a": 1}, {"lr": 0.1}, "tuned", "iid", ("one.py", "two.py"))
    job = Job(spec, "runs", device="cpu", splits="somewhere")
    assert Job.from_dict(json.loads(json.dumps(job.as_dict()))) == job


def test_another_seed_is_the_same_plan() -> None:
    first = plan("spmotif-struc", "ciga-v2", data=SMALL)
    second = first.with_seed(2)
    assert (second.spec.seed, second.config.seed) == (2, 2)
    assert second.config == plan("spmotif-struc", "ciga-v2", seed=2, data=SMALL).config
    assert second.settings == first.settings
