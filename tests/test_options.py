"""What may be said of an option, and what is refused with a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from ciga import options
from ciga.errors import UsageError
from ciga.nn import Backbone
from ciga.options import tunable


@dataclass
class Knobs:
    """One option of every kind."""

    kind: ClassVar[str] = "not an option"

    flag: bool = tunable(False)
    number: int = tunable(3, [1, 2, 3], low=1, high=10)
    share: float = tunable(0.5, low=0.0, high=1.0)
    free: float = tunable(0.0)
    word: str = tunable("a", choices=("a", "b"))
    text: str = ""
    maybe: int | None = tunable(None, low=1)
    names: tuple[str, ...] = ("x",)
    sizes: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("flag", "true", True),
        ("flag", "No", False),
        ("flag", "1", True),
        ("flag", True, True),
        ("number", "7", 7),
        ("number", 7, 7),
        ("number", 7.0, 7),
        ("share", "1", 1.0),
        ("share", "1e-3", 0.001),
        ("share", 0, 0.0),
        ("word", "b", "b"),
        ("text", "any thing = at all", "any thing = at all"),
        ("maybe", "4", 4),
        ("maybe", "None", None),
        ("maybe", "null", None),
        ("maybe", None, None),
        ("names", "a, b,c", ("a", "b", "c")),
        ("names", ["a", "b"], ("a", "b")),
        ("sizes", "3,4", (3, 4)),
        ("sizes", [3, 4], (3, 4)),
    ],
)
def test_converts(name: str, value: Any, expected: Any) -> None:
    found = options.convert(Knobs, name, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("flag", "maybe", "not a valid bool"),
        ("flag", 2, "not a valid bool"),
        ("number", "7.5", "not a valid whole number"),
        ("number", 7.5, "not a valid whole number"),
        ("number", "many", "not a valid whole number"),
        ("number", True, "not a valid whole number"),
        ("number", None, "not a valid whole number"),
        ("number", "", "not a valid whole number"),
        ("number", float("inf"), "not a valid whole number"),
        ("number", "0", "at least 1"),
        ("number", "11", "at most 10"),
        ("share", "half", "not a valid number"),
        ("share", False, "not a valid number"),
        ("share", None, "not a valid number"),
        ("share", "-0.1", "at least 0.0"),
        ("share", "1.01", "at most 1.0"),
        ("share", "nan", "at least 0.0"),
        ("word", "c", "not one of a, b"),
        ("word", "A", "not one of a, b"),
        ("maybe", "0", "at least 1"),
        ("maybe", "x", "not a valid whole number"),
        ("sizes", "3,x", "not a valid"),
        ("sizes", 3, "not a valid"),
    ],
)
def test_refuses(name: str, value: Any, says: str) -> None:
    with pytest.raises(UsageError) as error:
        options.convert(Knobs, name, value)
    assert says in str(error.value)
    assert str(error.value).startswith(f"{name}=")
    assert "\n" not in str(error.value)


def test_build_takes_known_keys_and_suggests_the_nearest() -> None:
    built = options.build(Knobs, {"number": "4", "word": "b"}, "knob")
    assert built == Knobs(number=4, word="b")
    with pytest.raises(UsageError, match=r"There is no knob called 'nubmer'\. Did you mean number"):
        options.build(Knobs, {"nubmer": "4"}, "knob")
    with pytest.raises(UsageError, match="no knob called 'kind'"):
        options.build(Knobs, {"kind": "x"}, "knob")


def test_an_instance_made_by_hand_can_be_checked() -> None:
    options.check_all(Knobs())
    with pytest.raises(UsageError, match="number=99 is too large"):
        options.check_all(Knobs(number=99))
    assert list(options.as_dict(Knobs())) == list(options.fields_of(Knobs))
    assert "kind" not in options.fields_of(Knobs)


def test_pairs() -> None:
    assert options.parse_pairs(["a=1", " b = x=y ", "c="], "--set") == {"a": "1", "b": "x=y", "c": ""}
    for bad in ("a", "=1", ""):
        with pytest.raises(UsageError, match="--set takes key=value"):
            options.parse_pairs([bad], "--set")


@pytest.mark.parametrize("value", ["inf", "-inf", "1e999", float("inf")])
def test_a_number_is_finite(value: object) -> None:
    with pytest.raises(UsageError, match="must be a finite number"):
        options.convert(Knobs, "free", value)


@pytest.mark.parametrize(("name", "value"), [("width", 10**11), ("width", 1e11), ("layers", "1000000")])
def test_a_network_that_fits_no_memory_is_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match="too large: it must be at most"):
        options.convert(Backbone, name, value)
