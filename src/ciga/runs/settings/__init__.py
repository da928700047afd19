"""Which settings a run has: defaults, then a preset's rules, then a settings file, then the user's words."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ciga import options
from ciga.errors import UsageError, unknown
from ciga.methods.base import Method, methods
from ciga.nn.encoder import Backbone, Spec
from ciga.registry import source_of
from ciga.training.ensemble import unpack
from ciga.training.schedule import Training, check_schedule

#: `published` is what the paper used; `tuned` differs from it where it was searched again on validation data.
DEFAULT_PRESET = "tuned"
#: Where to start on data nobody has searched settings for: files and graphs of the user's own.
OWN_PRESET = "own-data"
#: The datasets that read files of the user's own.
OWN_DATASETS = frozenset({"csv", "pyg", "molecules", "graphs"})


@dataclass
class Settings:
    """The three option groups of a run; their names do not overlap, so one flat mapping says it all."""

    method: Method[Any]
    backbone: Backbone
    training: Training

    def __post_init__(self) -> None:
        check_schedule(self.method, self.training)

    def networks(self, spec: Spec, state: Mapping[str, Tensor]) -> list[nn.Module]:
        """The networks of a run with these weights, ready to predict."""
        return unpack(self.method, spec, self.backbone, state, self.training.members)

    def flat(self) -> dict[str, Any]:
        """Every option and its value."""
        return {k: v for group in self.groups() for k, v in options.as_dict(group).items()}

    def changed(self) -> dict[str, Any]:
        """The options whose value is not the default."""
        out: dict[str, Any] = {}
        for group in self.groups():
            fields = options.fields_of(type(group))
            out |= {k: v for k, v in options.as_dict(group).items() if v != fields[k].default}
        return out

    def groups(self) -> tuple[Any, Any, Any]:
        return self.method, self.backbone, self.training


def default_preset(dataset: str = "") -> str:
    """Where the settings of a method start unless told otherwise: one rule for every entry point.

    `own-data` for files of one's own and for graphs in memory (no dataset), `tuned` for every other dataset.
    Only the paper's tables say `published` themselves, because they stand beside the paper's numbers.
    """
    return OWN_PRESET if not dataset or dataset in OWN_DATASETS else DEFAULT_PRESET


def resolve(
    method: str,
    values: Mapping[str, Any] | None = None,
    *,
    dataset: str = "",
    data: Mapping[str, Any] | None = None,
    preset: str = "",
) -> Settings:
    """The settings of `method` on `dataset`; unknown keys are refused.

    Args:
        method: a method's name.
        values: settings that win over the preset.
        dataset: a dataset's name; none for graphs in memory.
        data: the dataset's options, which a preset's rules may look at.
        preset: where settings start; else `default_preset` of the dataset.
    """
    kinds: tuple[type[Any], ...] = (methods[method], Backbone, Training)
    known: dict[str, type[Any]] = {}
    for kind in kinds[::-1]:
        for key in options.fields_of(kind):
            if key in known:
                where = source_of(methods[method])
                raise UsageError(
                    f"{where}: every run has an option '{key}' already, give this one another name."
                )
            known[key] = kind
    preset = preset or default_preset(dataset)
    merged = {**_from_preset(preset, method, dataset, data or {}, known), **(values or {})}
    for key in merged:
        if key not in known:
            raise unknown(f"setting of {method}", key, known)
    parts = [{k: v for k, v in merged.items() if known[k] is kind} for kind in kinds]
    chosen, backbone, training = (
        options.build(kind, part, "setting") for kind, part in zip(kinds, parts, strict=True)
    )
    return Settings(chosen, backbone, training)


def presets() -> list[str]:
    """The names of the presets that come with the library."""
    return sorted(f.name.removesuffix(".toml") for f in files(__name__).iterdir() if f.name.endswith(".toml"))


def trials(preset: str, dataset: str, method: str) -> int:
    """How many trials chose this method's settings in a preset on a dataset; 0 where nothing was searched.

    Whoever compares methods has to know: one that was searched longer is ahead for that alone.
    """
    found = [
        int(search["trials"])
        for search in (_search(preset) if preset != "none" else [])
        if _fits(dataset, search["dataset"]) and method in search["methods"]
    ]
    return found[-1] if found else 0


def read_settings(path: str | Path) -> dict[str, Any]:
    """A settings file: TOML with one key per setting, as `ciga tune --out` writes it."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"There is no settings file {path}.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a valid TOML file: {error}.") from None


@cache
def _preset(name: str) -> dict[str, Any]:
    if name not in presets():
        raise unknown("preset", name, [*presets(), "none"])
    return tomllib.loads((files(__name__) / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def _rules(preset: str) -> list[dict[str, Any]]:
    text = _preset(preset)
    below = _rules(text["base"]) if "base" in text else []
    return [*below, *text["rule"]]


def _search(preset: str) -> list[dict[str, Any]]:
    """The searches a preset and those below it come from: where, with how many trials, of which methods."""
    text = _preset(preset)
    below = _search(text["base"]) if "base" in text else []
    return [*below, *text.get("search", [])]


def _from_preset(
    preset: str, method: str, dataset: str, data: Mapping[str, Any], known: Mapping[str, type]
) -> dict[str, Any]:
    """What the rules that fit say: `set` always, `option` only for methods that have such an option."""
    out: dict[str, Any] = {}
    for rule in [] if preset == "none" else _rules(preset):
        fits = _fits(dataset, rule.get("dataset", "*")) and _fits(method, rule.get("method", "*"))
        if fits and all(data.get(k) == v for k, v in rule.get("data", {}).items()):
            out |= rule.get("set", {})
            out |= {k: v for k, v in rule.get("option", {}).items() if k in known}
    return out


def _fits(name: str, patterns: str | list[str]) -> bool:
    """Whether a name is like a pattern, or like one of several."""
    return any(fnmatchcase(name, p) for p in (patterns if isinstance(patterns, list) else [patterns]))
