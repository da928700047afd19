"""The offline check of our dependencies."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.check_pins import problems

FILE = Path(__file__).parents[2] / "pyproject.toml"


def test_our_own_pins_are_sound() -> None:
    assert problems(tomllib.loads(FILE.read_text(encoding="utf-8"))["project"]) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("numpy", "no lower bound"),
        ("numpy>=1.26", "no cap"),
        ("rdkit", "no lower bound"),
        ("dill>=0.3,<1", "may not be a dependency"),
        ("Torch_Scatter>=2,<3", "may not be a dependency"),
        ("torch>=2.5,<3", "raise its lower bound"),
        ("pyarrow>=14", "raise its lower bound"),
    ],
)
def test_a_bad_pin_is_named(line: str, says: str) -> None:
    for project in (
        {"name": "x", "dependencies": [line]},
        {"name": "x", "optional-dependencies": {"a": [line]}},
    ):
        assert any(says in problem for problem in problems(project, installed=False)), line


def test_releases_by_the_calendar_need_no_cap() -> None:
    assert problems({"name": "x", "dependencies": ["rdkit>=2024.3", "x[all]"]}) == []
