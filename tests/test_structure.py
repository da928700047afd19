"""The source tree keeps the shape that docs/architecture.md describes."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from ciga.cli import app
from tools import rooms

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


def commands(app: typer.Typer) -> Iterator[str]:
    """The functions behind the commands: the help of each option says what it is."""
    yield from (c.callback.__name__ for c in app.registered_commands if c.callback is not None)
    for group in app.registered_groups:
        if group.callback is not None and callable(group.callback):
            yield group.callback.__name__
        if group.typer_instance is not None:
            callback = group.typer_instance.registered_callback
            if callback is not None and callback.callback is not None:
                yield callback.callback.__name__
            yield from commands(group.typer_instance)


def public_functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods with public names; of a method without a docstring, the base class has it."""
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
    for place, body in [("", tree.body), *((f"{c.name}.", c.body) for c in classes)]:
        for node in body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            overload = any(ast.unparse(d) == "overload" for d in node.decorator_list)
            if not overload and (not place or ast.get_docstring(node)):
                yield place + node.name, node


def test_functions_with_many_arguments_explain_them() -> None:
    screens = set(commands(app))
    found = []
    for file in MODULES:
        for name, node in public_functions(ast.parse(file.read_text(encoding="utf-8"))):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            given = [a.arg for a in every if a.arg not in ("self", "cls")]
            if len(given) < 4 or (file.parent.name == "cli" and name in screens):
                continue
            text = (ast.get_docstring(node) or "").partition("Args:")[2]
            missing = [a for a in given if not re.search(rf"\b{a}\b.*:", text)]
            if missing:
                found.append(f"{name_of(file)}: {name} does not explain {', '.join(missing)}")
    assert found == []


def test_networks_are_typed_not_asserted() -> None:
    found = [name_of(f) for f in MODULES if "assert isinstance(network" in f.read_text(encoding="utf-8")]
    assert found == []


def test_the_graph_of_rooms_is_printed_and_has_no_cycle(capsys: pytest.CaptureFixture[str]) -> None:
    assert rooms.main() == 0
    said = capsys.readouterr().out
    assert "no cycle" in said
    assert "models" in said


def test_two_rooms_that_need_each_other_are_a_cycle(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "rooms", lambda: {"up": {"down"}, "down": {"floor", "up"}, "floor": set()})
    assert rooms.main() == 1
    said = capsys.readouterr().out
    assert said in ("cycle: up -> down -> up\n", "cycle: down -> up -> down\n")
