"""The options that `ciga bench`, `table` and `figure` share, and what they mean."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ciga.cli.screen import again, complete
from ciga.errors import UsageError

if TYPE_CHECKING:
    from ciga.bench.exhibit import Exhibit, Own
    from ciga.bench.grid import Variation
    from ciga.runs.records import Records

Name = Annotated[
    str,
    typer.Argument(
        help="A table or figure, or its number in the paper (see: ciga bench --list).",
        autocompletion=complete("exhibits"),
    ),
]
Methods = Annotated[
    list[str],
    typer.Option(
        "--methods",
        help="Only these rows, comma-separated; all: also those not in the paper; none: only your own.",
    ),
]
Datasets = Annotated[
    list[str],
    typer.Option(
        "--datasets",
        help="Only these columns, comma-separated; all: also those not in the paper; none: only your own.",
    ),
]
Seeds = Annotated[str | None, typer.Option("--seeds", help="Seeds, like 1-5 or 1,3,5; else the paper's.")]
Epochs = Annotated[int | None, typer.Option("--epochs", help="Maximum number of epochs (--set epochs=N).")]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="Settings to start from: published (the default: these are the paper's tables), tuned, none.",
    ),
]
Rows = Annotated[
    list[str],
    typer.Option("--row", help="A row of your own: 'LABEL=METHOD' or 'LABEL=METHOD:key=value,key=value'."),
]
Columns = Annotated[
    list[str],
    typer.Option(
        "--column", help="A column of your own: 'LABEL=DATASET' or 'LABEL=DATASET:key=value,key=value'."
    ),
]
Also = Annotated[
    list[Path], typer.Option("--results", help="Folders with more records (*.jsonl), only read.")
]
ALSO = [Path("results")]
#: Nobody repeats an experiment more often; a slip of the finger must not fill the memory.
MOST_SEEDS = 1000


def form_of(asked: str, out: Path | None) -> str:
    """How a table is shown; a format that does not exist is refused before any record is read."""
    from ciga.bench.render import FORMATS

    if asked == "auto":
        return "screen" if out is None and sys.stdout.isatty() else "md"
    if asked == "screen" and out is not None:
        raise UsageError("--format screen is for a terminal: with --out use md, latex, html or csv.")
    if asked not in ("screen", *FORMATS):
        raise UsageError(f"There is no format '{asked}': use screen, {', '.join(FORMATS)}.")
    return asked


def parse_seeds(text: str | None) -> list[int]:
    """`1-3,7` -> [1, 2, 3, 7]; None -> []."""

    if text is None:
        return []
    found: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            numbers = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise UsageError(f"--seeds takes numbers and ranges like 1-5 or 1,3,5, not '{text}'.") from None
        if not numbers:
            raise UsageError(f"--seeds {text}: {part} is an empty range.")
        # (Python cannot say the length of a range beyond 2**63.)
        if numbers.stop - numbers.start > MOST_SEEDS or len(found) + len(numbers) > MOST_SEEDS:
            raise UsageError(f"--seeds {text}: at most {MOST_SEEDS} seeds at a time.")
        found |= dict.fromkeys(numbers)
    return list(found)


def ranges(numbers: Sequence[int]) -> str:
    """[1, 2, 3, 7] -> `1-3,7`, as --seeds takes them."""
    out: list[list[int]] = []
    for number in sorted(numbers):
        if out and number == out[-1][-1] + 1:
            out[-1].append(number)
        else:
            out.append([number])
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in out)


def names(given: Sequence[str]) -> list[str]:
    """What was said, one option with commas or several times."""
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


def repeated(
    methods: Sequence[str],
    datasets: Sequence[str],
    runs_dir: Path,
    variation: Variation | None = None,
    seeds: Sequence[int] = (),
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> str:
    """The options that the next command must repeat to mean the same part of a table, and the same runs.

    Args:
        methods: those that were asked for.
        datasets: likewise.
        runs_dir: where runs are kept.
        variation: how the runs differ from the paper's; None if the next command remembers it.
        seeds: those that were asked for.
        rows: the user's own.
        columns: likewise.
    """
    from ciga.bench.grid import PUBLISHED

    words = ["--methods", ",".join(names(methods))] if methods else []
    words += ["--datasets", ",".join(names(datasets))] if datasets else []
    words += ["--seeds", ranges(seeds)] if seeds else []
    words += [word for text in rows for word in ("--row", text)]
    words += [word for text in columns for word in ("--column", text)]
    pairs: list[str] = []
    plugins: list[Path] = []
    if variation is not None:
        words += [word for key, value in variation.settings.items() for word in ("--set", f"{key}={value}")]
        words += ["--preset", variation.preset] if variation.preset != PUBLISHED else []
        pairs = [f"{key}={value}" for key, value in variation.data.items()]
        plugins = [Path(file) for file in variation.plugins]
    return "".join(f" {shlex.quote(word)}" for word in words) + again(pairs, plugins, runs_dir)


def records_for(shown: Exhibit, runs_dir: Path, results: Sequence[Path]) -> Records:
    """Where finished runs are looked up; new ones go to the first folder.

    `results` has no weights: what is drawn from models is looked up in `runs_dir` alone.
    """
    from ciga.bench.exhibit import Figure
    from ciga.runs.records import Records

    also = () if isinstance(shown, Figure) and shown.of_models else results
    return Records([runs_dir, *(r for r in also if r != runs_dir)])


def variation_of(
    set_: Sequence[str], data: Sequence[str], epochs: int | None, preset: str | None, plugins: Sequence[Path]
) -> Variation:
    """How the runs differ from the paper's.

    Args:
        set_: Settings, each `key=value`.
        data: Options of the datasets, each `key=value`.
        epochs: The maximum number of epochs; None for the preset's.
        preset: Where settings start; None for the paper's.
        plugins: Python files to load first.
    """
    from ciga import options
    from ciga.bench.grid import PUBLISHED, Variation
    from ciga.registry import load_plugin

    for file in plugins:
        load_plugin(file)
    settings: dict[str, Any] = dict(options.parse_pairs(set_, "--set"))
    if epochs is not None:
        settings["epochs"] = epochs
    found = tuple(str(p.resolve()) for p in plugins)
    return Variation(options.parse_pairs(data, "--data"), settings, preset or PUBLISHED, found)


def own_of(shown: Exhibit, rows: Sequence[str], columns: Sequence[str]) -> Own:
    """`LABEL=METHOD:key=value,…` and `LABEL=DATASET:key=value,…` as rows and columns of a table."""
    from ciga.bench.exhibit import Column, Own, PaperTable, Row
    from ciga.data.dataset import datasets

    if (rows or columns) and not isinstance(shown, PaperTable):
        raise UsageError(f"{shown.name} is not a table of methods: --row and --column are for those.")
    own_rows = [
        Row(key, label, method, settings, group="ours", extra=True)
        for key, label, method, settings in (_own(text, "--row", "METHOD") for text in rows)
    ]
    own_columns = []
    for key, label, dataset, data in (_own(text, "--column", "DATASET") for text in columns):
        metric = datasets[dataset].metric
        scale = 1.0 if metric == "mcc" else 100.0
        own_columns.append(Column(key, label, dataset, metric, scale, data, extra=True))
    return Own(own_rows, own_columns)


def _own(text: str, flag: str, what: str) -> tuple[str, str, str, dict[str, str]]:
    """`LABEL=NAME:key=value,…` as a key, the label, the name and the options."""
    from ciga import options

    label, sign, rest = text.partition("=")
    name, _, pairs = rest.partition(":")
    if not sign or not label.strip() or not name.strip():
        raise UsageError(f"{flag} takes LABEL={what}:key=value,…, not '{text}'.")
    given = options.parse_pairs([p for p in pairs.split(",") if p.strip()], flag)
    return label.strip().lower().replace(" ", "-"), label.strip(), name.strip(), given


def remember(
    runs_dir: Path,
    name: str,
    variation: Variation,
    seeds: Sequence[int],
    rows: Sequence[str],
    columns: Sequence[str] = (),
    named: Sequence[str] = (),
) -> None:
    """So that `ciga table NAME` shows what `ciga bench NAME` ran.

    Args:
        runs_dir: where runs are kept.
        name: the table or figure.
        variation: how its runs differ from the paper's.
        seeds: those that were asked for.
        rows: the user's own.
        columns: likewise.
        named: methods and datasets that were asked for by name.
    """
    from ciga.files import write_json

    said = {
        "data": dict(variation.data),
        "settings": dict(variation.settings),
        "preset": variation.preset,
        "plugins": list(variation.plugins),
        "seeds": list(seeds),
        "rows": list(rows),
        "columns": list(columns),
        "named": list(named),
    }
    write_json(runs_dir / "bench" / f"{name}.json", said)


class Recalled(NamedTuple):
    """What `remember` wrote, or nothing of the kind."""

    variation: Variation
    seeds: list[int]
    rows: list[str]
    columns: list[str]
    named: list[str]  # methods and datasets


def recall(runs_dir: Path, name: str) -> Recalled:
    """What the last `ciga bench` of this table or figure was asked for; its plugins are loaded."""
    from ciga.bench.grid import Variation
    from ciga.registry import load_plugin

    file = runs_dir / "bench" / f"{name}.json"
    if not file.is_file():
        return Recalled(Variation(), [], [], [], [])
    said = json.loads(file.read_text(encoding="utf-8"))
    for plugin in said["plugins"]:
        load_plugin(plugin)
    variation = Variation(said["data"], said["settings"], said["preset"], tuple(said["plugins"]))
    return Recalled(variation, said["seeds"], said["rows"], said.get("columns", []), said.get("named", []))
