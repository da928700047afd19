"""`ciga data …`: build a dataset, count it, and look for what is wrong with it."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ciga.cli.run import AsJson, DataPairs, Plugins
from ciga.cli.screen import again, complete, listing, next_step, say, tell
from ciga.data.reading.json_graphs import refuse_damaged
from ciga.errors import UsageError

if TYPE_CHECKING:
    from ciga.graphs.splits import Splits

app = typer.Typer(help="Build, describe and check datasets.", no_args_is_help=True)
#: How the names of files end that can be read; `which` looks closer.
TABLES = (".csv", ".tsv", ".txt", ".smi", ".parquet")
FILES = (*TABLES, ".json", ".jsonl", ".pt", ".safetensors", ".gz", ".xz", ".bz2")
Name = Annotated[
    str, typer.Argument(help="A dataset (see: ciga datasets).", autocompletion=complete("datasets"))
]


@app.command()
def prepare(name: Name, data: DataPairs = [], plugin: Plugins = [], json_: AsJson = False) -> None:  # noqa: B006
    """Get the files of a dataset and build its cache, so that the first run starts at once."""
    from ciga.data.cache import cache_home

    _load(plugin)
    start = time.monotonic()
    splits = _build(name, data)
    seconds = time.monotonic() - start
    sizes = {part: splits[part].num_graphs for part in splits}
    if json_:
        typer.echo(
            json.dumps(
                {"name": name, "splits": sizes, "fingerprint": splits.fingerprint(), "seconds": seconds}
            )
        )
        return
    tell(f"{name} is ready after {seconds:.1f} s: " + ", ".join(f"{p} {n:,}" for p, n in sizes.items()) + ".")
    tell(f"Caches are in {cache_home()} (set CIGA_CACHE to change that).")
    next_step(f"ciga data stats {name}{again(data, plugin)}", "counts it")


@app.command()
def stats(name: Name, data: DataPairs = [], plugin: Plugins = [], json_: AsJson = False) -> None:  # noqa: B006
    """Print graphs, nodes, edges and class shares of each split, with the paper's figures beside ours."""
    from rich.console import Console

    from ciga.data.check.overview import statistics

    _load(plugin)
    found = statistics(name, _build(name, data))
    if json_:
        typer.echo(json.dumps(found))
        return
    console = Console()
    console.print(_stats_table(found))
    remark = (found["paper"] or {}).get("remark")
    for key, note in {**({"paper": remark} if remark else {}), **found["notes"]}.items():
        if not key.startswith("all."):
            say(console, f"{key}: {note}", "dim")
    next_step(f"ciga data check {name}{again(data, plugin)}", "looks for leakage and shifts")


@app.command()
def check(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A dataset, a table of SMILES, or graphs.")
    ],
    smiles: Annotated[str | None, typer.Option(help="Table: the column of SMILES.")] = None,
    label: Annotated[
        str | None, typer.Option(help="File: the column (or value of a graph) to predict.")
    ] = None,
    env: Annotated[str | None, typer.Option(help="File: the column of environments.")] = None,
    split: Annotated[
        str | None,
        typer.Option(help="File: scaffold, cluster, similarity, group:COLUMN, time:COLUMN …"),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="File: stop at the first bad row.")] = False,
    data: DataPairs = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    json_: AsJson = False,
) -> None:
    """Look for leakage between splits, shifts, constant columns and odd environments."""
    refuse_unreadable(name)
    from rich.console import Console

    from ciga.cli.progress import epoch_bar
    from ciga.data.check.report import check as examine

    _load(plugin)
    given = {
        "smiles": smiles,
        "label": label,
        "env": env,
        "split": split,
        "strict": "true" if strict else None,
    }
    asked = {key: value for key, value in given.items() if value is not None}
    dataset, path = which(name)
    if path is None and asked:
        raise UsageError(
            f"--{next(iter(asked))} is for files; {name} is a dataset: give its options with --data."
        )
    if dataset == "graphs" and "smiles" in asked:
        raise UsageError(f"--smiles is for tables; {name} holds graphs.")
    ask_for_label(dataset, path, [*asked, *(pair.partition("=")[0] for pair in data)])
    splits = _build(dataset, data, {**asked, **({"path": str(path)} if path else {})})
    with epoch_bar(f"check {name}", enabled=not json_) as bar:
        report = examine(splits, name, bar.data)
    if json_:
        typer.echo(json.dumps(report.as_dict()))
    else:
        Console().print(report)
        if path is None:
            next_step(f"ciga run {name} ciga-v2{again(data, plugin)}", "trains on it")
        else:
            same = [w for key, value in asked.items() for w in (f"--{key}", *([value] * (key != "strict")))]
            words = shlex.join(["ciga", "fit", name, *same]) + again(data, plugin)
            next_step(f"{words} --out model", "trains on it")


