"""How the command line looks: one kind of table, one way to say what to type next."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


COMMAND = re.compile(r"(?<=  )ciga .+?(?=  |[.,;:]? *$)")
HOLD = "\x00"  # where a line may not be broken


def listing(*columns: str, title: str | None = None) -> Table:
    """An open table for a list; columns that must not be cut are set `no_wrap` by the caller."""
    from rich import box
    from rich.table import Table

    return Table(
        *columns,
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )


def never_cut(table: Table) -> Table:
    """In a narrow window the names in the first column stay whole, and other columns break their lines."""
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.overflow = "fold"
    return table


def say(console: Console, text: str, style: str = "") -> None:
    """A sentence. A terminal breaks it between words, but not within a command; piped, it stays one line."""
    if console.is_terminal:
        text = "\n".join(part for line in text.split("\n") for part in broken(line, console.width))
    console.print(text, style=style, soft_wrap=True, highlight=False, markup=False, emoji=False)


def broken(line: str, width: int) -> list[str]:
    """A line as those of a window: commands, set off by two blanks, stay whole so that they can be copied."""
    held = COMMAND.sub(lambda command: command[0].replace(" ", HOLD), line)
    parts = wrap(held, width, break_long_words=False, break_on_hyphens=False)
    return [part.replace(HOLD, " ") for part in parts] or [""]


def tell(text: str, err: bool = False) -> None:
    """A sentence on standard output; or on standard error, where it is not the result."""
    from rich.console import Console

    say(Console(stderr=err), text)


def next_step(command: str, why: str = "") -> None:
    """The next sensible command, on standard error: it is advice, not a result.

    The command is never broken, so that it can be copied. A reason that does not fit beside it goes below.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(stderr=True)
    line = f"Next:  {command}" + (f"   ({why})" if why else "")
    if not console.is_terminal or len(line) <= console.width or not why:
        typer.echo(line, err=True)
        return
    typer.echo(f"Next:  {command}", err=True)
    console.print(Padding(Text(f"({why})"), (0, 0, 0, 7), expand=False))


def again(pairs: Sequence[str] = (), plugins: Sequence[Path] = (), runs_dir: Path = Path("runs")) -> str:
    """The options that the next command must repeat to mean the same data, plugins and records."""
    words = [word for pair in pairs for word in ("--data", pair)]
    words += [word for file in plugins for word in ("--plugin", str(file))]
    words += ["--runs-dir", str(runs_dir)] if runs_dir != Path("runs") else []
    return "".join(f" {shlex.quote(word)}" for word in words)


def warn(text: str) -> None:
    """A warning on standard error, in yellow where there is colour."""
    _coloured(text, "yellow")


def complain(text: str) -> None:
    """What went wrong, on standard error, in red where there is colour."""
    _coloured(f"ciga: {text}", "red")


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Takes the place of `warnings.showwarning`: our own are sentences for the user, without their place.

    Args:
        message: the warning.
        category: its class.
        filename: where it was raised.
        lineno: the line there.
        file: where Python would write it.
        line: the text of that line.
    """
    if Path(filename).is_relative_to(Path(__file__).parents[1]):
        warn(f"ciga: {message}")
    else:
        (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))


def _coloured(text: str, style: str) -> None:
    # Rich leaves the colour out where standard error is not a terminal, and where NO_COLOR is set.
    from rich.console import Console

    say(Console(stderr=True), text, style)


def complete(kind: str) -> Callable[[str], list[str]]:
    """What the shell offers after Tab: the methods, datasets or exhibits that begin so."""

    def offer(incomplete: str) -> list[str]:
        from ciga.cli.index import index

        return [name for name in index()[kind] if name.startswith(incomplete)]

    return offer
