"""docs/api.md names what exists, and names all of what `import ciga` gives."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import ciga

PAGE = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^::: (\S+)\n(?:    options:\n      members: \[([^\]]+)\])?", re.MULTILINE)
BLOCKS = [(m[1], [n.strip() for n in (m[2] or "").split(",") if n.strip()]) for m in BLOCK.finditer(PAGE)]


@pytest.mark.parametrize(("module", "members"), BLOCKS, ids=[b[0] for b in BLOCKS])
def test_what_is_documented_exists(module: str, members: list[str]) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in members if not hasattr(loaded, name)] == []
    assert all(getattr(loaded, name).__module__ == module for name in members if name != "register")


def test_what_ciga_gives_is_documented() -> None:
    known = {name for _, members in BLOCKS for name in members}
    assert sorted(set(ciga.__all__) - known) == []


def test_the_plugin_door_is_documented() -> None:
    import ciga.methods

    for name in re.findall(r"from ciga\.methods import ([^`]+)`", PAGE)[0].split(", "):
        assert hasattr(ciga.methods, name)
