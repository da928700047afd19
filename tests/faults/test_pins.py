"""The offline check of our dependencies."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.check_pins import BAD_BELOW, closure, installed_problems, problems

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


def test_what_dependencies_bring_with_them_is_checked_too() -> None:
    found = closure(["scikit-learn>=1", "no-such-package>=1", "torch>=2 ; extra == 'never'"])
    assert {"scikit-learn", "joblib", "scipy", "numpy"} <= found.keys()  # joblib is not among our own
    assert not {"no-such-package", "torch"} & found.keys()
    ours = tomllib.loads(FILE.read_text(encoding="utf-8"))["project"]["dependencies"]
    assert {name for name, *_ in BAD_BELOW} & closure(ours).keys()


def test_an_installed_version_that_is_known_to_be_bad_is_named() -> None:
    (said,) = installed_problems({"joblib": "1.1.0", "urllib3": "2.99", "unheard-of": "0.1"})
    assert said.startswith("joblib 1.1.0 is installed, which is below 1.2.0 (CVE-2022-21797")
