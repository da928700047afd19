"""The `ciga` command: parse, call, print. Nothing here imports torch until a command needs it."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated

# Two spinning OpenMP threads beside another busy process are 10 times slower than one. Torch reads this
# when it loads, so it comes first.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import typer

from ciga.cli import bench, catalog, data, fit, model, run, runs, tune
from ciga.cli.help import Command, Group
from ciga.cli.screen import complain, show_warning, warn
from ciga.errors import UsageError, os_sentence, sentence

app = typer.Typer(
    name="ciga",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("methods")(catalog.methods)
app.command("demo")(run.demo)
app.command("datasets")(catalog.datasets)
app.add_typer(data.app, name="data")
app.command("fit")(fit.fit)
app.command("predict")(model.predict)
app.command("explain")(model.explain)
app.command("export")(model.export)
app.command("bench")(bench.bench)
app.command("table")(bench.table)
app.command("figure")(bench.figure)
app.command("tune")(tune.tune)
app.add_typer(runs.app, name="runs")
for group in (app, data.app, runs.app):
    group.info.cls = Group
    for command in group.registered_commands:
        command.cls = Command


STOPPED = "\nciga: stopped. The same command continues where this one left off."


def _version(asked: bool) -> None:
    if asked:
        from ciga import __version__

        typer.echo(f"ciga {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Graph classification that keeps working when the data shifts."""


def main() -> None:
    """Run the command line: exit 0 when done, 1 when it failed, 2 for wrong usage, 130 after Ctrl-C."""
    if sys.getfilesystemencoding() != "utf-8":
        # In a locale such as C, Python cannot spell a name like "Größe": begin again in its UTF-8 mode.
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONUTF8": "1"})
    warnings.showwarning = show_warning
    try:
        app(standalone_mode=True, prog_name="ciga")  # however it was started: python -m ciga, too
    except SystemExit as stop:
        if stop.code == 130:  # what typer makes of Ctrl-C, without a word
            warn(STOPPED)
        _flush(stop)
    except KeyboardInterrupt:  # before typer has begun
        warn(STOPPED)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone (`ciga … | head`): nobody is left to complain to.
        _silence()
        sys.exit(1)
    except Exception as error:
        said = sentence(error)
        if said is None:  # a mistake of ours: the traceback is what its report needs
            raise
        complain(said)
        sys.exit(2 if isinstance(error, UsageError) else 1)


def _flush(stop: SystemExit) -> None:
    """End as asked, unless the last of our output has no place to go."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        sys.exit(1)
    except OSError as error:
        _silence()
        complain(os_sentence(error, "The output"))
        sys.exit(1)
    raise stop


def _silence() -> None:
    """Let what is still to be printed go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
