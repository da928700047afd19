"""A table says which presets its runs have, and how those were searched."""

from __future__ import annotations

from ciga.bench.exhibit import Cell
from ciga.bench.grid import Variation
from ciga.bench.presets import Presets


def cell(method: str, preset: str = "", dataset: str = "nci1") -> Cell:
    return Cell(dataset, method, preset=preset)


def test_the_number_of_trials_is_told() -> None:
    presets = Presets()
    for method in ("erm", "ciga-v2", "dir"):
        presets.add(cell(method, "tuned"), Variation(preset="tuned"))
    presets.add(cell("erm", "published"), Variation(preset="tuned"))
    searched, published = presets.notes("tuned")
    assert searched.startswith("Settings: preset 'tuned' (it changes ")
    assert "balanced=True" in searched
    assert searched.endswith(" Searched: 8 trials each of ciga-v2, erm; not searched: dir.")
    assert published == "Settings of the rows 'published': preset 'published' (what the paper used)."


def test_where_nothing_was_searched_nothing_is_said_of_it() -> None:
    presets = Presets()
    presets.add(cell("dir"), Variation(preset="tuned"))
    (note,) = presets.notes("tuned")
    assert "earched" not in note


def test_a_table_without_records() -> None:
    assert Presets().notes("tuned") == ["Settings: preset 'tuned' (nothing recorded yet)."]
    assert Presets().notes("published") == ["Settings: preset 'published' (what the paper used)."]
