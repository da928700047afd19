"""The page of commands says what `--help` says: types, defaults, what is required, examples."""

from __future__ import annotations

import re

from ciga.cli.help import EXAMPLES
from tools.commands import page


def section(name: str) -> str:
    return re.split(r"\n##", page().partition(f"### ciga {name}\n")[2])[0]


def test_an_option_with_its_type_and_default() -> None:
    fit = section("fit")
    assert "| `FILE|DATASET` | A table, graphs, or a dataset. |" in fit  # the bar is not a cell's end
    assert "| `--out PATH` | The folder of the model. Required. |" in fit
    assert "| `--seeds N` | Runs of each method, averaged. Default: `3`. |" in fit
    assert "| `--json` | Print JSON" in fit
    assert "--help" not in fit


def test_every_example_is_there() -> None:
    for name in EXAMPLES.keys() - {"ciga"}:
        assert all(example in section(name) for example in EXAMPLES[name]), name
