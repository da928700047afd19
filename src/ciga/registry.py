"""Names for methods and datasets, each of which is a file.

A registry finds its members by itself: every module of its package, every installed entry point of its
group, every plugin file the user names, and those in the environment variable CIGA_PLUGINS. A new method or
dataset therefore needs no second edit. What does not keep to the contract is refused when it registers.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from ciga import options
from ciga.errors import UsageError, unknown

T = TypeVar("T")
#: Plugin files to load wherever names are looked up, separated as in PATH.
ENVIRONMENT = "CIGA_PLUGINS"


class Registry(Generic[T]):
    """A mapping name -> class, filled on first use by importing everything that may register itself."""

    def __init__(
        self, kind: str, package: str, group: str, check: Callable[[type[Any]], None] | None = None
    ) -> None:
        self.kind, self.package, self.group, self.check = kind, package, group, check
        self._members: dict[str, type[T]] = {}
        self._aliases: dict[str, str] = {}  # old name -> name
        self._discovered = False

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Class decorator: file the class under `name`."""

        def file(cls: type[T]) -> type[T]:
            if self.check is not None:
                self.check(cls)
            taken = self._members.get(name)
            if taken is not None and source_of(taken) != source_of(cls):  # an edited plugin may come again
                raise UsageError(
                    f"Two {self.kind}s are called '{name}': {taken.__module__} and {cls.__module__}."
                )
            cls.name = name  # type: ignore[attr-defined]
            self._members[name] = cls
            return cls

        return file

    def alias(self, old: str, name: str) -> None:
        """Let `old`, which `name` was called once, go on meaning it. It is not listed."""
        self._aliases[old] = name

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
        for file in os.environ.get(ENVIRONMENT, "").split(os.pathsep):
            if file.strip():
                load_plugin(file.strip())

    def __getitem__(self, name: str) -> type[T]:
        self._discover()
        name = self._aliases.get(name, name)
        if name not in self._members:
            error = unknown(self.kind, name, self._members)
            raise UsageError(f"{error} A {self.kind} of your own needs --plugin FILE or {ENVIRONMENT}=FILE.")
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._members))

    def __contains__(self, name: object) -> bool:
        self._discover()
        return name in self._members or name in self._aliases


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin file: where it is, and the hash of its content."""

    path: Path
    digest: str


_PLUGINS: dict[str, Plugin] = {}  # by the name of its module


def plugin_of(cls: type) -> Plugin | None:
    """The plugin file that defines a class; None for what is installed."""
    return _PLUGINS.get(cls.__module__)


def source_of(cls: type) -> str:
    """Where a class is written, for messages: its plugin file, or its module; with its name."""
    plugin = plugin_of(cls)
    return f"{plugin.path if plugin else cls.__module__}, class {cls.__qualname__}"


def check_class(cls: type, base: type, kind: str, writes: Mapping[str, str]) -> None:
    """Refuse a class that cannot be a method or a dataset, in one sentence that says what to write.

    Args:
        base: what it must be a subclass of.
        kind: what it is to be, for the message.
        writes: the functions it must define, each with its first line.
    """
    where = source_of(cls)
    if not issubclass(cls, base):
        raise UsageError(
            f"{where}: a {kind} is a {base.__name__}, write  class {cls.__name__}({base.__name__}):"
        )
    lost = options.undeclared(cls)
    if lost:
        raise UsageError(
            f"{where}: its options ({', '.join(lost)}) need  @dataclass  right below @register(…)."
        )
    if not getattr(cls, "summary", ""):
        raise UsageError(f'{where}: say in one line what it is, write  summary = "…"')
    for name, line in writes.items():
        written = getattr(cls, name)
        arguments = line[line.index("(") + 1 : line.rindex(")")].split(",")
        if written is getattr(base, name):
            raise UsageError(f"{where}: it does not say how to {name}, write  {line}")
        try:
            inspect.signature(written).bind(*arguments)
        except TypeError:
            raise UsageError(f"{where}: {name} takes other arguments, write  {line}") from None


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
        _PLUGINS[name] = Plugin(path, digest)
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
