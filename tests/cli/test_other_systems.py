"""The commands where the system has neither `fcntl` nor `resource`, as Windows has not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ciga

#: Python runs this before anything else, in every process that is started below.
BLOCK = """
import sys
sys.modules["fcntl"] = None
sys.modules["resource"] = None
"""
COMMANDS = """
from ciga.cli import app

def run(*words):
    app(list(words), standalone_mode=False)

small = ["--set=layers=1", "--set=width=4", "--epochs=1"]
tiny = ["--data=train_per_class=6", "--data=val_per_class=3", "--data=test_per_class=3"]
run("run", "spmotif-struc", "erm", *small, *tiny)
run("fit", "mols.csv", "--smiles=smiles", "--label=active", "--split=random", "--method=erm", "--seeds=1",
    "--out=model", *small)
run("predict", "model", "mols.csv", "--out=predictions.csv")
try:
    import fcntl
except ImportError:
    print("without fcntl")
"""


def test_run_fit_and_predict_without_fcntl_and_resource(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="rdkit is not installed (extra: chem)")
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    rows = [f"{'C' * (n % 7 + 1)}{'O' if n % 2 else 'N'},{n % 2}" for n in range(60)]
    (tmp_path / "mols.csv").write_text("smiles,active\n" + "\n".join(rows) + "\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "CIGA_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("without fcntl\n")
    assert "MB; record in" not in done.stdout  # nobody says how much memory was used
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 61


def test_ctrl_c_before_a_command_has_begun_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the command line is still being put together, nobody else catches it."""

    def interrupted(standalone_mode: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ciga.cli.app", interrupted)
    code, _, err = ciga(monkeypatch, capsys, "methods")
    assert code == 130
    assert err.strip() == "ciga: stopped. The same command continues where this one left off."
