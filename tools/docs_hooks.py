"""What mkdocs does besides reading docs/: the page of commands, notebooks as pages, formulas as MathML."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

#: A name of an option in running text: it may not break after its hyphens.
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
LONGEST_NAME = 24  # letters
INLINE = re.compile(r"(?<!<pre>)<code>([^<]*)</code>")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are generated."""
    from mkdocs.structure.files import File

    sys.path.insert(0, str(Path(__file__).parent))
    from commands import page

    files.append(File.generated(config, "commands.md", content=page()))
    for notebook in sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb")):
        files.append(File.generated(config, f"gallery/{notebook.stem}.md", content=gallery_page(notebook)))
    return files


def gallery_page(notebook: Path) -> str:
    """A notebook as Markdown: text, code, and what the code printed."""
    from notebooks import pictures, printed

    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        if said := printed(cell["outputs"]):
            parts.append(f"```text\n{said}\n```")
        parts += pictures(cell["outputs"])
    parts.append(f"*Run it yourself: `examples/{notebook.name}`.*")
    return "\n\n".join(parts) + "\n"


def whole_names(code: re.Match[str]) -> str:
    """A short name such as `own-data`, and every option of a command, does not break at its hyphens."""
    if " " not in code[1] and len(html.unescape(code[1])) <= LONGEST_NAME:
        return f'<code class="option">{code[1]}</code>'
    return OPTION.sub(r'<span class="option">\g<0></span>', code[0])


def on_page_content(content: str, **_: Any) -> str:
    """Formulas are drawn by the browser itself: no script, nothing fetched. Options stay on one line."""
    from latex2mathml.converter import convert

    def drawn(match: re.Match[str]) -> str:
        return convert(html.unescape(match[3]), display="inline" if match[2] == "(" else "block")

    content = INLINE.sub(whole_names, content)
    return FORMULA.sub(drawn, content)
