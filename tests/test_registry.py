"""Members found in the package, behind entry points and in plugin files; names nobody knows."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ciga import registry
from ciga.data.dataset import datasets
from ciga.errors import CigaError, MissingExtra, UsageError
from ciga.methods.base import Method, methods
from ciga.registry import Registry, load_plugin

Plugin = Callable[..., Path]

METHOD = """
from dataclasses import dataclass
from ciga.methods.erm import ERM
from ciga.methods.base import register

@register("{name}")
@dataclass
class Mine(ERM):
    "ERM by another name."
    summary = "a test's"
"""


def test_every_member_of_the_package_is_there() -> None:
    assert {"erm", "ciga-v1", "ciga-v2"} <= set(methods)
    assert {"spmotif-struc", "spmotif-mixed"} <= set(datasets)
    assert list(methods) == sorted(methods)
    for name in methods:
        assert methods[name].name == name
    assert "erm" in methods
    assert "no such" not in methods


@pytest.mark.parametrize(
    ("found", "name", "nearest"),
    [(methods, "cigav2", "ciga-v2"), (methods, "emr", "erm"), (datasets, "spmotif-struct", "spmotif-struc")],
)
def test_an_unknown_name_gets_the_nearest_one(found: Registry[Any], name: str, nearest: str) -> None:
    with pytest.raises(
        UsageError, match=rf"There is no {found.kind} called '{name}'\. Did you mean .*{nearest}"
    ):
        found[name]


def test_a_name_like_no_other_gets_the_list() -> None:
    with pytest.raises(UsageError, match=r"Known: .*ciga-v2, .*erm"):
        methods["zzzzzzzz"]


# ---------------------------------------------------------------- plugin files


def test_a_plugin_registers_a_method(plugin: Plugin) -> None:
    file = plugin(METHOD.format(name="by-plugin"))
    digest = load_plugin(file)
    assert methods["by-plugin"].summary == "a test's"
    assert load_plugin(file) == digest  # a second time is no second registration


def test_an_edited_plugin_has_another_hash(plugin: Plugin) -> None:
    one, two = plugin("A = 1", "a.py"), plugin("A = 2", "b.py")
    assert load_plugin(one) != load_plugin(two)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_package_at_all", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        (METHOD.format(name="erm"), "Two methods are called 'erm'"),
    ],
)
def test_a_broken_plugin_gets_one_sentence_every_time(plugin: Plugin, text: str, says: str) -> None:
    file = plugin(text)
    for _ in range(2):
        with pytest.raises(UsageError, match=says) as error:
            load_plugin(file)
        assert "Traceback" not in str(error.value)


def test_a_plugin_that_is_not_there_or_not_python(plugin: Plugin, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no plugin file"):
        load_plugin(tmp_path / "nothing.py")
    with pytest.raises(UsageError, match="is not a Python file"):
        load_plugin(plugin("a: 1", "plugin.yaml"))


# ---------------------------------------------------------------- entry points


def installed(monkeypatch: pytest.MonkeyPatch, value: str) -> Registry[Method]:
    """A registry of methods as it would be with a package that has this entry point."""
    point = importlib.metadata.EntryPoint("theirs", value, "test.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "test.methods" else [])
    return Registry("method", "ciga.methods", "test.methods")


def test_an_installed_package_registers_a_method(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plugin: Plugin
) -> None:
    plugin(METHOD.format(name="by-entry-point"), "their_package_of_methods.py")
    monkeypatch.syspath_prepend(tmp_path)
    installed(monkeypatch, "their_package_of_methods:Mine")._discover()
    assert methods["by-entry-point"].summary == "a test's"


def test_a_broken_installed_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"method 'theirs' \(no_such_package:X\) failed on import"):
        list(installed(monkeypatch, "no_such_package:X"))


# ---------------------------------------------------------------- errors


def test_a_missing_extra_says_what_to_install_also_from_another_process() -> None:
    import pickle

    error = MissingExtra("rdkit", "chem")
    assert str(error) == "This needs rdkit: install it with  pip install 'ciga[chem]'."
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, CigaError)
    assert str(again) == str(error)
