"""Dataclasses as option groups: named, typed, checked, with a grid to search.

Methods, datasets, the network and the training schedule are all dataclasses of plain values. Here is the
one place that turns `key=value` strings or JSON into them, and rejects what does not fit.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ciga.errors import UsageError, unknown

T = TypeVar("T")


def tunable(
    default: Any,
    grid: Sequence[Any] = (),
    *,
    help: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[Any] = (),
) -> Any:
    """A dataclass field with its search grid, its legal range [low, high] or its choices.

    Args:
        default: The value where nothing is given.
        grid: The values that a search tries.
        help: One line for listings.
        low: The smallest legal value.
        high: The largest legal value.
        choices: All legal values, if they are few.
    """
    meta = {"grid": tuple(grid), "help": help, "low": low, "high": high, "choices": tuple(choices)}
    return dataclasses.field(default=default, metadata=meta)


def fields_of(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """The option fields of a dataclass, by name."""
    return {f.name: f for f in dataclasses.fields(cls) if f.init}


def undeclared(cls: type) -> list[str]:
    """The options a class declares that are no fields of it, because `@dataclass` was forgotten."""
    own = vars(cls)
    if "__dataclass_fields__" in own:
        return []
    written = [name for name, hint in own.get("__annotations__", {}).items() if "ClassVar" not in str(hint)]
    return list(dict.fromkeys([*written, *(k for k, v in own.items() if isinstance(v, dataclasses.Field))]))


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """The annotations of a class, evaluated once: a table plans hundreds of runs."""
    return typing.get_type_hints(cls)


def _type_of(cls: type, name: str) -> tuple[type, bool]:
    """The plain type of a field, and whether None is allowed."""
    hint = _hints(cls)[name]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        plain = [a for a in typing.get_args(hint) if a is not type(None)]
        return plain[0], len(plain) < len(typing.get_args(hint))
    return hint, False


def convert(cls: type, name: str, value: Any) -> Any:
    """`value` (a string from the command line, or JSON) as the type of field `name`, checked."""
    kind, optional = _type_of(cls, name)
    field = fields_of(cls)[name]
    if optional and (value is None or (isinstance(value, str) and value.lower() in ("none", "null"))):
        return None
    try:
        if kind is bool:
            value = _boolean(value)
        elif kind is int and not isinstance(value, bool):
            value = int(value) if not isinstance(value, float) or value.is_integer() else _fail()
        elif kind is float and not isinstance(value, bool):
            value = float(value)
            if math.isinf(value):
                raise UsageError(f"{name}={value} must be a finite number.")
        elif kind is str:
            value = str(value)
        elif typing.get_origin(kind) is tuple:
            parts = value.split(",") if isinstance(value, str) else value
            item = typing.get_args(kind)[0]
            value = tuple(item(p.strip() if isinstance(p, str) else p) for p in parts)
        else:
            _fail()
    except (TypeError, ValueError):
        wanted = {int: "whole number", float: "number"}.get(kind) or getattr(kind, "__name__", str(kind))
        raise UsageError(f"{name}={value!r} is not a valid {wanted}.") from None
    _check(name, value, field.metadata)
    return value


def _fail() -> Any:
    raise ValueError


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text not in ("true", "false", "yes", "no", "1", "0"):
        _fail()
    return text in ("true", "yes", "1")


def _check(name: str, value: Any, meta: Mapping[str, Any]) -> None:
    choices, low, high = meta.get("choices"), meta.get("low"), meta.get("high")
    if choices and value not in choices:
        raise UsageError(f"{name}={value} is not one of {', '.join(map(str, choices))}.")
    # `not >=` instead of `<`, so that NaN is refused as well
    if low is not None and not value >= low:
        raise UsageError(f"{name}={value} is too small: it must be at least {low}.")
    if high is not None and not value <= high:
        raise UsageError(f"{name}={value} is too large: it must be at most {high}.")


def build(cls: type[T], values: Mapping[str, Any], kind: str) -> T:
    """An instance of `cls` from loose values; unknown keys get an error that names the nearest one."""
    known = fields_of(cls)
    for key in values:
        if key not in known:
            raise unknown(kind, key, known)
    return cls(**{key: convert(cls, key, value) for key, value in values.items()})


def check_all(instance: Any) -> None:
    """Check every field of an instance that Python code built directly."""
    for name, value in as_dict(instance).items():
        convert(type(instance), name, value)


def as_dict(instance: Any) -> dict[str, Any]:
    """The option values of an instance, as plain values."""
    return {name: getattr(instance, name) for name in fields_of(type(instance))}


def parse_pairs(pairs: Sequence[str], flag: str) -> dict[str, str]:
    """`["a=1", "b=x"]` -> `{"a": "1", "b": "x"}`."""
    out: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UsageError(f"{flag} takes key=value, not '{pair}'.")
        out[key.strip()] = value.strip()
    return out
