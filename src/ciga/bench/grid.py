"""From the cells of a table to its runs, with what the user changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ciga import options
from ciga.bench.exhibit import Cell
from ciga.errors import UsageError, unknown
from ciga.runs.records import Config

if TYPE_CHECKING:
    from ciga.runs.plan import Plan

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
    from ciga.training.schedule import Training

    return frozenset(k for kind in (methods[method], Backbone, Training) for k in options.fields_of(kind))


def configs(cell: Cell, variation: Variation, seeds: Sequence[int] = ()) -> list[Config]:
    """The configuration of each seed of a cell (already varied)."""
    return [planned.config for planned in _plans(cell, variation, seeds)]


def plans(cells: Iterable[Cell], variation: Variation, seeds: Sequence[int] = ()) -> list[Plan]:
    """The runs of these cells (already varied), each once, the first seed of every cell before the second."""
    ranked: dict[str, tuple[int, Plan]] = {}
    for cell in cells:
        for place, planned in enumerate(_plans(cell, variation, seeds)):
            ranked.setdefault(planned.hash, (place, planned))
    return [planned for _, planned in sorted(ranked.values(), key=lambda pair: pair[0])]


def _plans(cell: Cell, variation: Variation, seeds: Sequence[int]) -> list[Plan]:
    """A cell's runs, resolved once for all its seeds."""
    from ciga.runs.plan import plan

    first, *others = tuple(seeds) or cell.seeds
    planned = plan(cell.with_seed(first, variation.preset, variation.plugins))
    return [planned, *(planned.with_seed(seed) for seed in others)]
