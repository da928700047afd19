"""The quick slices: parts of the real tables, within half an hour."""

from __future__ import annotations

import pytest

from ciga.bench import paper
from ciga.bench.grid import Variation, plans
from ciga.bench.slices import quick
from ciga.errors import UsageError
from ciga.runs.estimate import Estimate

NAMES = ["table-spmotif", "table-real", "table-size", "table-runtime", "table-single-env"]
NAMES += ["figure-failure", "figure-alpha", "figure-beta", "figure-subgraphs"]


@pytest.mark.parametrize("name", NAMES)
def test_a_slice_is_a_part_and_takes_half_an_hour_on_two_cores(name: str) -> None:
    shown = paper.exhibit(name)
    part = quick(shown)
    assert part.cells
    whole = [str(cell) for cell in shown.cells()]
    assert all(str(cell) in whole for cell in part.cells)
    variation = Variation(settings=part.settings)
    todo = plans(variation.apply(part.cells), variation, part.seeds)
    assert Estimate().total(p.config for p in todo) / 2 <= 30 * 60
    assert part.seeds == ([1, 2, 3] if name != "figure-subgraphs" else [])
    assert part.cells[0].method in part.words


@pytest.mark.parametrize("name", ["table-datasets", "figure-ranks"])
def test_some_have_none(name: str) -> None:
    with pytest.raises(UsageError, match="no quick slice"):
        quick(paper.exhibit(name))


def test_numbers_are_the_papers() -> None:
    found = {n: paper.exhibit(str(n)).name for n in (1, 2, 3, 4, 6, 8)}
    assert found == {
        1: "table-spmotif",
        2: "table-real",
        3: "table-size",
        4: "table-datasets",
        6: "table-runtime",
        8: "table-single-env",
    }
    assert paper.exhibit("4", "figure").name == "figure-alpha"
    assert paper.exhibit("11", "figure").name == "figure-failure"
    with pytest.raises(UsageError, match="No command makes the paper's figure 1"):
        paper.exhibit("1", "figure")
