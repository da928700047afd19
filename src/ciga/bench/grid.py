"""From cells to runs: what the user changes, what is recorded, what is missing, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ciga import options
from ciga.bench.paper import Cell
from ciga.errors import CigaError, UsageError, unknown
from ciga.runs.records import Config, Runs

#: The preset of the paper's own settings: what the tables start from, and are compared with.
PUBLISHED = "published"


@dataclass(frozen=True)
class Variation:
    """How the user's runs differ from the paper's: applies to every cell it fits."""

    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = PUBLISHED
    plugins: tuple[str, ...] = ()

    def __str__(self) -> str:
        given = [f"{k}={v}" for k, v in {**self.data, **self.settings}.items()]
        given += [f"preset {self.preset}"] if self.preset != PUBLISHED else []
        return ", ".join(given)

    def apply(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells as varied: each option goes to the datasets and methods that have it.

        What a row is defined by stays as it is, and so does what the columns differ in.
        """
        self.check(cells)
        return [self.fit(cell) for cell in cells]

    def fit(self, cell: Cell) -> Cell:
        """One cell as varied, by those options that it has."""
        data = {k: v for k, v in self.data.items() if k in _data_options(cell.dataset)}
        own = {k: v for k, v in self.settings.items() if k in _setting_names(cell.method)}
        return replace(cell, data={**cell.data, **data}, settings={**own, **cell.settings})

    def narrowed(self, cells: Sequence[Cell]) -> Variation:
        """What of it concerns these cells: for one of several tables that were checked together."""
        data = {k for c in cells for k in _data_options(c.dataset)}
        settings = {k for c in cells for k in _setting_names(c.method)}
        return replace(
            self,
            data={k: v for k, v in self.data.items() if k in data},
            settings={k: v for k, v in self.settings.items() if k in settings},
        )

    def check(self, cells: Sequence[Cell]) -> None:
        """Refuse options that none of these cells has, or that would make columns equal."""
        data = {k for c in cells for k in _data_options(c.dataset)}
        settings = {k for c in cells for k in _setting_names(c.method)}
        for key in self.data:
            if key not in data:
                raise unknown("option of these datasets", key, data)
            for dataset in {c.dataset for c in cells}:
                values = {str(c.data.get(key)) for c in cells if c.dataset == dataset and c.protocol == "ood"}
                if len(values) > 1:
                    raise UsageError(f"{key} is what the cells of {dataset} differ in: it cannot be set.")
        for key in self.settings:
            if key not in settings:
                raise unknown("setting of these methods", key, settings)


@cache
def _data_options(dataset: str) -> frozenset[str]:
    from ciga.data.dataset import datasets

    return frozenset(options.fields_of(datasets[dataset]))


@cache
def _setting_names(method: str) -> frozenset[str]:
    from ciga.methods.base import methods
    from ciga.nn.encoder import Backbone
    from ciga.training.loop import Training

    return frozenset(k for kind in (methods[method], Backbone, Training) for k in options.fields_of(kind))


@dataclass(frozen=True)
class Job:
    """One run to be done; `spec` says it in JSON, for a process or machine elsewhere."""

    cell: Cell
    seed: int
    config: Config
    spec: Mapping[str, Any]

    @property
    def hash(self) -> str:
        return self.config.hash

    def __str__(self) -> str:
        return f"{self.cell}, seed {self.seed}"


def configs(cell: Cell, variation: Variation, seeds: Sequence[int] = ()) -> list[Config]:
    """The configuration of each seed of a cell (already varied)."""
    from ciga.runs.plan import plan

    given = tuple(seeds) or cell.seeds
    first = plan(
        cell.dataset,
        cell.method,
        seed=given[0],
        data=cell.data,
        settings=cell.settings,
        preset=cell.preset or variation.preset,
        protocol=cell.protocol,
        plugins=variation.plugins,
    ).config
    return [replace(first, seed=seed) for seed in given]


def jobs(cells: Iterable[Cell], variation: Variation, seeds: Sequence[int] = ()) -> list[Job]:
    """The runs of these cells (already varied), each once, the first seed of every cell before the second."""
    found: dict[str, Job] = {}
    ranked: list[tuple[int, Job]] = []
    for cell in cells:
        for place, config in enumerate(configs(cell, variation, seeds)):
            if config.hash not in found:
                spec = {
                    "dataset": cell.dataset,
                    "method": cell.method,
                    "seed": config.seed,
                    "data": dict(cell.data),
                    "settings": dict(cell.settings),
                    "preset": cell.preset or variation.preset,
                    "protocol": cell.protocol,
                    "plugins": list(variation.plugins),
                }
                found[config.hash] = Job(cell, config.seed, config, spec)
                ranked.append((place, found[config.hash]))
    return [job for _, job in sorted(ranked, key=lambda pair: pair[0])]


class Records:
    """Finished runs from several folders: the first is written to, the others are only read."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self.runs = [Runs(folder) for folder in folders]
        self.stale: list[str] = []  # why a record was not taken

    def find(self, config: Config) -> dict[str, Any] | None:
        """The record of this configuration; one made under other defaults does not count."""
        for runs in self.runs:
            try:
                record = runs.find(config)
            except CigaError as error:
                self.stale.append(str(error))
                continue
            if record is not None:
                return record
        return None

    def failure(self, config: Config) -> dict[str, Any] | None:
        """Why this run failed when it was last tried."""
        return self.runs[0].failure(config)

    def __iter__(self) -> Any:
        seen: set[str] = set()
        for runs in self.runs:
            for record in runs:
                if record["hash"] not in seen:
                    seen.add(record["hash"])
                    yield record
