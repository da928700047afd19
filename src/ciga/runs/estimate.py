"""How long a run will take: from past records of the same run, else from a rough model they calibrate."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from statistics import mean
from typing import Any

from ciga.runs.records import Config

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
#: Runs on less than this share of a dataset tell nothing about the whole: their epochs are mostly overhead.
ENOUGH = 0.25


class Estimate:
    """Learns from records; answers in seconds on one core."""

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        self.exact: dict[str, list[float]] = defaultdict(list)
        # Only from runs of a known dataset at its full size, or nearly: a toy run has other proportions.
        self.ratio: dict[tuple[str, str], list[float]] = defaultdict(list)  # (dataset, method) -> real/model
        self.epochs: dict[tuple[str, int], list[float]] = defaultdict(list)  # (dataset, limit) -> epochs
        self._known: dict[str, float] = {}
        for record in records:
            self.learn(record)

    def learn(self, record: Mapping[str, Any]) -> None:
        """Take one more finished run into account."""
        self._known.clear()
        self.exact[_signature(record)].append(record["seconds"])
        if not _is_full_size(record["dataset"], record["data"]):
            return
        model = _epoch_seconds(record["dataset"], record["method"], record["data"])
        spent = record["seconds"] / max(record["epochs"], 1)
        self.ratio[record["dataset"], record["method"]].append(spent / model)
        members = record["settings"].get("members", 1)
        self.epochs[record["dataset"], record["settings"]["epochs"]].append(record["epochs"] / members)

    def seconds(self, config: Config) -> float:
        """Of one run."""
        if config.hash not in self._known:
            self._known[config.hash] = self._seconds(config)
        return self._known[config.hash]

    def total(self, configs: Iterable[Config]) -> float:
        """Of all of them, one after the other."""
        return sum(self.seconds(config) for config in configs)

    def _seconds(self, config: Config) -> float:
        same = self.exact.get(_signature(vars(config)))
        if same:
            return mean(same)
        limit, warmup = config.settings["epochs"], config.settings["warmup"]
        seen = self.epochs.get((config.dataset, limit))
        epochs = mean(seen) if seen else min(limit, warmup + BEYOND_WARMUP)
        epochs *= config.settings["members"]
        return _epoch_seconds(config.dataset, config.method, config.data) * epochs * self._calibration(config)

    def _calibration(self, config: Config) -> float:
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
    train *= _share(dataset, data, "train_per_class")
    score *= _share(dataset, data, "test_per_class")
    return float(train * FACTOR.get(method, 1.0) + score)


def _share(dataset: str, data: Mapping[str, Any], option: str) -> float:
    """How much of the whole dataset an option leaves."""
    train, test = (600, 200) if dataset.startswith("failure-") else (3000, 1000)
    whole = train if option == "train_per_class" else test
    return float(data.get(option, whole)) / whole


def _is_full_size(dataset: str, data: Mapping[str, Any]) -> bool:
    """Is this a dataset the model knows, and most of it? (Files of one's own have any size.)"""
    known = any(fnmatchcase(dataset, pattern) for pattern in EPOCH if pattern != "*")
    return known and _share(dataset, data, "train_per_class") >= ENOUGH


def hours(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
