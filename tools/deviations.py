"""Write the table of values that are ours into docs/deviations.md: python tools/deviations.py"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from ciga import options
from ciga.methods.base import methods

PAGE = Path(__file__).parent.parent / "docs" / "deviations.md"
OURS = re.compile(r"(<!-- ours -->\n).*?(<!-- end -->)", re.DOTALL)


def ours() -> dict[str, dict[str, list[Any]]]:
    """method -> option -> the range the paper prints, where it prints no chosen value."""
    found = tomllib.loads((files("ciga.runs.settings") / "published.toml").read_text())["ours"]
    return dict(found)


def table() -> str:
    """The values that `published` has for them."""
    lines = ["| method | option | range in the paper | in `published` |", "|---|---|---|---|"]
    for method, ranges in ours().items():
        fields = options.fields_of(methods[method])
        for option, values in ranges.items():
            shown = ", ".join(f"{v:g}" for v in values)
            lines.append(f"| `{method}` | `{option}` | {shown} | {fields[option].default:g} |")
    return "\n".join(lines) + "\n"


def written(text: str) -> str:
    """The page with the table as it should be."""
    return OURS.sub(lambda found: found[1] + "\n" + table() + "\n" + found[2], text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
