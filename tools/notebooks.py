"""Execute the notebooks of examples/ and keep what they print: python tools/notebooks.py [FILES]

What a terminal would have erased (frames of a progress bar, colours) is not kept: see `plain`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

EXAMPLES = Path(__file__).parent.parent / "examples"
WRAPPER = TextWrapper(100, break_long_words=False, break_on_hyphens=False)
CONTROL = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)")


def plain(text: str) -> str:
    """What is left on the screen of a terminal that got this text, without colours."""
    lines = [""]
    for part in CONTROL.split(text.replace("\r\n", "\n")):
        if part == "\n":
            lines.append("")
        elif part == "\r" or (part.startswith("\x1b") and part.endswith("K")):
            lines[-1] = ""
        elif part.startswith("\x1b"):
            up = int(part[2:-1] or 1) if part.endswith("A") else 0
            del lines[max(len(lines) - up, 1) :]
        else:
            lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def printed(outputs: list[dict[str, Any]]) -> str:
    """What a cell printed, as plain text; not its warnings, which name folders of the machine."""
    shown = [output for output in outputs if output.get("name") != "stderr" and not pictures([output])]
    said = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in shown]
    lines = plain("".join("".join(text) for text in said)).strip("\n").splitlines()
    return "\n".join(part for line in lines for part in WRAPPER.wrap(line) or [""])


def pictures(outputs: list[dict[str, Any]]) -> list[str]:
    """What a cell drew: the SVG of a value that shows itself as one."""
    drawn = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    return [html for html in drawn if "<svg" in html]


def execute(file: Path) -> None:
    """Run a notebook and write it back with its outputs: one text for each cell, no times, no machine."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code" and cell.outputs:
            text = printed(cell.outputs)
            stream = nbformat.v4.new_output("stream", name="stdout", text=text + "\n")
            drawn = [
                nbformat.v4.new_output("display_data", {"text/html": svg}) for svg in pictures(cell.outputs)
            ]
            cell.outputs = [*([stream] if text else []), *drawn]
    nbformat.write(notebook, file)


def main() -> None:
    os.environ |= {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "80"}
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for file in [Path(name) for name in sys.argv[1:]] or sorted(EXAMPLES.glob("*.ipynb")):
        execute(file)


if __name__ == "__main__":
    main()
