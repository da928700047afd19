"""Raw files: found, downloaded or asked for. Built splits: kept on disk, so that a second load is instant."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ciga.data.dataset import data_home
from ciga.errors import CigaError, os_sentence
from ciga.files import whole_folder, write_json
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import FORMAT, GraphStore

#: Part of every key: a new number makes every older cache stale.
VERSION = 1
_hashes: dict[tuple[str, int, int], str] = {}


def cache_home() -> Path:
    """Where built splits are kept: CIGA_CACHE, or the user's cache folder. Never in CIGA_DATA."""
    home = os.environ.get("CIGA_CACHE")
    if home:
        return Path(home).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("ciga")) / "cache"


# ---------------------------------------------------------------- raw files


def find_raw(relative: str) -> Path | None:
    """The raw file at this place below `data_home()`, if it is there."""
    path = data_home() / relative
    return path if path.is_file() else None


def raw_file(relative: str, *, url: str | None = None, sha256: str | None = None, source: str) -> Path:
    """The raw file at this place below `data_home()`; downloaded from `url` if it is not there.

    `source` tells a person where the file comes from, for the error that says what to put where. With a
    `sha256`, a file that is there already is checked too.

    Args:
        relative: The file's place below `data_home()`.
        url: Where it can be downloaded; None: it cannot.
        sha256: What its content must hash to; None: anything.
        source: Where a person gets it.
    """
    path = data_home() / relative
    by_hand = f"get {path.name} from {source} and put it into {path.parent}"
    if path.is_file():
        if sha256 is not None and file_hash(path) != sha256:
            raise CigaError(
                f"{path} is cut short or altered (its checksum differs): delete it and {by_hand}."
            )
        return path
    if url is None:
        raise CigaError(f"The file {path.name} is not here: {by_hand}.")
    download(url, path, sha256, by_hand)
    return path


def download(url: str, path: Path, sha256: str | None, by_hand: str) -> None:
    """Fetch `url` to `path`; `by_hand` ends the error's sentence when that fails.

    Args:
        url: Where the file is.
        path: Where it goes.
        sha256: What its content must hash to; None: anything.
        by_hand: What a person does instead, the end of the error's sentence.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(url, known_hash=sha256, fname=path.name, path=path.parent)
    except PermissionError as error:
        raise CigaError(
            f"{path.parent} cannot be written to: set CIGA_DATA to a folder of yours, or {by_hand}."
        ) from error
    except Exception as error:
        if isinstance(error, ValueError) and "hash" in str(error):
            raise CigaError(f"What came from {url} has the wrong checksum: {by_hand}.") from error
        raise CigaError(f"{url} could not be downloaded ({type(error).__name__}): {by_hand}.") from error


def file_hash(path: Path) -> str:
    """The sha256 of a file; computed again only when its size or time of change differ."""
    stat = path.stat()
    mark = (str(path.resolve()), stat.st_mtime_ns, stat.st_size)
    if mark not in _hashes:
        with path.open("rb") as file:
            _hashes[mark] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hashes[mark]


# ---------------------------------------------------------------- built splits


def cache_folder(name: str, key: Mapping[str, Any], sources: Sequence[Path] = ()) -> Path:
    """The folder of what `cached` keeps for this name, key and content of the source files."""
    identity = {
        "name": name,
        "key": dict(key),
        "sources": [file_hash(Path(p)) for p in sources],
        "format": [VERSION, FORMAT],
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return cache_home() / f"{name}-{digest[:20]}"


def cached(
    name: str,
    key: Mapping[str, Any],
    sources: Sequence[Path],
    build: Callable[[], Splits],
    refresh: bool = False,
) -> Splits:
    """What `build()` gives, from the cache if it is there.

    `key` holds every option the result depends on, and a `version` to be raised when the building code
    changes; of the `sources` the content counts. Two processes may build at once: both get whole data,
    and one of the two copies stays. A damaged entry is built again, with a warning.

    Args:
        name: The dataset's name.
        key: Everything the result depends on.
        sources: The files it is built from.
        build: Builds it.
        refresh: Build it even if it is there.
    """
    folder = cache_folder(name, key, sources)
    if not refresh and folder.exists():
        try:
            return _open(folder)
        except CigaError as error:
            warnings.warn(f"The cache of {name} is damaged and is built again: {error}", stacklevel=2)
    splits = build()
    try:
        _write(splits, folder, {"name": name, "key": dict(key)}, replace=refresh)
        return _open(folder)
    except OSError as error:
        said = str(error) if isinstance(error, CigaError) else os_sentence(error)
        warnings.warn(f"The splits of {name} could not be cached. {said}", stacklevel=2)
        return splits


def write_splits(splits: Splits, folder: Path) -> None:
    """Keep splits in a folder of their own, to be moved or sent."""
    _write(splits, folder, {}, replace=False)


def open_splits(folder: Path) -> Splits:
    """What `write_splits` wrote, checked."""
    return _open(folder)


def _write(splits: Splits, folder: Path, about: Mapping[str, Any], replace: bool) -> None:
    if not replace and _sound(folder):
        return  # another process was faster
    # What is not there yet is not replaced either: another process may have begun to read it meanwhile.
    with whole_folder(folder, replace=replace or folder.exists()) as place:
        for part in splits:
            splits[part].save(place / f"{part}.safetensors")
        task = splits.task
        body = {
            **about,
            "task": {"classes": task.classes, "metric": task.metric, "class_names": list(task.class_names)},
            "notes": dict(splits.notes),
            "parts": {part: splits[part].fingerprint() for part in splits},
            "stats": {part: splits[part].stats() for part in splits},
        }
        write_json(place / "splits.json", {**body, "checksum": _checksum(body)})


def _sound(folder: Path) -> bool:
    try:
        _open(folder)
    except CigaError:
        return False
    return True


def _open(folder: Path) -> Splits:
    body = read_index(folder)
    try:
        task = Task(body["task"]["classes"], body["task"]["metric"], tuple(body["task"]["class_names"]))
        parts = {part: GraphStore.open(folder / f"{part}.safetensors", verify=True) for part in body["parts"]}
    except (KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        raise CigaError(f"{folder} cannot be read ({type(error).__name__}: {error}).") from error
    for part, store in parts.items():
        if store.fingerprint() != body["parts"][part]:
            raise CigaError(f"{folder / part}.safetensors is not the file that was written there.")
    return Splits(parts, task, body["notes"])


def read_index(folder: Path) -> dict[str, Any]:
    """The `splits.json` of a cache folder (task, notes, statistics of each part), checked."""
    try:
        body = json.loads((folder / "splits.json").read_text(encoding="utf-8"))
        checksum = body.pop("checksum")
    except (OSError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise CigaError(f"{folder / 'splits.json'} cannot be read ({type(error).__name__}).") from error
    if checksum != _checksum(body):
        raise CigaError(f"{folder / 'splits.json'} does not match its checksum.")
    return dict(body)


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
