"""Names for things that live one to a file: methods and datasets.

A registry finds its members by itself: every module of its package, every installed entry point of its
group, and every plugin file the user names. A new method or dataset therefore needs no second edit.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Generic, TypeVar

from ciga.errors import UsageError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """A mapping name -> class, filled on first use by importing everything that may register itself."""

    def __init__(self, kind: str, package: str, group: str) -> None:
        self.kind, self.package, self.group = kind, package, group
        self._members: dict[str, type[T]] = {}
        self._discovered = False

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Class decorator: file the class under `name`."""

        def file(cls: type[T]) -> type[T]:
            taken = self._members.get(name)
            if taken is not None and (taken.__module__, taken.__qualname__) != (
                cls.__module__,
                cls.__qualname__,
            ):
                raise UsageError(
                    f"Two {self.kind}s are called '{name}': {taken.__module__} and {cls.__module__}."
                )
            cls.name = name  # type: ignore[attr-defined]
            self._members[name] = cls
            return cls

        return file

    def _discover(self) -> None:
        if self._discovered:
            return
        self._discovered = True
        package = importlib.import_module(self.package)
        for module in pkgutil.walk_packages(package.__path__, f"{self.package}."):
            importlib.import_module(module.name)
        for point in entry_points(group=self.group):
            try:
                point.load()
            except Exception as error:
                raise UsageError(
                    f"The installed {self.kind} '{point.name}' ({point.value}) failed on import: "
                    f"{type(error).__name__}: {error}"
                ) from error

    def __getitem__(self, name: str) -> type[T]:
        self._discover()
        if name not in self._members:
            raise unknown(self.kind, name, self._members)
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._members))

    def __contains__(self, name: object) -> bool:
        self._discover()
        return name in self._members


def load_plugin(path: str | Path) -> str:
    """Run a Python file of the user's, which registers methods or datasets; returns its content's hash.

    The hash goes into the configuration of a run, so that editing the plugin makes it another run.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise UsageError(f"There is no plugin file {path}.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    name = f"ciga_plugin_{path.stem}_{digest}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{path} is not a Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except UsageError:
            del sys.modules[name]
            raise
        except Exception as error:
            del sys.modules[name]
            raise UsageError(
                f"The plugin {path} failed on import: {type(error).__name__}: {error}"
            ) from error
    return digest
