"""The help screens: what a command is for, its words in plain types, and an example that works."""

from __future__ import annotations

import inspect
import re
import types
import typing
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

#: Groups of `ciga --help`, in this order.
GROUPS = {
    "Your own data": ("fit", "predict", "explain", "export"),
    "Experiments": ("run", "tune", "runs", "demo"),
    "The paper": ("bench", "table", "figure"),
    "What there is": ("methods", "datasets", "data"),
}
EXAMPLES = {
    "ciga": (
        "ciga demo --quick",
        "ciga fit molecules.csv --label active --out model",
        "ciga run spmotif-struc ciga-v2",
        "ciga table 1",
    ),
    "run": (
        "ciga run spmotif-struc ciga-v2 --seed 1",
        "ciga run nci1 erm --preset published --set lr=0.001 --report run.html",
    ),
    "demo": ("ciga demo --quick",),
    "fit": (
        "ciga fit molecules.csv --label active --out model",
        "ciga fit molecules.csv --label active --split scaffold --seeds 5 --out model",
    ),
    "predict": (
        "ciga predict model new.csv --out predictions.csv",
        "ciga predict model --smiles CCOc1ccccc1",
    ),
    "explain": ("ciga explain model molecules.csv --out report.html",),
    "export": ("ciga export model --format onnx",),
    "bench": (
        "ciga bench --list",
        "ciga bench table-spmotif --quick",
        "ciga bench table-size --methods erm,ciga-v2 --seeds 1-3 --dry-run",
    ),
    "table": ("ciga table 1", "ciga table table-size --format latex --out size.tex"),
    "figure": ("ciga figure 4 --out figures", "ciga figure figure-ranks"),
    "tune": ("ciga tune spmotif-struc ciga-v2 --trials 20 --out best.toml",),
    "methods": ("ciga methods", "ciga methods ciga-v2"),
    "datasets": ("ciga datasets", "ciga datasets spmotif-struc"),
    "runs": ("ciga runs --method 'ciga-*'", "ciga runs show 3e2052a5"),
    "runs export": ("ciga runs export --csv runs.csv", "ciga runs export --jsonl results/mine.jsonl"),
    "runs show": ("ciga runs show 3e2052a5",),
    "runs compare": ("ciga runs compare 3e2052a5 7ca5552b",),
    "data": ("ciga data check molecules.csv --label active",),
    "data prepare": ("ciga data prepare nci1",),
    "data stats": ("ciga data stats nci1",),
    "data check": ("ciga data check molecules.csv --label active",),
}


#: What the parser says, and the same for a person.
PLAINLY = {
    r"Input should be a valid integer.*": "It must be a whole number.",
    r"Input should be a valid number.*": "It must be a number.",
    r"Input should be greater than or equal to (\S+)": r"It must be at least \1.",
    r"Input should be less than or equal to (\S+)": r"It must be at most \1.",
}


def plainly(message: str) -> str:
    """An error of the parser in plain words; one that is not known stays as it is."""
    for pattern, plain in PLAINLY.items():
        message = re.sub(pattern, plain, message)
    return message


class Command(TyperCommand):
    """A command with our help screen; usage lines and errors call an argument what the help calls it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            if param.param_type_name == "argument" and param.metavar is None:
                param.metavar = str(param.name).rstrip("_").upper()

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the words that were typed; what is wrong with them is said plainly."""
        try:
            return super().make_context(*args, **extra)
        except Exception as error:
            wrong: Any = error
            if isinstance(getattr(error, "message", None), str) and hasattr(error, "exit_code"):
                wrong.message = plainly(wrong.message)
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line above an error."""
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return [*(_argument(p) for p in arguments), "[options]"]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print it."""
        _screen(self, ctx, {})


