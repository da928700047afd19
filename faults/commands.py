"""The commands under attack, small enough to run often, and how their results are compared."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.attempt import ciga, fresh

SMALL = ["--data", "train_per_class=4", "--data", "val_per_class=2", "--data", "test_per_class=2"]
SHORT = ["--set", "layers=1", "--set", "width=8", "--set", "batch_size=9", "--epochs", "2"]
TABLE = ["--label", "active", "--method", "ciga-v2", "--data", "fractions=0.6,0.2,0.2", *SHORT, "--seeds=1"]


@dataclass(frozen=True)
class Command:
    """What is typed, and which of its files make up the result."""

    name: str
    words: tuple[str, ...]
    results: tuple[str, ...]  # files and folders below the working folder
    slow: bool = False  # starts other processes


COMMANDS = [
    Command("run", ("run", "spmotif-struc", "ciga-v2", *SMALL, *SHORT, "--report", "run.html"), ("runs",)),
    Command(
        "data prepare",
        ("data", "prepare", "csv", "--data", "path=mols.csv", "--data", "label=active"),
        ("cache",),
    ),
    Command("fit", ("fit", "mols.csv", *TABLE, "--out", "model"), ("model", "runs")),
    Command(
        "fit anew", ("fit", "mols.csv", *TABLE, "--out", "new", "--runs-dir", "others"), ("new", "others")
    ),
    Command(
        "fit repeats",
        ("fit", "mols.csv", *TABLE, "--method=ciga-v2,erm", "--repeats=2", "--out=new", "--runs-dir=others"),
        ("new", "others"),
        slow=True,
    ),
    Command("predict", ("predict", "model", "mols.csv", "--out", "p.csv"), ("p.csv",)),
    Command("predict parquet", ("predict", "model", "mols.csv", "--out", "p.parquet"), ("p.parquet",)),
    Command("explain", ("explain", "model", "mols.csv", "--out", "report.html"), ("report.html",)),
    Command("export", ("export", "model", "--out", "model.pt2"), ()),
    Command("table", ("table", "table-size", "--out", "table.md", "--results", "results"), ("table.md",)),
    Command(
        "tune",
        (
            "tune",
            "spmotif-struc",
            "erm",
            *SMALL,
            *SHORT,
            "--over",
            "lr=0.001,0.01",
            "--trials",
            "2",
            "--out",
            "best.toml",
        ),
        ("best.toml", "runs"),
    ),
    Command(
        "bench",
        (
            "bench",
            "table-spmotif",
            "--methods",
            "erm",
            "--datasets",
            "spmotif-struc-0.33",
            "--seeds",
            "1,2",
            *SMALL,
            *SHORT,
            "--workers",
            "1",
            "--runs-dir",
            "benched",
        ),
        ("benched",),
        slow=True,
    ),
]


def prepare(home: Path) -> Path:
    """A working folder with a table of molecules and a fitted model."""
    base = home / "base"
    base.mkdir(parents=True)
    write_molecules(base / "mols.csv")
    work = home / "here"
    fresh(base, work)
    found = ciga(["fit", "mols.csv", *TABLE, "--out", "model"], work)
    if found.code:
        raise SystemExit(f"The model of the attack cannot be fitted: {found.err}")
    fresh(work, base)
    for name in ("runs", "cache", "tmp"):  # the commands make these themselves
        fresh_away(base / name)
    return base


def fresh_away(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def write_molecules(path: Path) -> None:
    """Molecules in two classes, rings with and without a hydroxy or amino group."""
    cores = ["c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccsc1", "C1CCOC1"]
    tails = ["", "C", "OC", "NC", "FC", "OCC"]
    rows = [(tail + core, int(tail[:1] in ("O", "N"))) for core in cores for tail in tails]
    lines = [f"m{i},{smiles},{active}" for i, (smiles, active) in enumerate(rows)]
    path.write_text("\n".join(["id,smiles,active", *lines, "bad,C(C,1"]) + "\n", encoding="utf-8")


#: What tells when and how long, not what came out.
CLOCKS = {"seconds", "finished", "time", "peak_memory_mb", "started"}
_TIMES = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?|\d+(\.\d+)? (s|seconds|minutes?)\b")
#: Neither results nor left-overs.
IGNORED = re.compile(r"(^|/)(lock|logs|bench|events\.out.*|.*\.log|error\.json)(/|$)")


def result(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Name -> hash of every file of a result, with times left out."""
    found = {}
    for name in names:
        top = folder / name
        files = [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file())
        for file in files:
            place = str(file.relative_to(folder))
            if not IGNORED.search(place):
                found[place] = hashlib.sha256(_content(file)).hexdigest()
    return found


def _content(file: Path) -> bytes:
    raw = file.read_bytes()
    if file.suffix == ".json":
        return json.dumps(_timeless(json.loads(raw)), sort_keys=True).encode()
    return _TIMES.sub(b"", raw) if file.suffix in (".html", ".md", ".toml") else raw


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in CLOCKS}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def left_overs(folder: Path) -> list[str]:
    """Temporary files and folders that nobody will remove."""
    # torch keeps a cache of compiled code there, for all processes
    mine = [p for p in (folder / "tmp").iterdir() if not p.name.startswith("torchinductor_")]
    temporary = [str(p.relative_to(folder)) for p in mine]
    return temporary + [
        str(p.relative_to(folder)) for p in folder.rglob("*") if p.name.endswith((".part", "ciga-old"))
    ]
