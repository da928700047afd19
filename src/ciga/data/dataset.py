"""The datasets by name. A dataset is one registered dataclass: its fields are its options."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ciga import options
from ciga.errors import UsageError
from ciga.graphs.splits import Splits
from ciga.progress import Progress, silent
from ciga.registry import Registry, check_class, source_of


@dataclass
class Dataset:
    """Base of all datasets: a dataclass of options that builds its `Splits`."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    shift: ClassVar[str] = ""
    classes: ClassVar[int] = 0
    metric: ClassVar[str] = "accuracy"

    def build(self, progress: Progress = silent) -> Splits:
        """Make or load the data."""
        raise NotImplementedError

    def identity(self) -> dict[str, str]:
        """Content hashes of files the options merely point to: part of a run's identity."""
        return {}

    def missing_files(self) -> list[str]:
        """Which files it needs that are not here; empty when it is ready to build."""
        return []


def _check(cls: type[Any]) -> None:
    """Refuse what is not a dataset; what `build` returns is checked when it does, whoever calls it."""
    check_class(cls, Dataset, "dataset", {"build": "def build(self, progress):"})
    build = vars(cls).get("build")
    if build is None:
        return

    @functools.wraps(build)
    def checked(self: Dataset, progress: Progress = silent) -> Splits:
        built = build(self, progress)
        if not isinstance(built, Splits):
            raise UsageError(
                f"{source_of(cls)}: build returned a {type(built).__name__}, write  "
                "return Splits({'train': store, …}, Task(classes, metric))."
            )
        return built

    cls.build = checked


datasets: Registry[Dataset] = Registry("dataset", "ciga.data.datasets", "ciga.datasets", _check)
register = datasets.register


def make(name: str, values: Mapping[str, Any] | None = None) -> Dataset:
    """The dataset called `name` with these options."""
    return options.build(datasets[name], values or {}, f"option of dataset {name}")


def load(name: str, progress: Progress = silent, **values: Any) -> Splits:
    """Build the dataset called `name`: `load("spmotif-struc", bias=0.6)`."""
    return make(name, values).build(progress)


def data_home() -> Path:
    """Where raw files are looked for and caches are kept: CIGA_DATA, or the user's cache folder."""
    home = os.environ.get("CIGA_DATA")
    if home:
        return Path(home).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("ciga"))
