"""Names of runs, what is found under them, and who may write."""

from __future__ import annotations

import gzip
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ciga.errors import CigaError
from ciga.runs.records import Busy, Config, Runs, peak_memory_mb, versions

BASE: dict[str, Any] = {
    "dataset": "spmotif-struc",
    "method": "erm",
    "seed": 1,
    "data": {"bias": 0.9, "motifs": ("cycle", "house")},
    "settings": {"lr": 0.001, "width": 32},
    "identity": {"plugin:a.py": "00ff"},
    "changed": {"data.bias": 0.9, "width": 32},
}


def config(**changes: Any) -> Config:
    return Config(**{**BASE, **changes})


def record_of(made: Config, **changes: Any) -> dict[str, Any]:
    record = {
        "hash": made.hash,
        "dataset": made.dataset,
        "method": made.method,
        "seed": made.seed,
        "protocol": made.protocol,
        "data": dict(made.data),
        "settings": dict(made.settings),
        "metric": "accuracy",
        "selection": "last",
        "selected": {},
        "epochs": 3,
        "seconds": 1.5,
    }
    return {**record, **changes}


# ---------------------------------------------------------------- names


def test_the_hash_is_what_it_was() -> None:
    """A changed hash orphans every record ever made: raise records.FORMAT if that is meant."""
    assert config().hash == "1d94b43427b48bff"


def test_the_hash_does_not_depend_on_order() -> None:
    turned = {k: dict(reversed(v.items())) if isinstance(v, dict) else v for k, v in BASE.items()}
    assert Config(**turned).hash == config().hash


def test_what_decides_the_outcome_decides_the_hash() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"dataset": "spmotif-mixed"},
        {"method": "irm"},
        {"seed": 2},
        {"protocol": "iid"},
        {"identity": {"plugin:a.py": "00fe"}},
        {"changed": {"data.bias": 0.9}},
        {"changed": {"data.bias": 0.8, "width": 32}},
    ]
    assert len({config(**c).hash for c in changes}) == len(changes)


def test_a_new_option_with_its_default_changes_no_hash() -> None:
    assert config(settings={**BASE["settings"], "brand_new": 0}).hash == config().hash


# ---------------------------------------------------------------- finding


def test_a_record_is_found_again(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    assert runs.find(config()) is None
    runs.write(config(), record_of(config(), note="ours"))
    found = runs.find(config())
    assert found is not None
    assert found["note"] == "ours"
    assert runs.find(config(seed=2)) is None
    assert [r["note"] for r in runs] == ["ours"]


def test_a_changed_default_is_noticed(tmp_path: Path) -> None:
    """The old record has the same hash, but was made with another value."""
    runs = Runs(tmp_path)
    runs.write(config(), record_of(config()))
    for group, key, value in (("settings", "lr", 0.01), ("data", "bias", 0.5)):
        with pytest.raises(CigaError, match=rf"when {key} was .* by default, now it is {value}"):
            runs.find(config(**{group: {**BASE[group], key: value}}))
    assert runs.find(config(settings={**BASE["settings"], "brand_new": 0})) is not None


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"data": {}}', "null"])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    runs = Runs(tmp_path)
    file = runs.folder(config()) / "record.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(CigaError, match=r"record\.json is damaged: delete it to run again"):
        runs.find(config())
    with pytest.raises(CigaError, match="is damaged"):
        list(runs)


@pytest.mark.parametrize(
    "selected",
    [
        {"last": {"epoch": 1, "ood_test": {}}},
        {"last": {"epoch": 1, "ood_test": {"accuracy": [0.5]}}},
        {"last": {"epoch": 1, "ood_test": {"accuracy": 0.5}}, "oracle": {"epoch": 1}},
        {"last": {"epoch": 1, "ood_test": {"accuracy": 0.5, "edge_auroc": "high"}}},
    ],
)
def test_a_record_without_its_scores_is_damaged(tmp_path: Path, selected: dict[str, Any]) -> None:
    runs = Runs(tmp_path)
    runs.write(config(), record_of(config(), selected=selected))
    with pytest.raises(CigaError, match=r"record\.json is damaged: delete it to run again"):
        runs.find(config())


