"""What mkdocs does besides reading docs/: it writes the page of commands, and formulas as MathML."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are generated."""
    from mkdocs.structure.files import File

    sys.path.insert(0, str(Path(__file__).parent))
    from commands import page

    files.append(File.generated(config, "commands.md", content=page()))
    return files


def on_page_content(content: str, **_: Any) -> str:
    """Formulas are drawn by the browser itself: no script, nothing fetched."""
    from latex2mathml.converter import convert

    def drawn(match: re.Match[str]) -> str:
        return convert(html.unescape(match[3]), display="inline" if match[2] == "(" else "block")

    return FORMULA.sub(drawn, content)
