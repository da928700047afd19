"""How long a run will take: from past records of the same run, else from a rough model they calibrate."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from statistics import mean
from typing import Any

from ciga.bench.grid import Job

#: Seconds of an ERM epoch: training, scoring. Measured once on one core of a cloud machine, with the full
#: data and the published settings; only their proportions matter once there are records.
EPOCH: dict[str, tuple[float, float]] = {
    "spmotif-*": (1.8, 0.7),
    "failure-*": (0.5, 0.3),
    "nci*": (0.4, 0.03),
    "proteins": (0.12, 0.02),
    "dd": (0.6, 0.5),
    "cmnist-sp": (30.0, 6.0),
    "graph-sst5": (3.0, 0.6),
    "graph-twitter": (2.6, 0.2),
    "drugood-ec50-*": (9.0, 3.0),
    "drugood-ic50-assay": (70.0, 20.0),
    "drugood-ic50-scaffold": (45.0, 20.0),
    "drugood-ic50-size": (75.0, 18.0),
    "*": (5.0, 2.0),
}
#: Training time relative to ERM.
FACTOR: dict[str, float] = {
    "irm": 1.2, "vrex": 1.2, "ib-irm": 1.3, "groupdro": 1.2, "dann": 1.2, "coral": 1.3, "matchdg": 1.5,
    "cnc": 2.3, "eiil": 2.3, "asap": 3.0, "dir": 4.0, "gib": 8.0, "invrat": 3.0, "gsat": 2.5,
    "ciga-v1": 2.5, "ciga-v2": 3.5, "ciga-complement": 3.5,
    "gamma-gin": 6.0, "gamma-rpgin": 8.0, "gamma-1hot": 3.0,
}  # fmt: skip
#: Epochs beyond the warm-up until early stopping ends a run, typically.
BEYOND_WARMUP = 12


class Estimate:
    """Learns from records; answers in seconds on one core."""

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        self.exact: dict[str, list[float]] = defaultdict(list)
        self.ratio: dict[tuple[str, str], list[float]] = defaultdict(list)  # (dataset, method) -> real/model
        self.epochs: dict[tuple[str, int], list[float]] = defaultdict(list)  # (dataset, limit) -> epochs
        self._known: dict[str, float] = {}
        for record in records:
            self.learn(record)

    def learn(self, record: Mapping[str, Any]) -> None:
        """Take one more finished run into account."""
        self._known.clear()
        self.exact[_signature(record)].append(record["seconds"])
        model = _epoch_seconds(record["dataset"], record["method"], record["data"])
        spent = record["seconds"] / max(record["epochs"], 1)
        self.ratio[record["dataset"], record["method"]].append(spent / model)
        members = record["settings"].get("members", 1)
        self.epochs[record["dataset"], record["settings"]["epochs"]].append(record["epochs"] / members)

    def seconds(self, job: Job) -> float:
        """Of one run."""
        if job.hash not in self._known:
            self._known[job.hash] = self._seconds(job)
        return self._known[job.hash]

    def total(self, jobs: Iterable[Job]) -> float:
        """Of all of them, one after the other."""
        return sum(self.seconds(job) for job in jobs)

    def _seconds(self, job: Job) -> float:
        config = job.config
        same = self.exact.get(_signature(vars(config)))
        if same:
            return mean(same)
        limit, warmup = config.settings["epochs"], config.settings["warmup"]
        seen = self.epochs.get((config.dataset, limit))
        epochs = mean(seen) if seen else min(limit, warmup + BEYOND_WARMUP)
        epochs *= config.settings["members"]
        return _epoch_seconds(config.dataset, config.method, config.data) * epochs * self._calibration(config)

    def _calibration(self, config: Any) -> float:
        """Real over modelled time: of this method here, of any method here, of anything; 1 if all is new.

        The lower quartile: other work on the machine can only have slowed a run down.
        """
        for fits in (
            lambda key: key == (config.dataset, config.method),
            lambda key: key[0] == config.dataset,
            lambda key: True,
        ):
            found = [r for key, ratios in self.ratio.items() if fits(key) for r in ratios]
            if found:
                return sorted(found)[len(found) // 4]
        return 1.0


def _signature(run: Mapping[str, Any]) -> str:
    """Equal for runs that differ in the seed alone; from a record or from a configuration."""
    parts = [run["dataset"], run["method"], run["protocol"], dict(run["data"]), dict(run["settings"])]
    return json.dumps(parts, sort_keys=True)


def _epoch_seconds(dataset: str, method: str, data: Mapping[str, Any]) -> float:
    """The model: an ERM epoch of this dataset, as much of it as is used, times what the method costs."""
    train, score = next(cost for pattern, cost in EPOCH.items() if fnmatchcase(dataset, pattern))
    whole = {"train_per_class": 3000, "test_per_class": 1000}
    if dataset.startswith("failure-"):
        whole = {"train_per_class": 600, "test_per_class": 200}
    train *= data.get("train_per_class", whole["train_per_class"]) / whole["train_per_class"]
    score *= data.get("test_per_class", whole["test_per_class"]) / whole["test_per_class"]
    return float(train * FACTOR.get(method, 1.0) + score)


def hours(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
