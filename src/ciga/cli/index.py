"""What there is, known without torch: an index of methods, datasets, tables and figures.

`index.json` beside this file is written by `python tools/index.py`. It carries a digest of the sources it was
made from: after an edit it no longer fits, and an index is made anew (in a few seconds) and kept in the cache
folder. So a new method or dataset shows up by itself, and a list takes no longer than Python needs to start.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
FILE = Path(__file__).with_name("index.json")
#: What the index depends on: not the screens, reports and models that are made of it.
ROOMS = ("graphs", "nn", "scoring", "data", "methods", "training", "runs", "bench")
#: Letters of a run's hash that are kept: enough to tell thousands of runs apart.
SHORT = 10


def index(plugins: Sequence[Path] = ()) -> dict[str, Any]:
    """Methods, datasets and exhibits by name. Plugins and installed extensions are loaded and included."""
    if plugins or _extended():
        load(plugins)
        return build()
    source = digest()
    kept = _cache() / f"index-{source}.json"
    for file in (FILE, kept):
        try:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if found.get("source") == source:
            return found
    from ciga.files import write_json

    made = {"source": source, **build()}
    with suppress(OSError):  # a cache that cannot be written is no reason to refuse a list
        write_json(kept, made)
    return made


def load(plugins: Sequence[Path]) -> None:
    """Run the user's plugin files, which register methods and datasets."""
    from ciga.registry import load_plugin

    for file in plugins:
        load_plugin(file)


def digest() -> str:
    """Of all sources that the index depends on."""
    files = sorted(PACKAGE.glob("*.py"))
    files += sorted(f for room in ROOMS for f in (PACKAGE / room).rglob("*") if f.suffix in (".py", ".toml"))
    found = hashlib.sha256()
    for file in files:
        found.update(f"{file.relative_to(PACKAGE)}\n".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def build() -> dict[str, Any]:
    """Everything from the sources; needs torch."""
    return {"methods": _methods(), "datasets": _datasets(), "exhibits": _exhibits()}


def _methods() -> dict[str, Any]:
    from inspect import getdoc

    from ciga import options
    from ciga.methods.base import methods

    rows: dict[str, Any] = {}
    for name in methods:
        cls = methods[name]
        knobs = {
            key: {
                "default": field.default,
                "grid": list(field.metadata.get("grid", ())),
                "help": field.metadata.get("help", ""),
            }
            for key, field in options.fields_of(cls).items()
        }
        rows[name] = {
            "summary": cls.summary,
            "environments": cls.needs_environments,
            "subgraph": cls.extracts,
            "scms": list(cls.scms),
            "hyperparameters": knobs,
            "about": getdoc(cls) or "",
        }
    return _plain(rows)


def _datasets() -> dict[str, Any]:
    from inspect import getdoc

    from ciga.data.check.overview import overview
    from ciga.data.dataset import datasets

    with _nowhere():  # as seen from a machine that has no files yet: then all that are needed are missing
        rows = overview()
        files = {name: _files(datasets[name]) for name in rows}
    for name, row in rows.items():
        row["files"] = files[name]
        del row["missing_files"]
        row["about"] = getdoc(datasets[name]) or ""
        del row["files_here"]
    return _plain(rows)


def _files(kind: Any) -> list[list[str]]:
    """The files that a dataset needs; several lists where an option chooses between them."""
    from ciga import options

    found: list[list[str]] = [kind().missing_files()]
    for key, field in options.fields_of(kind).items():
        for choice in field.metadata.get("choices", ()):
            needed = kind(**{key: choice}).missing_files()
            if needed not in found:
                found.append(needed)
    return found


def _exhibits() -> dict[str, Any]:
    from ciga.bench import paper
    from ciga.bench.grid import Variation, plans
    from ciga.runs.estimate import Estimate

    rows: dict[str, Any] = {}
    for name, shown in paper.exhibits().items():
        cells = shown.cells()
        todo = [planned.config for planned in plans(cells, Variation())]
        rows[name] = {
            "title": shown.title,
            "source": _place(shown),
            "cells": len({str(vars(c)) for c in cells}),
            "runs": " ".join(config.hash[:SHORT] for config in todo),
            "seconds": round(Estimate().total(todo)),
        }
    return _plain(rows)


def _place(shown: Any) -> str:
    """Where it stands in the paper: its numbers, or a word."""
    if not getattr(shown, "numbers", ()):
        return str(shown.source)
    kind = "Figure" if shown.name.startswith("figure") else "Table"
    return f"{kind} {', '.join(map(str, shown.numbers))}"


def _plain(rows: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives it back, so that a file and the running program say the same."""
    found: dict[str, Any] = json.loads(json.dumps(rows, default=str))
    return found


def _extended() -> bool:
    """Are there installed methods or datasets beside ours, or plugins named in the environment?"""
    groups = ("ciga.methods", "ciga.datasets")
    return bool(os.environ.get("CIGA_PLUGINS")) or any(len(entry_points(group=g)) for g in groups)


def _cache() -> Path:
    """The folder of built data, as `ciga.data.cache` has it, without loading torch."""
    import platformdirs

    home = os.environ.get("CIGA_CACHE")
    return Path(home).expanduser() if home else Path(platformdirs.user_cache_dir("ciga")) / "cache"


@contextmanager
def _nowhere() -> Iterator[None]:
    before = {key: os.environ.get(key) for key in ("CIGA_DATA", "CIGA_CACHE")}
    os.environ |= dict.fromkeys(before, str(PACKAGE / "nowhere"))
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
