"""The notebooks in examples/ run from top to bottom in an empty folder."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_five() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = "".join(str(out.get("text", "")) for cell in notebook.cells for out in cell.get("outputs", []))
    assert "Traceback" not in said
    assert "Usage:" not in said


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_what_a_page_of_the_gallery_shows_can_be_read(file: Path) -> None:
    """Colours, frames of progress bars and lines of 700 characters were on the pages."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    assert any(cell.get("outputs") for cell in cells)
    for cell in cells:
        for output in cell.get("outputs", []):
            said = "".join(output.get("text", ""))
            assert "\x1b" not in said
            assert "\r" not in said
            assert max(map(len, said.splitlines()), default=0) <= 100
        if cell["cell_type"] == "code":
            assert max(map(len, "".join(cell["source"]).splitlines())) <= 100


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[1mbold\x1b[0m and\r\nplain\r\n", "bold and\nplain\n"),
        ("half\r\x1b[2Kall\n", "all\n"),
        ("kept\n\x1b[?25lframe 1\r\x1b[2Kframe 2\r\n\x1b[?25h\r\x1b[1A\x1b[2Kresult\n", "kept\nresult\n"),
        ("\x1b[9Aabove the top", "above the top"),
    ],
)
def test_what_a_terminal_erases_is_not_kept(tool: ModuleType, text: str, seen: str) -> None:
    assert tool.plain(text) == seen


def test_what_is_printed(tool: ModuleType) -> None:
    long = "word " * 30
    outputs = [
        {"name": "stderr", "text": ["a warning\n"]},
        {"name": "stdout", "text": ["frame\r", "\x1b[2Ksaid\n", f"{long}\n"]},
        {"data": {"text/plain": "value"}},
    ]
    assert tool.printed(outputs).splitlines() == [
        "said",
        "word " * 19 + "word",
        "word " * 9 + "word",
        "value",
    ]


def test_two_notebooks_draw_what_was_kept(tool: ModuleType) -> None:
    for name in ("1-first-steps", "2-your-own-molecules"):
        text = (ROOT / "examples" / f"{name}.ipynb").read_text(encoding="utf-8")
        drawn = [svg for cell in json.loads(text)["cells"] for svg in tool.pictures(cell.get("outputs", []))]
        assert len(drawn) == 1
        assert drawn[0].count("stroke=") > 5
        assert "class=" not in drawn[0], "what has no style sheet needs no class"