class Group(TyperGroup):
    """A group of commands with our help screen."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line above an error."""
        return ["COMMAND", "[options]"]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print it; commands stand in the groups above."""
        listed = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        found = {name: command for name, command in listed if command is not None}
        if ctx.parent is not None:
            _screen(self, ctx, {"Commands": found})
            return
        parts = {title: {n: found.pop(n) for n in names} for title, names in GROUPS.items()}
        _screen(self, ctx, {**parts, **({"More": found} if found else {})})


def _screen(command: Any, ctx: Any, groups: dict[str, dict[str, Any]]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    words = _types(command.callback) if command.callback else {}
    params = [p for p in command.get_params(ctx) if not p.hidden]
    arguments = [p for p in params if p.param_type_name == "argument"]
    options = [p for p in params if p.param_type_name == "option"]
    usage = [ctx.command_path, *(_argument(p) for p in arguments)]
    usage += ["COMMAND"] if groups else []
    console.print(f"[bold]Usage:[/] {_escape(' '.join(usage))} \\[options]\n")
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        console.print(" ".join(paragraph.split()) + "\n", markup=False)
    for title, commands in groups.items():
        rows = [(name, (c.help or c.short_help or "").split("\n\n")[0]) for name, c in commands.items()]
        _block(console, title, rows)
    _block(console, "Arguments", [(_argument(p), p.help or "") for p in arguments])
    _block(console, "Options", [(_option(p, words.get(p.name, "")), _meaning(p)) for p in options])
    path = ctx.command_path.partition(" ")[2]  # "runs export" is not "export"
    examples = EXAMPLES.get(path or "ciga", ())
    if examples:
        console.print("[bold]Examples[/]")
        for example in examples:
            console.print(f"  {example}", markup=False, soft_wrap=True)


def _block(console: Any, title: str, rows: list[tuple[str, str]]) -> None:
    from rich.table import Table

    if not rows:
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column()
    for left, right in rows:
        table.add_row(f"  {_escape(left)}", _escape(" ".join(right.split())))
    console.print(f"[bold]{title}[/]")
    console.print(table)
    console.print()


def _argument(param: Any) -> str:
    word = str(param.metavar or param.name.rstrip("_").upper())
    return word + ("..." if param.nargs != 1 else "")


def described(command: Any) -> list[tuple[str, str, str, str]]:
    """Each argument and option of a command: its names, what it takes, its meaning, its default."""
    words = _types(command.callback) if command.callback else {}
    found = []
    for param in command.params:
        if getattr(param, "hidden", False):
            continue
        if param.param_type_name == "argument":
            found.append((_argument(param), "", param.help or "", ""))
            continue
        names = ", ".join([*param.opts, *param.secondary_opts])
        found.append((names, _word(param, words.get(param.name, "")), _help(param), _default(param)))
    return found


def _word(param: Any, word: str) -> str:
    """A plain word for what an option takes; nothing for a flag."""
    if getattr(param, "is_flag", False) or param.name == "help":
        return ""
    return str(param.metavar or word or "TEXT")


def _option(param: Any, word: str) -> str:
    return " ".join([", ".join([*param.opts, *param.secondary_opts]), _word(param, word)]).strip()


def _help(param: Any) -> str:
    needed = param.required and param.param_type_name == "option"
    return " ".join([param.help or "", *(["Required."] if needed else [])])


def _default(param: Any) -> str:
    given = param.default
    if callable(given) or given is None or isinstance(given, bool) or given in ([], (), ""):
        return ""
    return " ".join(map(str, given)) if isinstance(given, list) else str(given)


def _meaning(param: Any) -> str:
    said = _default(param)
    return _help(param) + (f" [default: {said}]" if said else "")


def _types(callback: Any) -> dict[str, str]:
    """A plain word for what each option takes."""
    names = {int: "N", float: "N", Path: "PATH", bool: "", str: "TEXT"}
    return {key: names.get(_base(hint), "TEXT") for key, hint in typing.get_type_hints(callback).items()}


def _base(hint: Any) -> Any:
    """`int` of `int | None`, `list[int]` and `Annotated[int, …]`."""
    inner = [a for a in typing.get_args(hint) if a is not types.NoneType]
    return _base(inner[0]) if inner else hint


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