def refuse_missing(name: str | Path) -> None:
    """Before torch is imported: a file that is not there."""
    if str(name).lower().endswith(FILES) and not Path(name).expanduser().exists():
        raise UsageError(f"There is no file {name}.")


def refuse_unreadable(name: str) -> None:
    """Before torch is imported: a file that is not there, or that is small and damaged."""
    refuse_missing(name)
    refuse_damaged(Path(name).expanduser())


def ask_for_label(dataset: str, path: Path | None, given: Collection[str]) -> None:
    """Without --label a table's column called `label` is taken; where there is none, say which there are."""
    if (
        dataset != "molecules"
        or "label" in given
        or path is None
        or not path.is_file()
        or not path.stat().st_size
    ):
        return
    from ciga.data.reading.tables import columns_of

    columns = [name for name in columns_of(path) if name]
    if "label" not in columns:
        raise UsageError(f"Say which column to predict: --label COLUMN. {path} has {', '.join(columns)}.")


def which(name: str) -> tuple[str, Path | None]:
    """The dataset to use, and the file where `name` is one."""
    from ciga.data.dataset import datasets as registry
    from ciga.data.reading.graph_files import is_graph_file
    from ciga.data.reading.tables import is_table

    path = Path(name).expanduser()
    if name in registry:
        return registry[name].name, None
    if is_table(path):
        return "molecules", path
    if is_graph_file(path) or path.is_dir():
        return "graphs", path
    if path.exists():
        raise UsageError(
            f"{path} is neither a table (.csv, .tsv, .parquet) nor graphs (.pt, .json, .safetensors)."
        )
    return registry[name].name, None


def _build(name: str, pairs: list[str], values: dict[str, Any] | None = None) -> Splits:
    from ciga import options
    from ciga.cli.progress import epoch_bar
    from ciga.data.dataset import make

    dataset = make(name, {**options.parse_pairs(pairs, "--data"), **(values or {})})
    with epoch_bar(name) as bar:
        return dataset.build(bar.data)


def _load(plugins: list[Path]) -> None:
    from ciga.registry import load_plugin

    for file in plugins:
        load_plugin(file)


def _stats_table(found: dict[str, Any]) -> Any:
    """Our figures, each with the paper's beside it where the paper has one."""
    paper = found["paper"] or {"graphs": {}, "class_shares": {}}
    lines: list[list[str]] = []
    rows = dict(found["splits"])
    if "small" in paper["class_shares"]:
        small = [rows[part]["class_counts"] for part in ("train", "id_val")]
        rows["small"] = {"class_counts": {c: sum(part.get(c, 0) for part in small) for c in small[0]}}
    for part, stats in rows.items():
        counts = stats["class_counts"]
        shares = " ".join(f"{100 * n / sum(counts.values()):.2f}" for n in counts.values())
        theirs = " ".join(f"{share:.2f}" for share in paper["class_shares"].get(part, ()))
        size = paper["graphs"].get(part)
        nodes, edges = (f"{stats[key]:.2f}" if key in stats else "" for key in ("nodes_mean", "edges_mean"))
        graphs = f"{stats['graphs']:,}" if "graphs" in stats else ""
        name = "train + id_val" if part == "small" else part
        lines.append([name, graphs, f"{size:,}" if size else "", nodes, "", edges, "", shares, theirs])
    whole = found["all"]
    means = [f"{paper[key]:.2f}" if key in paper else "" for key in ("nodes_mean", "edges_mean")]
    nodes, edges = f"{whole['nodes_mean']:.2f}", f"{whole['edges_mean']:.2f}"
    lines.append(["all", f"{int(whole['graphs']):,}", "", nodes, means[0], edges, means[1], "", ""])
    header = ("split", "graphs", "paper", "nodes", "paper", "edges", "paper", "class\nshares %", "paper")
    kept = [place for place in range(len(header)) if any(line[place] for line in lines)]
    table = listing(title=f"{found['name']}: {found['classes']} classes, {found['metric']}")
    for place in kept:
        shares_of = place > 6  # of many classes: they may take several lines
        justify: Any = "right" if place else "left"
        table.add_column(header[place], justify=justify, no_wrap=not shares_of, overflow="fold")
    for line in lines:
        table.add_row(*(line[place] for place in kept), end_section=line is lines[-2])
    return table
