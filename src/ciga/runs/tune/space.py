"""What a search goes over: a method's grid, ranges between its ends, the paper's grid, or named settings."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from ciga import options
from ciga.errors import UsageError, unknown
from ciga.methods.base import methods
from ciga.nn.encoder import Backbone
from ciga.runs.plan import Plan, plan
from ciga.runs.settings import default_preset
from ciga.runs.spec import RunSpec
from ciga.training.schedule import Training

SPACES = ("grid", "ranges", "paper")
#: In `Search.over`, stands for all settings that the method declares a grid for.
OWN_GRID = "grid"

_ALPHA, _BETA, _PENALTY = (0.5, 1, 2, 4, 8, 16, 32), (0.5, 1, 2, 4), (0.01, 0.1, 1, 10, 100)
#: What the paper searched (dataset pattern, method pattern, grid); later entries win. The rest is fixed.
PAPER: list[tuple[str, str, dict[str, tuple[float, ...]]]] = [
    ("*", "ciga-*", {"alpha": _ALPHA}),
    ("*", "ciga-v2", {"beta": _BETA}),
    ("cmnist-sp", "ciga-v2", {"beta": (*_BETA, 16, 32)}),
    ("graph-*", "ciga-*", {"alpha": (0.5, 1, 2, 4)}),
    ("*", "cnc", {"alpha": _ALPHA}),
    ("*", "irm", {"penalty": _PENALTY}),
    ("*", "vrex", {"penalty": _PENALTY}),
    ("*", "ib-irm", {"penalty": _PENALTY}),
    ("*", "eiil", {"penalty": _PENALTY}),
    ("*", "dir", {"penalty": (0.01, 0.1, 1, 10)}),
]


@dataclass(frozen=True)
class Search:
    """What is searched, and under which conditions.

    Args:
        dataset: its name. Several, with commas, are searched as one: one choice serves them all, judged by
            the mean of their scores. Validation sets are often too small to choose anything on one of them.
        method: its name.
        space: `grid`, `ranges` (between the grid's ends), or `paper` (what the paper searched).
        over: settings to search instead, with their values or None for the declared grid; the name `grid`
            stands for the method's own grid.
        data: options of the dataset.
        settings: fixed settings.
        preset: where the other settings start; empty for the default of the dataset.
        seeds: of the runs of each trial.
        plugins: Python files that register what is named here.
        same_rule: judge by the rule that every method has, not by the one this method selects epochs with:
            for searches whose results are to be compared.
    """

    dataset: str
    method: str
    space: str = "grid"
    over: Mapping[str, Sequence[Any] | None] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = ""
    seeds: tuple[int, ...] = (1,)
    plugins: tuple[str, ...] = ()
    same_rule: bool = False

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.dataset.split(","))

    @property
    def start(self) -> str:
        """The preset that settings start from."""
        return self.preset or default_preset(self.datasets[0])

    def name(self) -> str:
        """The study's name: another space, data or fixed setting is another study."""
        parts = [self.space, dict(self.over), dict(self.data), dict(self.settings), self.start, self.seeds]
        parts += ["same rule"] if self.same_rule else []
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=list).encode()).hexdigest()[:8]
        return f"{self.dataset} {self.method} {digest}"

    def plan(self, dataset: str, seed: int, chosen: Mapping[str, Any]) -> Plan:
        """A run of a trial: these settings on one dataset with one seed."""
        settings = {**self.settings, **chosen}
        return plan(
            RunSpec(dataset, self.method, seed, self.data, settings, self.start, plugins=self.plugins)
        )

    def values(self) -> dict[str, tuple[Any, ...]]:
        """Setting -> the values to choose from, each checked."""
        if self.space not in SPACES:
            raise unknown("search space", self.space, SPACES)
        known = setting_kinds(self.method)
        grids = {k: options.fields_of(kind)[k].metadata.get("grid", ()) for k, kind in known.items()}
        for name in self.over:
            if name != OWN_GRID and name not in grids:
                raise unknown(f"setting of {self.method}", name, grids)
        found = {} if self.over and OWN_GRID not in self.over else self._declared(grids)
        for name, given in self.over.items():
            if name != OWN_GRID:
                values = tuple(grids[name] if given is None else given)
                if not values or "" in values:
                    raise UsageError(f"{name} has no values to try: say --over {name}=value,value.")
                found[name] = tuple(options.convert(known[name], name, value) for value in values)
        if not found:
            raise UsageError(
                f"{self.method} has nothing to search: name settings with --over, such as --over lr."
            )
        return found

    def _declared(self, grids: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
        """The method's own grid, or the paper's, without what is fixed."""
        if self.space == "paper":
            every = [papers_grid(name, self.method) for name in self.datasets]
            if any(grid != every[0] for grid in every):
                raise UsageError("The paper did not search the same values on these: tune them one by one.")
            found = every[0]
        else:
            own = options.fields_of(methods[self.method])
            found = {k: tuple(grids[k]) for k in own if grids[k]}
        return {k: v for k, v in found.items() if k not in self.settings}

    def size(self) -> int | None:
        """How many choices there are; None for ranges."""
        if self.space == "ranges":
            return None
        return math.prod(len(set(values)) for values in self.values().values())

    def suggest(self, trial: Any) -> dict[str, Any]:
        """The settings of one trial; with `ranges`, numbers are drawn between the ends of their grid."""
        out: dict[str, Any] = {}
        for name, values in self.values().items():
            numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
            if self.space != "ranges" or len(numbers) < len(values) or len(set(numbers)) < 2:
                out[name] = trial.suggest_categorical(name, list(dict.fromkeys(values)))
            elif all(isinstance(v, int) for v in numbers) and _integral(self.method, name):
                out[name] = trial.suggest_int(name, min(numbers), max(numbers))
            else:
                wide = min(numbers) > 0 and max(numbers) / min(numbers) >= 10
                out[name] = trial.suggest_float(name, min(numbers), max(numbers), log=wide)
        return out


def searches(common: Search, names: Sequence[str]) -> list[Search]:
    """The same search for several methods, all judged by one rule.

    Each method searches those of `over` that it has, and is given those of the fixed settings that it has.
    """
    for name in [*common.over, *common.settings]:
        known = {k for method in names for k in setting_kinds(method)}
        if name != OWN_GRID and name not in known:
            raise unknown("setting of these methods", name, known)
    out = []
    for method in dict.fromkeys(names):
        kinds = setting_kinds(method)
        over = {k: v for k, v in common.over.items() if k == OWN_GRID or k in kinds}
        if common.over and not over:
            raise UsageError(f"{method} has none of the settings to search: leave it out, or search others.")
        fixed = {k: options.convert(kinds[k], k, v) for k, v in common.settings.items() if k in kinds}
        out.append(replace(common, method=method, over=over, settings=fixed, same_rule=True))
    return out


def setting_kinds(method: str) -> dict[str, type]:
    """Every setting of a method, its network and its schedule -> the option group it belongs to."""
    return {k: kind for kind in (methods[method], Backbone, Training) for k in options.fields_of(kind)}


def papers_grid(dataset: str, method: str) -> dict[str, tuple[Any, ...]]:
    """What the paper searched for this method on this dataset."""
    found: dict[str, tuple[Any, ...]] = {}
    for datasets, names, grid in PAPER:
        if fnmatchcase(dataset, datasets) and fnmatchcase(method, names):
            found |= grid
    return found


def _integral(method: str, name: str) -> bool:
    """Is this setting a whole number? (A float may have a grid of whole numbers.)"""
    try:
        options.convert(setting_kinds(method)[name], name, 1.5)
    except UsageError:
        return True
    return False
