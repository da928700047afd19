"""`ciga run` and `ciga demo`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ciga.cli.screen import again, complete, next_step
from ciga.errors import counted

if TYPE_CHECKING:
    from ciga.runs.types import Record

Pairs = Annotated[
    list[str], typer.Option("--set", help="A setting, key=value (repeatable).", metavar="KEY=VALUE")
]
DataPairs = Annotated[
    list[str], typer.Option("--data", help="A dataset option, key=value (repeatable).", metavar="KEY=VALUE")
]
Plugins = Annotated[
    list[Path], typer.Option("--plugin", help="A Python file that registers methods or datasets.")
]
#: One rule for every command: `ciga.runs.settings.default_preset`.
Preset = Annotated[
    str | None,
    typer.Option(
        help="Settings to start from: tuned, published (the paper's), ensemble, own-data, or none; "
        "else own-data for your own files, tuned for every other dataset."
    ),
]
RunsDir = Annotated[Path, typer.Option("--runs-dir", help="Where runs are kept.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, alone, on standard output.")]


def run(
    dataset: Annotated[
        str, typer.Argument(help="A dataset (see: ciga datasets).", autocompletion=complete("datasets"))
    ],
    method: Annotated[
        str, typer.Argument(help="A method (see: ciga methods).", autocompletion=complete("methods"))
    ],
    seed: Annotated[int, typer.Option(help="Seed of the run.", min=0)] = 1,
    epochs: Annotated[
        int | None, typer.Option(help="Maximum number of epochs (same as --set epochs=N).")
    ] = None,
    set_: Pairs = [],  # noqa: B006 (typer copies it)
    data: DataPairs = [],  # noqa: B006
    settings: Annotated[Path | None, typer.Option(help="A settings file (TOML).")] = None,
    preset: Preset = None,
    protocol: Annotated[str, typer.Option(help="ood, or iid: all data shuffled (the oracle rows).")] = "ood",
    runs_dir: RunsDir = Path("runs"),
    plugin: Plugins = [],  # noqa: B006
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int, typer.Option(help="CPU threads of the run.", min=1)] = 1,
    log: Annotated[list[str], typer.Option("--log", help="Also log to this: tensorboard.")] = [],  # noqa: B006
    report: Annotated[Path | None, typer.Option(help="Write an HTML report of the run here.")] = None,
    json_: AsJson = False,
) -> None:
    """Train METHOD on DATASET and record what came out; the same run again returns at once."""
    from ciga import options
    from ciga.cli.progress import epoch_bar
    from ciga.files import check_writable
    from ciga.runs.plan import execute, plan
    from ciga.runs.settings import read_settings
    from ciga.runs.spec import RunSpec
    from ciga.training.device import pick_device
    from ciga.training.loggers import hooks

    pick_device(device)
    if report is not None:
        check_writable(report, is_file=True)
    values: dict[str, Any] = read_settings(settings) if settings else {}
    values |= options.parse_pairs(set_, "--set")
    if epochs is not None:
        values["epochs"] = epochs
    files = tuple(map(str, plugin))
    spec = RunSpec(
        dataset, method, seed, options.parse_pairs(data, "--data"), values, preset or "", protocol, files
    )
    planned = plan(spec)
    with epoch_bar(f"{method} on {dataset}, seed {seed}") as bar:
        bar.stops(planned.settings.training.warmup, planned.settings.training.patience)
        watch = hooks(log, runs_dir / planned.config.hash, bar.epoch)
        record = execute(planned, runs_dir, device=device, threads=threads, progress=bar.data, on_epoch=watch)
        if report is not None:
            from ciga.explain.pages import report_runs

            report_runs([planned], [record], runs_dir, report, progress=bar.data)
    if json_:
        typer.echo(json.dumps(record))
    else:
        _show(record, runs_dir / record["hash"])
        if report is not None:
            typer.echo(f"report: {report}")
        short = record["hash"][:8]
        next_step(f"ciga runs show {short}{again(runs_dir=runs_dir)}", "all of its record")


def demo(
    out: Annotated[Path, typer.Option(help="Where the table and the picture go.")] = Path("ciga-demo"),
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1)] = 3,
    quick: Annotated[bool, typer.Option(help="A tenth of the graphs, for a first look.")] = False,
) -> None:
    """ERM against CIGA on SPMotif at bias 0.9: a table, and a picture of the subgraphs."""
    from ciga.cli.demo import demo as show

    show(out, seeds, quick)


def _show(record: Record, folder: Path) -> None:
    """One run on one screen: every selector's scores, the default one marked."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    metric, console = record["metric"], Console()
    selected = record["selected"]
    splits = [k for k in next(iter(selected.values())) if k != "epoch"]
    explained = any("edge_auroc" in s.get("ood_test", {}) for s in selected.values())
    extra = ["edge AUROC", "prec. @k"] if explained else []
    table = Table(
        title=f"{metric} at the epoch each rule chose",
        title_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for header in ("rule", "epoch", *splits, *extra):
        table.add_column(header, no_wrap=header not in extra)  # names that begin alike must not be cut
    for name, scores in selected.items():
        mark = " *" if name == record["selection"] else ""
        numbers = [f"{scores[s][metric]:.3f}" for s in splits]
        if explained:
            numbers += [
                f"{scores['ood_test'].get(k, math.nan):.3f}" for k in ("edge_auroc", "precision_at_k")
            ]
        table.add_row(name + mark, str(scores["epoch"]), *numbers)
    console.print(table)
    peak = record.get("peak_memory_mb")
    memory = "" if peak is None else f", {peak:.0f} MB"
    console.print("* the one to report; oracle looks at test data", highlight=False, soft_wrap=True)
    if "closed_features" in record:
        closed = ", ".join(f"x[{column}]" for column in record["closed_features"])
        console.print(
            f"node features that training switched off: {closed or 'none'}", markup=False, soft_wrap=True
        )
    console.print(
        f"{record['method']} on {record['dataset']}, seed {record['seed']}: "
        f"{counted(record['epochs'], 'epoch')}, {record['seconds']:.0f} s{memory}; record in {folder}",
        soft_wrap=True,
    )