def test_records_come_from_folders_and_from_lines(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    for seed in (1, 2):
        made = config(seed=seed)
        runs.write(made, record_of(made, seed=seed))
    seventh, eighth, ninth = (json.dumps(record_of(config(seed=s))) for s in (7, 8, 9))
    lines = tmp_path / "table.jsonl"
    lines.write_text(f"{seventh}\n\n{eighth}\n")
    (tmp_path / "more.jsonl.gz").write_bytes(gzip.compress(f"{ninth}\n".encode()))
    assert sorted(r["seed"] for r in runs) == [1, 2, 7, 8, 9]
    assert [r["seed"] for r in runs] == [r["seed"] for r in Runs(tmp_path)]
    for seed in (7, 9):  # none of them has a history: lists that are passed on leave it out
        found = runs.find(config(seed=seed))
        assert found is not None
        assert "history" not in found


@pytest.mark.parametrize(
    "line",
    [
        '{"seed"',
        "[]",
        "7",
        json.dumps(record_of(config(), seed="one")),
        json.dumps(record_of(config(), settings=[])),
        json.dumps(record_of(config(), selected={"last": 0.9})),
        json.dumps({k: v for k, v in record_of(config()).items() if k != "metric"}),
        "[" * 100_000,
        '{"seed": "\x00',
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    good = json.dumps(record_of(config()))
    (tmp_path / "table.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(CigaError, match=r"table\.jsonl is damaged in line 2"):
        list(Runs(tmp_path))


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    packed = gzip.compress((json.dumps(record_of(config())) + "\n").encode())
    file = tmp_path / "table.jsonl.gz"
    for damaged in (packed[:-12], b"plain text\n", packed[:14] + bytes([packed[14] ^ 255]) + packed[15:]):
        file.write_bytes(damaged)
        with pytest.raises(CigaError, match=r"table\.jsonl\.gz is damaged"):
            list(Runs(tmp_path))


# ---------------------------------------------------------------- writing


def test_one_at_a_time(tmp_path: Path) -> None:
    """(That a killed process gives its lock back is shown with a killed process, in test_run.py.)"""
    runs = Runs(tmp_path)
    with runs.lock(config()) as folder:
        assert folder == tmp_path / config().hash
        with (
            pytest.raises(
                Busy, match=f"This run is already in progress in .*process {os.getpid()} on {platform.node()}"
            ),
            Runs(tmp_path).lock(config()),
        ):
            pass
        with runs.lock(config(seed=2)):
            pass
    with runs.lock(config()):
        pass


def test_what_a_killed_process_left_beside_its_record_is_removed(tmp_path: Path) -> None:
    """Killed after it wrote the record, and before it removed its checkpoints."""
    runs, folder = Runs(tmp_path), tmp_path / config().hash
    runs.write(config(), record_of(config()))
    (folder / "member-1").mkdir()
    left = [folder / "checkpoint.safetensors", folder / "member-1" / "checkpoint.safetensors"]
    for file in left:
        file.write_text("")
    with runs.lock(config()):  # somebody is still at it
        assert runs.find(config()) is not None
        assert all(file.is_file() for file in left)
    (folder / "owner").write_text("process 1 on here")
    assert runs.find(config()) is not None
    assert {p.name for p in folder.iterdir()} - {"lock"} == {"record.json"}


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    runs.write(config(), record_of(config()))
    with pytest.raises(TypeError):
        runs.write(config(), {"cannot be": object()})
    assert runs.find(config()) == json.loads(json.dumps(record_of(config())))
    assert [p.name for p in runs.folder(config()).iterdir()] == ["record.json"]


def test_the_machine() -> None:
    assert {"python", "instructions", "ciga", "torch", "torch_geometric", "numpy"} <= set(versions())
    assert 10 < peak_memory_mb() < 1e6


def test_the_vector_instructions_of_a_run_are_those_that_torch_was_told_to_use() -> None:
    code = "from ciga.runs.records import versions; print(versions()['instructions'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"ATEN_CPU_CAPABILITY": "default"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "DEFAULT"
