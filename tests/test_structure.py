"""The source tree keeps the shape that docs/architecture.md describes."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ciga"
MODULES = sorted(SOURCE.rglob("*.py"))
#: A file this long is two things.
LONGEST = 350


def name_of(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def test_few_modules_stand_at_the_root() -> None:
    found = sorted(f.stem for f in SOURCE.glob("*.py") if f.stem != "__init__")
    assert len(found) <= 8, found


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_a_file_is_one_thing(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))), f"{name_of(file)} has no docstring"


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    for file in MODULES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name_of(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_tests_mirror_the_rooms() -> None:
    rooms = {f.name for f in SOURCE.iterdir() if f.is_dir() and (f / "__init__.py").exists()}
    tested = {f.name for f in (ROOT / "tests").iterdir() if (f / "__init__.py").exists()}
    assert rooms <= tested, rooms - tested


def test_networks_are_typed_not_asserted() -> None:
    found = [name_of(f) for f in MODULES if "assert isinstance(network" in f.read_text(encoding="utf-8")]
    assert found == []
