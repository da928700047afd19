"""The code in README.md and docs/ runs.

A page is executed from top to bottom, in an empty folder, as one script:

- ``python`` blocks run in order and share their names;
- ``console`` blocks: lines that start with ``$ `` are commands, the others are output (not compared);
- ``bash`` blocks: every line is a command;
- a block of any language with a ``title="name.ext"`` is the file of that name, there before the page starts.

Commands that begin with ``ciga`` must exit with 0. Commands that install things (``INSTALLERS``) are not run.
A block is left out by ``<!-- not run: reason -->`` on the line above it, and is then among the skipped tests
with its reason.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.page_claims import CLAIMS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INSTALLERS = ("make", "git", "python -m venv", "python3 -m venv", "pip", "uv", "source", "cd")
LANGUAGES = {"py": "python", "pycon": "python", "sh": "bash", "shell": "bash", "zsh": "bash"}

FENCE = re.compile(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
#: A command in which a shell would find nothing to do but to split it at blanks and quotation marks.
PLAIN = re.compile(r"ciga [^|&;<>()$`\\*?\[\]{}~!#]*")
SERVER = "from tests.command_server import CommandServer; _ciga = CommandServer(); _sys.path.pop()"
NOT_RUN = re.compile(r"^\s*<!--\s*not run:\s*(?P<reason>.*?)\s*-->\s*$")
TITLE = re.compile(r'title="(?P<name>[^"]+)"')


@dataclass(frozen=True)
class Block:
    language: str
    first_line: int  # of its code in the page, from 1
    lines: tuple[str, ...]
    file: str | None  # the name in title="…"
    not_run: str | None  # the reason

    def commands(self) -> list[tuple[int, str]]:
        """The shell commands as (line in the page, command); a trailing backslash joins lines."""
        found: list[tuple[int, str]] = []
        continued = False
        for number, line in enumerate(self.lines, self.first_line):
            text = line.strip()
            if continued:
                start, command = found.pop()
                found.append((start, command.removesuffix("\\") + text.removeprefix(">").strip()))
            elif self.language == "bash" and text and not text.startswith("#"):
                found.append((number, text))
            elif self.language == "console" and text.startswith("$ "):
                found.append((number, text.removeprefix("$ ")))
            else:
                continue
            continued = found[-1][1].endswith("\\")
        return found


def blocks_of(text: str) -> list[Block]:
    """All fenced code blocks of a Markdown text, also indented ones (lists, admonitions)."""
    blocks: list[Block] = []
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        opening = FENCE.match(lines[position])
        if not opening:
            position += 1
            continue
        closing = re.compile(rf"^\s*{opening['fence'][0]}{{{len(opening['fence'])},}}\s*$")
        end = position + 1
        while end < len(lines) and not closing.match(lines[end]):
            end += 1
        assert end < len(lines), f"line {position + 1}: this code block is never closed"
        opted_out = NOT_RUN.match(lines[position - 1]) if position else None
        title = TITLE.search(opening["info"])
        blocks.append(
            Block(
                language=(opening["info"].split() or [""])[0].lower(),
                first_line=position + 2,
                lines=tuple(line.removeprefix(opening["indent"]) for line in lines[position + 1 : end]),
                file=title["name"] if title else None,
                not_run=opted_out["reason"] if opted_out else None,
            )
        )
        position = end + 1
    return blocks


def is_installer(command: str) -> bool:
    return any(command == known or command.startswith(known + " ") for known in INSTALLERS)


def script_of(blocks: list[Block]) -> str:
    """The page as a Python script, every line where it stands in the page: tracebacks point into it."""
    script: dict[int, str] = {}
    commands: dict[int, str] = {}
    for block in blocks:
        if block.not_run is not None or block.file is not None:
            continue
        spelling = LANGUAGES.get(block.language)
        assert spelling is None, f"line {block.first_line - 1}: so that it runs, write `{spelling}`"
        if block.language == "python":
            script |= dict(enumerate(block.lines, block.first_line))
        for number, command in block.commands():
            if is_installer(command):
                continue
            assert re.match(r"([A-Z_]+=\S+ )*ciga ", command), (
                f"line {number}: `{command}` is neither a ciga command nor a known installer; "
                "put `<!-- not run: reason -->` above its block"
            )
            commands[number] = command
    plain = {number: shlex.split(text) for number, text in commands.items() if PLAIN.fullmatch(text)}
    if len(plain) > 1:  # one import of torch for all of them
        script[1] = f"import sys as _sys; _sys.path.append({str(ROOT)!r}); " + SERVER
    for number, command in commands.items():
        shell = ["bash", "-o", "pipefail", "-c", command]
        alone = len(plain) < 2 or number not in plain
        line = f"import subprocess as _sp; _sp.run({shell!r}, check=True)"
        script[number] = line if alone else f"_ciga({plain[number]!r})"
    return "\n".join(script.get(number, "") for number in range(1, max(script, default=0) + 1))


def run(script: str, folder: Path) -> tuple[int, str]:
    """Run a script in a folder; return its exit code and all it printed. Leaves no process behind."""
    (folder / "_page.py").write_text(script, encoding="utf-8")
    bin_folder = Path(sys.executable).parent
    assert "_sp.run" not in script or (bin_folder / "ciga").exists(), "ciga is not installed: make install"
    env = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "Agg"}
    with (folder / "_output.txt").open("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "_page.py"],
            cwd=folder, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read()


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    script = script_of(blocks)
    for block in blocks:
        if block.file is not None and block.not_run is None:
            target = tmp_path / block.file
            assert target.resolve().is_relative_to(tmp_path.resolve()), f"{block.file} leaves the folder"
            assert target.stem in script, f"nothing on the page uses {block.file}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("\n".join(block.lines) + "\n", encoding="utf-8")
    code, printed = run(script, tmp_path)
    assert code == 0, f"{name(page)} exits with {code} (lines of _page.py are lines of the page):\n{printed}"
    CLAIMS.get(name(page), lambda folder: None)(tmp_path)


LEFT_OUT = [
    pytest.param(block.not_run, id=f"{name(page)}:{block.first_line - 1}")
    for page in PAGES
    for block in blocks_of(page.read_text(encoding="utf-8"))
    if block.not_run is not None
]


if LEFT_OUT:

    @pytest.mark.parametrize("reason", LEFT_OUT)
    def test_block_left_out(reason: str) -> None:
        assert reason, "say why: <!-- not run: reason -->"
        pytest.skip(f"not run: {reason}")


# The harness itself: it must not pass a page that does not work.


def outcome(page: str, folder: Path) -> tuple[int, str]:
    return run(script_of(blocks_of(page)), folder)


def test_blocks_share_names_in_order(tmp_path: Path) -> None:
    page = "```python\nx = 20\n```\ntext\n\n- item\n\n    ```python\n    print(x + 3)\n    ```\n"
    assert outcome(page, tmp_path) == (0, "23\n")


def test_a_failing_block_fails_at_its_line_in_the_page(tmp_path: Path) -> None:
    code, printed = outcome("# Title\n\n```python\nok = 1\nok / 0\n```\n", tmp_path)
    assert code == 1
    assert "line 5" in printed
    assert "ZeroDivisionError" in printed


def test_a_failing_command_fails(tmp_path: Path) -> None:
    code, printed = outcome("```console\n$ ciga no-such-command-at-all\noutput\n```\n", tmp_path)
    assert code == 1
    assert "no-such-command-at-all" in printed


def test_a_failing_command_in_a_pipe_fails(tmp_path: Path) -> None:
    assert outcome("```bash\nciga no-such-command-at-all | cat\n```\n", tmp_path)[0] == 1


def test_several_commands_share_an_import_but_nothing_of_the_page(tmp_path: Path) -> None:
    """Each exits with its own code and sees the page's folder, but none of its Python objects."""
    registers = """
```python
from ciga.methods.base import register
from ciga.methods.erm import ERM
register("mine")(type("Mine", (ERM,), {"__doc__": "m", "__module__": __name__}))
```
"""
    tiny = "--epochs 1 --data train_per_class=4 --data val_per_class=2 --data test_per_class=2"
    both = f"```bash\nciga run spmotif-struc erm {tiny}\nciga runs\n```\n"
    script = script_of(blocks_of(registers + both))
    assert script.count("_ciga([") == 2
    code, printed = run(script, tmp_path)
    assert code == 0, printed
    assert "1 run in runs" in printed
    code, printed = outcome(f"{registers}{both}```bash\nciga run spmotif-struc mine {tiny}\n```\n", tmp_path)
    assert code == 1
    assert "no method called 'mine'" in printed


def test_commands_are_joined_over_lines_and_installers_are_not_run() -> None:
    page = "```console\n$ ciga run a \\\n>   b --json\n{...}\n$ make demo\n```\n"
    (block,) = blocks_of(page)
    assert block.commands() == [(2, "ciga run a b --json"), (5, "make demo")]
    assert "make demo" not in script_of([block])


@pytest.mark.parametrize(
    "page", ["```bash\nrm -rf x\n```", "```bash\nmakeup\n```", "```pycon\n>>> 1\n```", "```python\n1"]
)
def test_what_would_not_be_run_is_an_error(page: str) -> None:
    with pytest.raises(AssertionError, match="line "):
        script_of(blocks_of(page))


def test_left_out_blocks_are_not_run() -> None:
    page = "<!-- not run: needs a GPU -->\n```python\n1 / 0\n```\n"
    (block,) = blocks_of(page)
    assert block.not_run == "needs a GPU"
    assert script_of([block]) == ""
