"""The page of results says what the committed records say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results", ROOT / "tools" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_records() -> None:
    results = tool()
    page = results.PAGE.read_text()
    assert results.BLOCK.search(page)
    assert results.filled(page) == page, "run: python tools/results.py"


def test_every_list_of_records_is_shown() -> None:
    page = tool().PAGE.read_text()
    assert [f.name for f in (ROOT / "results").glob("*.jsonl") if f"results/{f.name}" not in page] == []
