"""What a run was and what came out of it: one folder per run, named by the hash of its configuration."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import platform
import resource
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ciga.errors import CigaError
from ciga.files import write_json

#: Raised when a change of the code makes the same configuration mean another run.
FORMAT = 1


@dataclass(frozen=True)
class Config:
    """Everything that decides the outcome of a run.

    `data` and `settings` are complete. The hash is taken over what differs from the defaults, so that a
    new option with a harmless default does not orphan old records.
    """

    dataset: str
    method: str
    seed: int
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    protocol: str = "ood"  # or "iid": all parts pooled and dealt out again, for oracle rows
    identity: Mapping[str, Any] = field(default_factory=dict)  # content of files and plugins it depends on
    changed: Mapping[str, Any] = field(default_factory=dict)  # the non-default part of data and settings

    @property
    def hash(self) -> str:
        parts = [FORMAT, self.dataset, self.method, self.seed, self.protocol, self.identity, self.changed]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Of everything that can change a number.

    The processor's vector instructions are one: torch adds in another order with AVX2 than with AVX-512, and
    training carries the last bit on. `ATEN_CPU_CAPABILITY=avx2` gives AVX2's bytes on both.
    """
    from torch.backends.cpu import get_cpu_capability

    out = {"python": platform.python_version(), "instructions": get_cpu_capability()}
    for package in ("ciga", "torch", "torch_geometric", "numpy", "scikit-learn", "scipy"):
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = "not installed"
    return out


def peak_memory_mb() -> float:
    """The largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


class Runs:
    """A folder of runs. Many processes may write into it at once."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def folder(self, config: Config) -> Path:
        return self.root / config.hash

    def find(self, config: Config) -> dict[str, Any] | None:
        """The finished record of this configuration, if there is one: in its folder, or in a *.jsonl file."""
        file = self.folder(config) / "record.json"
        if file.is_file():
            record = read_record(file)
        else:
            found = self._listed().get(config.hash)
            if found is None:
                return None
            file, record = found
        for group in ("data", "settings"):
            mine: Mapping[str, Any] = getattr(config, group)
            for key, value in record[group].items():
                if key in mine and _plain(mine[key]) != value:
                    raise CigaError(
                        f"{file} was made when {key} was {value} by default, now it is {mine[key]}: "
                        "delete that record or use another --runs-dir."
                    )
        return record

    def write(self, config: Config, record: Mapping[str, Any]) -> None:
        write_json(self.folder(config) / "record.json", record)

    def failure(self, config: Config) -> dict[str, Any] | None:
        """What went wrong when this run was last tried, if it was and nothing came out."""
        file = self.folder(config) / "error.json"
        return _read_object(file) if file.is_file() else None

    def write_failure(self, config: Config, failure: Mapping[str, Any]) -> None:
        write_json(self.folder(config) / "error.json", failure)

    def clear_failure(self, config: Config) -> None:
        (self.folder(config) / "error.json").unlink(missing_ok=True)

    @contextmanager
    def lock(self, config: Config) -> Iterator[Path]:
        """Hold this run; the lock vanishes with the process, however it ends."""
        folder = self.folder(config)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                handle.seek(0)
                owner = handle.read().strip() or "another process"
                raise Busy(f"This very run is in progress in {folder} ({owner}).") from None
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {platform.node()}")
            handle.flush()
            yield folder

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every finished record, in a stable order: from run folders and from lists of records."""
        for file in sorted(self.root.glob("*/record.json")):
            yield read_record(file)
        for file in self._lists():
            yield from read_lines(file)

    def _lists(self) -> list[Path]:
        return lists_of_records(self.root)

    def _listed(self) -> dict[str, tuple[Path, dict[str, Any]]]:
        """hash -> file and record, of every list; read again only when one of them changes."""
        marks = tuple((f, f.stat().st_mtime_ns, f.stat().st_size) for f in self._lists())
        if marks not in _LISTED:
            _LISTED[marks] = {r["hash"]: (file, r) for file, *_ in marks for r in read_lines(file)}
        return _LISTED[marks]


class Busy(CigaError):
    """Another process is at this run."""


def read_record(file: Path) -> dict[str, Any]:
    """One record.json."""
    record = _read_object(file)
    if not {"hash", "data", "settings", "selected"} <= record.keys():
        raise CigaError(f"{file} is damaged: delete it to run again.")
    return record


def _read_object(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text())
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CigaError(f"{file} is damaged: delete it to run again.")
    return value


def lists_of_records(folder: Path) -> list[Path]:
    """The lists of records in a folder: *.jsonl files, plain or compressed."""
    return sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")])


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a list, one per line; a name that ends in .gz is compressed."""
    number = 0
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open() as lines:
            for line in lines:
                number += 1
                if line.strip():
                    yield json.loads(line)
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error):
        where = f" in line {number}" if number else ""
        raise CigaError(f"{file} is damaged{where}.") from None


_LISTED: dict[tuple[tuple[Path, int, int], ...], dict[str, tuple[Path, dict[str, Any]]]] = {}


def _plain(value: Any) -> Any:
    """As it looks after a trip through JSON."""
    return json.loads(json.dumps(value))
