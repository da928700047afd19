"""The index of what there is: current, complete, and read without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ciga.cli import index as module
from ciga.cli.catalog import recorded
from ciga.cli.index import FILE, build, digest, index
from tests.helpers import in_own_process


def test_the_committed_index_is_current() -> None:
    found = json.loads(FILE.read_text(encoding="utf-8"))
    made = build()
    for group, rows in made.items():
        changed = [name for name in rows if rows[name] != found[group].get(name)]
        assert (changed, set(found[group]) - set(rows)) == ([], set()), "run: python tools/index.py"


@pytest.mark.parametrize("words", [["methods"], ["datasets"], ["datasets", "nci1"], ["bench", "--list"]])
def test_lists_need_no_torch(words: list[str], tmp_path: Path) -> None:
    """AUDIT U11: `methods` and `datasets` took four seconds."""
    # As after the first call with these sources: an index that fits them is in the cache folder.
    rows = {k: v for k, v in json.loads(FILE.read_text(encoding="utf-8")).items() if k != "source"}
    (tmp_path / f"index-{digest()}.json").write_text(json.dumps({"source": digest(), **rows}))
    (tmp_path / "torch.py").write_text("raise AssertionError('torch was imported')")
    command, environment = in_own_process(*words, CIGA_CACHE=str(tmp_path), COLUMNS="80")
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    assert "Next:  ciga " in done.stderr


def test_an_edit_makes_another_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stale file is not used: the index is built from the sources, and kept for the next call."""
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "digest", lambda: "0" * 16)
    calls: list[int] = []
    monkeypatch.setattr(module, "build", lambda: calls.append(1) or {"methods": {"new": {}}})
    assert list(index()["methods"]) == ["new"]
    assert list(index()["methods"]) == ["new"]
    assert calls == [1]


def test_a_plugin_is_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text("MARK = 1\n")
    seen: list[Path] = []
    monkeypatch.setattr(module, "build", lambda: {"methods": {}})
    monkeypatch.setattr("ciga.registry.load_plugin", seen.append)
    assert index([file]) == {"methods": {}}
    assert seen == [file]


def test_records_are_counted_without_reading_them(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "runs/abcdef0123456789").mkdir(parents=True)
    (tmp_path / "runs/abcdef0123456789/record.json").write_text("{}")
    (tmp_path / "runs/0000000000000000").mkdir()  # begun, not finished
    (tmp_path / "results").mkdir()
    (tmp_path / "results/a.jsonl").write_text(json.dumps({"hash": "1" * 16, "seed": 1}) + "\n")
    with gzip.open(tmp_path / "results/b.jsonl.gz", "wt") as file:
        file.write(json.dumps({"hash": "2" * 16}) + "\n")
    found = recorded([tmp_path / "runs", tmp_path / "results", tmp_path / "none"])
    assert found == {"abcdef0123", "1" * 10, "2" * 10}


def test_sys_modules_is_clean() -> None:
    code = "import sys, ciga.cli; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
