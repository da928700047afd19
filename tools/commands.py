"""The page of commands, from the commands themselves: python tools/commands.py prints it."""

from __future__ import annotations

from typing import Any


def page() -> str:
    """Every command with its arguments and options, as Markdown."""
    import typer

    from ciga.cli import app

    root: Any = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        "Written from the program itself; `ciga COMMAND --help` shows the same in a terminal.",
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.",
    ]
    for name, command in sorted(root.commands.items()):
        lines += _section(f"ciga {name}", command)
    return "\n".join(lines) + "\n"


def _section(name: str, command: Any) -> list[str]:
    if hasattr(command, "commands"):
        found = ["", f"## {name}", "", _text(command.help)]
        for sub, inner in sorted(command.commands.items()):
            found += [line.replace("## ", "### ", 1) for line in _section(f"{name} {sub}", inner)]
        own = [p for p in command.params if p.name != "help"]
        return found + _options(own)
    return ["", f"## {name}", "", _text(command.help), *_options(command.params)]


def _options(params: list[Any]) -> list[str]:
    shown = [p for p in params if not getattr(p, "hidden", False)]
    if not shown:
        return []
    lines = ["", "| argument or option | meaning |", "|---|---|"]
    for p in shown:
        options = [*getattr(p, "opts", []), *getattr(p, "secondary_opts", [])]
        title = (
            ", ".join(f"`{o}`" for o in options) if p.param_type_name == "option" else f"`{p.name.upper()}`"
        )
        lines.append(f"| {title} | {_text(getattr(p, 'help', None))} |")
    return lines


def _text(text: str | None) -> str:
    """One line, safe inside a table; typer's form feed separates what only the terminal shows."""
    return " ".join((text or "").split("\f")[0].split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(page())
