"""The page of commands, from the commands themselves: python tools/commands.py prints it."""

from __future__ import annotations

from typing import Any

START = """# Commands

Every command with its options and an example. The page is written from the program itself, and
`ciga COMMAND --help` shows the same in a terminal. Words in capitals stand for what you type: `N` for a
number, `PATH` for a file or folder.

| exit code | meaning |
|---:|---|
| 0 | done |
| 1 | failed |
| 2 | wrong usage |
| 130 | stopped by Ctrl-C |
"""


def page() -> str:
    """Every command with its arguments and options, as Markdown, in the groups of `ciga --help`."""
    import typer

    from ciga.cli import app
    from ciga.cli.help import GROUPS

    root: Any = typer.main.get_command(app)
    lines = [START.rstrip()]
    for title, names in GROUPS.items():
        lines += ["", f"## {title}"]
        for name in names:
            lines += _section(name, root.commands[name])
    return "\n".join(lines) + "\n"


def _section(path: str, command: Any) -> list[str]:
    from ciga.cli.help import EXAMPLES

    found = ["", f"### ciga {path}", "", _text(command.help)]
    if path in EXAMPLES:
        found += ["", "```text", *EXAMPLES[path], "```"]
    found += _options(command)
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        found += _section(f"{path} {name}", inner)
    return found


def _options(command: Any) -> list[str]:
    from ciga.cli.help import described

    rows = [row for row in described(command) if row[0] != "--help"]
    if not rows:
        return []
    lines = ["", "| argument or option | meaning |", "|---|---|"]
    for names, takes, meaning, default in rows:
        shown = "`, `".join(names.split(", ")) + (f" {takes}" if takes else "")
        lines.append(f"| `{shown}` | {_text(meaning)}{f' Default: `{default}`.' if default else ''} |")
    return lines


def _text(text: str | None) -> str:
    """One line, safe inside a table; typer's form feed separates what only the terminal shows."""
    return " ".join((text or "").split("\f")[0].split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(page())
