"""The records of finished runs: a folder for each, named by the hash of its configuration, and lists."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from filelock import FileLock, Timeout

from ciga.data.reading import limits
from ciga.errors import CigaError
from ciga.files import write_json
from ciga.runs.types import Failure, Record, is_record

#: Raised when a change of the code makes the same configuration mean another run.
FORMAT = 1
#: Datasets that were renamed. A run keeps the hash it had under the first name.
FIRST_NAMES = {"molecules": "csv", "graphs": "pyg"}


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
        name = FIRST_NAMES.get(self.dataset, self.dataset)
        parts = [FORMAT, name, self.method, self.seed, self.protocol, self.identity, self.changed]
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


def peak_memory_mb() -> float | None:
    """The largest resident size of this process so far; None where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


class Runs:
    """A folder of runs. Many processes may write into it at once."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def folder(self, config: Config) -> Path:
        return self.root / config.hash

    def find(self, config: Config) -> Record | None:
        """The finished record of this configuration, if there is one: in its folder, or in a list."""
        file = self.folder(config) / "record.json"
        if file.is_file():
            record = read_record(file)
            if (file.parent / "owner").is_file():  # of one that was killed before it had tidied up
                with suppress(Busy, OSError), self.lock(config) as folder:
                    _remove_checkpoints(folder)
        else:
            found = self._listed().get(config.hash)
            if found is None:
                return None
            file, record = found
        recorded = {"data": record["data"], "settings": record["settings"]}
        for group, values in recorded.items():
            mine: Mapping[str, Any] = getattr(config, group)
            for key, value in values.items():
                if key in mine and _plain(mine[key]) != value:
                    raise CigaError(
                        f"{file} was made when {key} was {value} by default, now it is {mine[key]}: "
                        "delete that record or use another --runs-dir."
                    )
        return record

    def write(self, config: Config, record: Record) -> None:
        """Write the record; its checkpoints have served."""
        write_json(self.folder(config) / "record.json", record)
        _remove_checkpoints(self.folder(config))

    def failure(self, config: Config) -> Failure | None:
        """What went wrong when this run was last tried, if it was and nothing came out."""
        file = self.folder(config) / "error.json"
        return read_failure(file) if file.is_file() else None

    def write_failure(self, config: Config, failure: Failure) -> None:
        write_json(self.folder(config) / "error.json", failure)

    def clear_failure(self, config: Config) -> None:
        (self.folder(config) / "error.json").unlink(missing_ok=True)

    @contextmanager
    def lock(self, config: Config) -> Iterator[Path]:
        """Hold this run; the lock vanishes with the process, however it ends."""
        folder = self.folder(config)
        folder.mkdir(parents=True, exist_ok=True)
        lock, owner = FileLock(folder / "lock"), folder / "owner"
        try:
            lock.acquire(timeout=0)
        except Timeout:
            said = owner.read_text(encoding="utf-8").strip() if owner.is_file() else "another process"
            raise Busy(f"This run is already in progress in {folder} ({said}).") from None
        try:
            owner.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
            yield folder
        finally:
            owner.unlink(missing_ok=True)
            lock.release()

    def __iter__(self) -> Iterator[Record]:
        """Every finished record, in a stable order: from run folders and from lists of records."""
        for file in sorted(self.root.glob("*/record.json")):
            yield read_record(file)
        for file in self._lists():
            yield from read_lines(file)

    def _lists(self) -> list[Path]:
        return lists_of_records(self.root)

    def _listed(self) -> dict[str, tuple[Path, Record]]:
        """hash -> file and record, of every list; read again only when one of them changes."""
        marks = tuple((f, f.stat().st_mtime_ns, f.stat().st_size) for f in self._lists())
        if marks not in _LISTED:
            _LISTED[marks] = {r["hash"]: (file, r) for file, *_ in marks for r in read_lines(file)}
        return _LISTED[marks]


class Records:
    """Finished runs from several folders: the first is written to, the others are only read."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self.runs = [Runs(folder) for folder in folders]
        self.stale: list[str] = []  # why a record was not taken

    def find(self, config: Config) -> Record | None:
        """The record of this configuration; one made under other defaults does not count."""
        for runs in self.runs:
            try:
                record = runs.find(config)
            except CigaError as error:
                self.stale.append(str(error))
                continue
            if record is not None:
                return record
        return None

    def failure(self, config: Config) -> Failure | None:
        """Why this run failed when it was last tried."""
        return self.runs[0].failure(config)

    def __iter__(self) -> Iterator[Record]:
        seen: set[str] = set()
        for runs in self.runs:
            for record in runs:
                if record["hash"] not in seen:
                    seen.add(record["hash"])
                    yield record


class Busy(CigaError):
    """Another process is at this run."""


def read_record(file: Path) -> Record:
    """One record.json."""
    record = _read_json(file)
    if not is_record(record):
        raise CigaError(f"{file} is damaged: delete it to run again.")
    return cast(Record, record)


def read_failure(file: Path) -> Failure:
    """One error.json."""
    failure = _read_json(file)
    if not isinstance(failure, dict) or not {"error", "time"} <= failure.keys():
        raise CigaError(f"{file} is damaged: delete it to run again.")
    return cast(Failure, failure)


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None


def lists_of_records(folder: Path) -> list[Path]:
    """The lists of records in a folder: *.jsonl files, plain or compressed."""
    return sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")])


def read_lines(file: Path) -> Iterator[Record]:
    """The records of a list, one on each line: *.jsonl, or *.jsonl.gz."""
    try:
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rt", encoding="utf-8", newline="\n") as opened:
            text = limits.read_whole(opened, file)
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError):
        raise CigaError(f"{file} is damaged: replace it by a whole copy.") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not is_record(record):
                raise CigaError(f"{file} is damaged in line {number}: correct or delete that line.")
            yield cast(Record, record)


_LISTED: dict[tuple[tuple[Path, int, int], ...], dict[str, tuple[Path, Record]]] = {}


def _remove_checkpoints(folder: Path) -> None:
    (folder / "checkpoint.safetensors").unlink(missing_ok=True)
    for member in folder.glob("member-*"):
        shutil.rmtree(member)


def _plain(value: Any) -> Any:
    """As it looks after a trip through JSON."""
    return json.loads(json.dumps(value))
