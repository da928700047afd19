"""Other systems: a locale that is not UTF-8, processes that are spawned, encodings that are named."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import in_own_process

ROOT = Path(__file__).parents[1]
#: As on a machine that knows only ASCII.
PLAIN = {
    "LC_ALL": "C",
    "LANG": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "utf-8",
}
SHORT = ["--set", "layers=1", "--set", "width=4", "--epochs", "1", "--seeds", "1"]
SHORT += ["--data", "fractions=0.6,0.2,0.2", "--method", "ciga-v2"]
TEXT_CALLS = re.compile(r"\b(?:read_text|write_text|open)\(")


#: Several commands in one process, as `ciga` would run each: torch is imported once.
ONE_BY_ONE = """
import json, sys
from ciga.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["ciga", *words]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
"""


def run(folder: Path, *commands: list[str]) -> None:
    (python, *_), environment = in_own_process(CIGA_CACHE=str(folder / "Zwischenspeicher-ü"), **PLAIN)
    found = subprocess.run(
        [python, "-c", ONE_BY_ONE, json.dumps(commands)],
        env=environment,
        cwd=folder,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr.decode()


def test_names_beyond_ascii_survive_a_locale_that_is_not_utf_8(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="RDKit is missing: pip install 'ciga[chem]'")
    folder = tmp_path / "Moleküle"
    folder.mkdir()
    cores = ["c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccsc1", "C1CCOC1"]
    rows = [
        (f"{tail}{core}", "größer" if tail[:1] in ("O", "N") else "漢")
        for core in cores
        for tail in ("", "C", "OC", "NC")
    ]
    lines = ["Név,smiles,Größe", *(f"é{i},{smiles},{name}" for i, (smiles, name) in enumerate(rows))]
    (folder / "Tabelle-é.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    file = "Tabelle-é.csv"
    data = [f"--data={pair}" for pair in (f"path={file}", "label=Größe", "fractions=0.6,0.2,0.2")]
    run(
        folder,
        ["fit", file, "--label", "Größe", "--out", "Modell-é", *SHORT],
        ["predict", "Modell-é", file, "--out", "Vorhersage-é.csv"],
        ["explain", "Modell-é", file, "--out", "Erklärung.html"],
        ["export", "Modell-é", "--out", "Ausfuhr-é.pt2"],
        ["data", "check", file, "--label", "Größe"],
        ["run", "csv", "erm", *data, "--epochs=1", "--runs-dir=Läufe", "--report=Bericht-é.html"],
    )
    about = json.loads((folder / "Modell-é" / "model.json").read_text(encoding="utf-8"))
    assert set(about["classes"]) == {"größer", "漢"}
    with (folder / "Vorhersage-é.csv").open(encoding="utf-8", newline="") as predictions:
        found = list(csv.DictReader(predictions))
    assert {row["prediction"] for row in found} <= {"größer", "漢"}
    assert found[0]["Név"] == "é0"
    page = (folder / "Erklärung.html").read_text(encoding="utf-8")
    assert "größer" in page
    assert "漢" in page
    assert (folder / "Ausfuhr-é.pt2").stat().st_size
    assert "größer" in (folder / "Bericht-é.html").read_text(encoding="utf-8")


def test_everything_works_where_processes_are_spawned(tmp_path: Path) -> None:
    """As on Windows and macOS: a child imports anew what it needs, and nothing is inherited."""
    program = """
import multiprocessing, sys
from pathlib import Path

def work(folder):
    from ciga.data import load
    from ciga.estimator import GraphOODClassifier
    from ciga.models.model import Model
    splits = load("spmotif-struc", train_per_class=4, val_per_class=2, test_per_class=2)
    made = GraphOODClassifier("erm", epochs=1, layers=1, width=4).fit(splits.train)
    made.model_.save(Path(folder) / "model")
    return Model.load(Path(folder) / "model").seeds

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    from ciga.parallel import parallel_map
    with multiprocessing.Pool(1) as pool:
        print(pool.map(work, [sys.argv[1]]))
    print(parallel_map(abs, list(range(-200, 0)), lambda *a: None, "x", workers=2, chunk=50)[0])
"""
    script = tmp_path / "program.py"
    script.write_text(program, encoding="utf-8")
    _, environment = in_own_process()
    found = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["[[1]]", "200"]


def test_every_text_file_is_opened_with_its_encoding() -> None:
    """What is not named is the system's choice: UTF-8 here, something else on the user's machine."""
    unnamed = []
    for file in sorted((ROOT / "src" / "ciga").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for found in TEXT_CALLS.finditer(text):
            call = _call(text, found.end())
            before = text[max(0, found.start() - 12) : found.start()]
            method = before.endswith(("def ", "GraphStore.", "cls."))
            binary = re.search(r"""["'][rwax+]*b[rwax+]*["']|os\\.O_""", call)
            packed = (
                before.endswith(("gzip.", "os.", "bz2.", "lzma.", "zip.", "archive.")) and 't"' not in call
            )
            name = found.group()[:-1]
            opens = name == "open" and (not call or binary or packed)
            if not (method or opens or binary or packed or "encoding=" in call):
                line = text.count("\n", 0, found.start()) + 1
                unnamed.append(f"{file.relative_to(ROOT)}:{line}: {found.group()}{call})")
    assert unnamed == []


def _call(text: str, start: int) -> str:
    depth, at = 1, start
    while depth and at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locale")
def test_the_help_is_shown_where_only_ascii_is_known(tmp_path: Path) -> None:
    command, environment = in_own_process("--help", **{**PLAIN, "PYTHONIOENCODING": "ascii"})
    found = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr.decode()
