"""What a reader of a table must know of the presets behind its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ciga.bench.exhibit import Cell
from ciga.bench.grid import PUBLISHED, Variation, configs
from ciga.errors import counted


@dataclass
class Presets:
    """What each preset changes in the settings that the paper used, and how long it was searched."""

    changes: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # preset -> setting -> values
    trials: dict[str, dict[int, set[str]]] = field(default_factory=dict)  # preset -> trials -> methods

    def add(self, cell: Cell, variation: Variation) -> None:
        """Look at a cell (already varied) that has records."""
        from ciga.runs.settings import trials

        preset = cell.preset or variation.preset
        changes = self.changes.setdefault(preset, {})
        if preset == PUBLISHED:
            return
        number = trials(preset, cell.dataset, cell.method)
        self.trials.setdefault(preset, {}).setdefault(number, set()).add(cell.method)
        mine = configs(cell, variation)[0].settings
        theirs = configs(replace(cell, preset=PUBLISHED), variation)[0].settings
        for key, value in mine.items():
            if theirs[key] != value:
                changes.setdefault(key, set()).add(str(value))

    def notes(self, main: str) -> list[str]:
        """A sentence or two on each preset; on `main`, the table's own, where nothing is recorded yet."""
        if not self.changes and main != PUBLISHED:
            return [f"Settings: preset '{main}' (nothing recorded yet)."]
        notes = []
        for preset, changes in self.changes.items() if self.changes else [(main, {})]:
            which = "Settings" if preset == main else f"Settings of the rows '{preset}'"
            each = [k if len(v) > 1 else f"{k}={next(iter(v))}" for k, v in sorted(changes.items())]
            meaning = "it changes " + ", ".join(each) if each else "here the same as published"
            meaning = "what the paper used" if preset == PUBLISHED else meaning
            searched = _searched(self.trials[preset]) if preset in self.trials else ""
            notes.append(f"{which}: preset '{preset}' ({meaning}).{searched}")
        return notes


def _searched(trials: Mapping[int, set[str]]) -> str:
    """How many trials the settings of each method were chosen from."""
    each = [f"{counted(n, 'trial')} each of {', '.join(sorted(names))}" for n, names in trials.items() if n]
    if not each:
        return ""
    rest = f"; not searched: {', '.join(sorted(trials[0]))}" if 0 in trials else ""
    return f" Searched: {'; '.join(each)}{rest}."
