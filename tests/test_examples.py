"""The notebooks in examples/ run from top to bottom in an empty folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


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
