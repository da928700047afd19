"""Numbers as text, and a template as one HTML file with everything in it."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from ciga import __version__
from ciga.errors import MissingExtra
from ciga.files import atomic


def number(value: float | None) -> str:
    """Three digits, or a dash for what is not a number."""
    return "–" if value is None or math.isnan(value) else f"{value:.3f}"


def percent(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def signed(value: float) -> str:
    """Three digits with a sign: `+0.012`, `−0.063`."""
    return f"{value:+.3f}".replace("-", "−")


def spread(found: Mapping[str, float], sign: str = "") -> str:
    """`0.812 [0.790, 0.834]`; no interval where there are too few seeds for one. "+" shows every sign."""
    if math.isnan(found["low"]):
        return "–" if math.isnan(found["mean"]) else f"{found['mean']:{sign}.3f}"
    return f"{found['mean']:{sign}.3f} [{found['low']:{sign}.3f}, {found['high']:{sign}.3f}]"


def known(values: Iterable[Any]) -> list[float]:
    """Numbers from JSON, where what is not a number is None."""
    return [math.nan if v is None else float(v) for v in values]


def write_page(
    path: str | Path, template: str, context: Mapping[str, Any], scripts: Sequence[str] = ("page.js",)
) -> None:
    """Fill in a template and write it as one file, with style and scripts inside.

    Args:
        path: of the HTML file.
        template: its name in the folder of templates.
        context: what the template asks for.
        scripts: the scripts it needs; the page runs these and no others.
    """
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise MissingExtra("jinja2", "report") from None
    folder = files("ciga.explain") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent}
    # Our own files and the drawings we made are markup; everything else on the page is escaped.
    environment.filters["drawn"] = Markup
    style = (folder / "style.css").read_text(encoding="utf-8")
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts)
    text = environment.get_template(template).render(
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        # The policy names the script by its hash: text that slipped in could not run.
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        **context,
    )
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
