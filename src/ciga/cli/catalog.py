"""`ciga methods`, `ciga datasets`, `ciga bench --list`: what there is, without loading torch."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ciga.cli.index import SHORT, index, load
from ciga.cli.run import AsJson, Plugins
from ciga.cli.screen import again, complete, listing, next_step

SHOW = "Show this one in detail."
MethodName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help=SHOW, autocompletion=complete("methods"))
]
DatasetName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help=SHOW, autocompletion=complete("datasets"))
]


def methods(name: MethodName = None, json_: AsJson = False, plugin: Plugins = []) -> None:  # noqa: B006
    """List every method; with NAME, its idea and its hyper-parameters."""
    from rich.console import Console

    rows = _chosen("method", index(plugin)["methods"], name)
    if json_:
        typer.echo(json.dumps(rows))
        return
    console = Console()
    if name is not None:
        _show_method(name, rows[name], console)
        next_step(f"ciga run spmotif-struc {name}{again(plugins=plugin)}", "trains it")
        return
    view = listing("method", "what it does", "kind")
    view.columns[0].no_wrap = True
    for key, row in rows.items():
        marks = [mark for mark in ("environments", "subgraph") if row[mark]]
        view.add_row(f"[bold]{key}[/]", row["summary"], "\n".join(marks))
    console.print(view, highlight=False)
    console.print(
        "environments: needs groups of training graphs; subgraph: says which part of a graph it uses.",
        style="dim",
        highlight=False,
    )
    next_step("ciga methods ciga-v2", "shows one in detail")


def datasets(name: DatasetName = None, json_: AsJson = False, plugin: Plugins = []) -> None:  # noqa: B006
    """List every dataset; with NAME, its shift, sizes, files and options."""
    from rich.console import Console

    if json_:  # for programs: also what only the built data know, such as the sizes of one's own
        from ciga.data.check.overview import overview

        load(plugin)
        typer.echo(json.dumps(_chosen("dataset", overview(), name)))
        return
    rows = _chosen("dataset", index(plugin)["datasets"], name)
    for row in rows.values():
        row["missing_files"] = _missing(row["files"])
        row["files_here"] = not row["missing_files"]
    console = Console()
    if name is not None:
        _show_dataset(name, rows[name], console, again(plugins=plugin))
        return
    view = listing("dataset", "shift", "classes", "metric", "train", "test", "files")
    for place in (0, 3, 4, 5, 6):
        view.columns[place].no_wrap = True
    for place in (2, 4, 5):
        view.columns[place].justify = "right"
    for key, row in rows.items():
        sizes = row["sizes"] or {}
        counts = [f"{sizes[part]:,}" if part in sizes else "" for part in ("train", "ood_test")]
        shift = re.sub(r" \((FIIF|PIIF|FIIF or PIIF)\)", "", row["shift"])
        shift = shift.replace(", size optional", " (+ size)")
        state = "yours" if not sizes else "here" if row["files_here"] else "[yellow]missing[/]"
        view.add_row(f"[bold]{key}[/]", shift, str(row["classes"] or ""), row["metric"] or "", *counts, state)
    console.print(view, highlight=False)
    console.print(
        f"train, test: graphs for training and of the shifted test. Files are looked for in {_data_home()} "
        "(set CIGA_DATA to change that).",
        style="dim",
        highlight=False,
    )
    next_step("ciga datasets spmotif-struc", "shows one in detail")


def exhibits(runs_dir: Path, results: Sequence[Path]) -> None:
    """Every table and figure, how much of it is recorded, and how long the rest takes."""
    from rich.console import Console

    known = recorded([runs_dir, *results])
    view = listing("name", "what it shows", "runs", "recorded", "hours left")
    for place in (0, 2, 3, 4):
        view.columns[place].no_wrap = True
    for place in (2, 3, 4):
        view.columns[place].justify = "right"
    for name, row in index()["exhibits"].items():
        runs = row["runs"].split()
        done = len(known.intersection(runs))
        left = row["seconds"] * (len(runs) - done) / max(len(runs), 1) / 3600
        numbers = [str(len(runs)), str(done), f"{left:.1f}"] if runs else ["none", "", "0"]
        view.add_row(f"[bold]{name}[/]", f"{row['title']}; {row['source']}", *numbers)
    console = Console()
    console.print(view, highlight=False)
    console.print(
        "Hours left: on one core, a rough guess from the size of the data. Runs that two of them share are "
        "done once. ciga bench NAME --dry-run estimates from your own records.",
        style="dim",
        highlight=False,
    )
    next_step("ciga bench table-spmotif --quick", "a slice of at most half an hour")


def recorded(folders: Iterable[Path]) -> set[str]:
    """The beginnings of the hashes of all records in these folders of runs, or of lists of records."""
    found: set[str] = set()
    for folder in folders:
        found |= {file.parent.name[:SHORT] for file in folder.glob("*/record.json")}
        for file in (*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")):
            data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            found |= {h.decode()[:SHORT] for h in re.findall(rb'"hash": ?"([0-9a-f]+)"', data)}
    return found


# ---------------------------------------------------------------- one in detail


def _show_method(name: str, row: dict[str, Any], console: Any) -> None:
    needs = ["needs environments"] if row["environments"] else []
    needs += ["extracts a subgraph"] if row["subgraph"] else []
    needs += ["for " + ", ".join(row["scms"])] if row["scms"] else []
    console.print(f"[bold]{name}[/]: {row['summary']}" + (f" ({'; '.join(needs)})" if needs else ""))
    _about(row["about"], console)
    _show_options("hyper-parameter", row["hyperparameters"], console)
    console.print("Set one with --set NAME=VALUE; ciga tune searches the values to try.", style="dim")


def _show_dataset(name: str, row: dict[str, Any], console: Any, plugins: str) -> None:
    console.print(f"[bold]{name}[/]: {row['summary']}", highlight=False)
    _about(row["about"], console)
    said = {"paper": " (as the paper counts them)", "publisher": " (as their publisher counts them)"}
    sizes = ", ".join(f"{part} {count:,}" for part, count in (row["sizes"] or {}).items())
    facts = {
        "shift": row["shift"],
        "classes": row["classes"] or "as in your data",
        "metric": row["metric"] or "as in your data",
        "graphs": sizes + said.get(row["sizes_from"] or "", "") if sizes else "as in your data",
        "files": "all here" if row["files_here"] else "missing: " + ", ".join(row["missing_files"]),
    }
    for key, value in facts.items():
        console.print(f"{key + ':':9} {value}", highlight=False, markup=False)
    console.print()
    _show_options("option", row["options"], console)
    console.print("Set one with --data NAME=VALUE.", style="dim")
    if row["files_here"]:
        next_step(
            f"ciga run {name} ciga-v2{plugins}", f"trains on it; ciga data stats {name}{plugins} counts it"
        )
    elif row["sizes"]:
        next_step(f"ciga data prepare {name}{plugins}", "gets its files, or says where they are from")
    else:
        next_step("ciga fit FILE --out model", "trains on your own file")


def _about(text: str, console: Any) -> None:
    """A docstring, its paragraphs wrapped to the window."""
    for paragraph in text.split("\n\n"):
        console.print()
        console.print(" ".join(paragraph.split()), markup=False, highlight=False)
    console.print()


def _show_options(kind: str, options: dict[str, Any], console: Any) -> None:
    from rich.markup import escape

    if not options:
        return
    grids = any(row.get("grid") for row in options.values())
    view = listing(kind, "default", *(["values to try"] if grids else []), "meaning")
    view.columns[0].no_wrap = True
    for key, row in options.items():
        grid = [" ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in row.get("grid", ()))]
        default = "none" if row["default"] is None else str(row["default"])
        view.add_row(key, escape(default), *(map(escape, grid) if grids else ()), escape(row["help"]))
    console.print(view, highlight=False)


def _chosen(kind: str, rows: dict[str, Any], name: str | None) -> dict[str, Any]:
    from ciga.errors import unknown

    if name is not None and name not in rows:
        raise unknown(kind, name, rows)
    return rows if name is None else {name: rows[name]}


def _missing(files: Sequence[Sequence[str]]) -> list[str]:
    """What is missing of the list of files that is nearest to being complete."""
    found = [[f for f in needed if not (_data_home() / f).is_file()] for needed in files]
    return min(found, key=len)


def _data_home() -> Path:
    """As `ciga.data.dataset` has it, without loading torch."""
    import os

    import platformdirs

    home = os.environ.get("CIGA_DATA")
    return Path(home).expanduser() if home else Path(platformdirs.user_cache_dir("ciga"))
