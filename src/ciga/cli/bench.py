"""`ciga bench`, `ciga table`, `ciga figure`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ciga.cli.bench_advice import advise_figure, advise_look, advise_table
from ciga.cli.bench_options import (
    ALSO,
    Also,
    Columns,
    Datasets,
    Epochs,
    Methods,
    Name,
    Preset,
    Rows,
    Seeds,
    form_of,
    names,
    own_of,
    parse_seeds,
    recall,
    records_for,
    remember,
    repeated,
    variation_of,
)
from ciga.cli.run import DataPairs, Pairs, Plugins, RunsDir
from ciga.cli.screen import complain, complete, next_step, tell, warn
from ciga.errors import CigaError, UsageError, counted

if TYPE_CHECKING:
    from ciga.bench.grid import Variation
    from ciga.runs.plan import Plan
    from ciga.runs.records import Records


def bench(
    name: Annotated[
        str | None,
        typer.Argument(help="A table or figure (see --list).", autocompletion=complete("exhibits")),
    ] = None,
    methods: Methods = [],  # noqa: B006 (typer copies it)
    datasets: Datasets = [],  # noqa: B006
    seeds: Seeds = None,
    epochs: Epochs = None,
    set_: Pairs = [],  # noqa: B006
    data: DataPairs = [],  # noqa: B006
    preset: Preset = None,
    row: Rows = [],  # noqa: B006
    column: Columns = [],  # noqa: B006
    workers: Annotated[
        int | None, typer.Option(help="Processes, one thread each; else one per core.", min=1)
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Run on a Dask cluster: tcp://host:port.")] = None,
    limit_hours: Annotated[
        float | None, typer.Option(help="Start no new run after this number of hours.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The official small slice: at most half an hour on two cores.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and how long.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed runs again.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List every table and figure.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report of the runs here.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    plugin: Plugins = [],  # noqa: B006
    runs_dir: RunsDir = Path("runs"),
    results: Also = ALSO,
) -> None:
    """Run what a table or figure of the paper still lacks; the same command again continues."""
    if list_:
        from ciga.cli.catalog import exhibits

        exhibits(runs_dir, results)
        return
    from ciga.bench import paper
    from ciga.bench.exhibit import PaperTable, Statistics
    from ciga.bench.grid import plans

    if name is None:
        raise UsageError("Name a table or figure (ciga bench --list shows them).")
    if limit_hours is not None and not limit_hours >= 0:
        raise UsageError(f"--limit-hours {limit_hours}: give a number of hours, such as 0.5.")
    variation = variation_of(set_, data, epochs, preset, plugin)
    shown = paper.exhibit(name)
    name = shown.name
    records = records_for(shown, runs_dir, results)
    wanted = parse_seeds(seeds)
    own = own_of(shown, row, column)
    if isinstance(shown, Statistics):
        _prepare(shown, variation, datasets)
        next_step(f"ciga table {name}", "counts them")
        return
    if quick:
        from ciga.bench.slices import quick as slice_of

        if methods or datasets:
            raise UsageError(
                "--quick chooses methods and datasets itself: leave --methods and --datasets out."
            )
        part = slice_of(shown, own)
        cells, wanted = part.cells, wanted or part.seeds
        variation = replace(variation, settings={**part.settings, **variation.settings})
        tell(f"quick slice of {name}: {part.words}.", err=True)
    elif isinstance(shown, PaperTable):
        cells = shown.cells(names(methods), names(datasets), own)
    else:
        cells = shown.cells(names(methods), names(datasets))
    options = repeated(methods, datasets, runs_dir)  # the next command remembers the rest
    todo = plans(variation.apply(cells), variation, wanted)
    missing = [p for p in todo if records.find(p.config) is None]
    known_failures = 0 if retry else sum(records.failure(p.config) is not None for p in missing)
    if dry_run:
        from ciga.cli.bench_plan import show_plan

        show_plan(name, todo, missing, known_failures, records, workers)
        if missing:
            words = [word for word in sys.argv[1:] if word != "--dry-run"]
            next_step(shlex.join(["ciga", *words]), "runs them")
        else:
            advise_look(name, options)
        return
    remember(runs_dir, name, variation, wanted, row, column, [*names(methods), *names(datasets)])
    code = _run(name, todo, records, workers, cluster, limit_hours, retry, device)
    if report is not None:
        from ciga.explain.report import report_bench

        report_bench([r for p in todo if (r := records.find(p.config)) is not None], report)
        typer.echo(f"report: {report}", err=True)
    advise_look(name, options)
    raise typer.Exit(code)


def table(
    name: Name,
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="screen, md, latex, html or csv; else screen in a terminal, md when piped."
        ),
    ] = "auto",
    all_: Annotated[
        bool, typer.Option("--all", help="Also rows, columns and comparisons that are not the paper's.")
    ] = False,
    select: Annotated[
        str,
        typer.Option(help="Selection rule: id-val, ood-val, oracle, last, or all; else each dataset's own."),
    ] = "default",
    metric: Annotated[
        str | None, typer.Option(help="Another metric, such as edge_auroc or worst_class.")
    ] = None,
    methods: Methods = [],  # noqa: B006
    datasets: Datasets = [],  # noqa: B006
    seeds: Seeds = None,
    epochs: Epochs = None,
    set_: Pairs = [],  # noqa: B006
    data: DataPairs = [],  # noqa: B006
    preset: Preset = None,
    row: Rows = [],  # noqa: B006
    column: Columns = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Write here instead of printing.")] = None,
    runs_dir: RunsDir = Path("runs"),
    results: Also = ALSO,
) -> None:
    """Show a table of the paper: our numbers over the paper's, with ranks and paired tests.

    Without options that say which runs are meant, those of the last `ciga bench` of this table are.
    """
    from ciga.bench import paper
    from ciga.bench.exhibit import Figure, PaperTable, Statistics
    from ciga.bench.render import render
    from ciga.bench.tables import fill

    form = form_of(format_, out)
    shown = paper.exhibit(name)
    name = shown.name
    records = records_for(shown, runs_dir, results)
    variation = variation_of(set_, data, epochs, preset, plugin)
    wanted = parse_seeds(seeds)
    also: list[str] | None = None if all_ else []
    if not (set_ or data or epochs or preset or plugin):
        last = recall(runs_dir, name)
        variation, row, column = last.variation, row or last.rows, column or last.columns
        also = None if all_ else last.named
        if not wanted and last.seeds and not isinstance(shown, Figure | Statistics):
            wanted = sorted({*shown.seeds, *last.seeds})
    own = own_of(shown, row, column)
    if isinstance(shown, Statistics):
        from ciga.bench.datasets import statistics_table, statistics_view

        if form == "screen":
            from rich.console import Console

            from ciga.bench.screen import draw_view

            draw_view(*statistics_view(shown, names(datasets), variation), Console())
            next_step(f"ciga data stats {shown.columns[0].dataset}", "shows one of them in detail")
            return
        text = statistics_table(shown, form, names(datasets), variation)
    elif isinstance(shown, PaperTable):
        result = fill(
            shown,
            records,
            variation,
            select=select,
            methods=names(methods),
            datasets=names(datasets),
            seeds=wanted,
            metric=metric,
            own=own,
            also=also,
        )
        cells = shown.cells(names(methods), names(datasets), own)
        options = repeated(methods, datasets, runs_dir, variation, wanted, row, column)
        advise = partial(advise_table, shown, result, records, cells, wanted, options)
        if form == "screen":
            from rich.console import Console

            from ciga.bench.screen import draw_table

            draw_table(result, Console(), all_)
            advise()
            return
        text = render(result, form, all_)
    else:
        raise UsageError(f"{name} is a figure: draw it with  ciga figure {name} --out DIR.")
    if out is None:
        sys.stdout.write(text)
        if isinstance(shown, PaperTable) and form == "md":
            advise()
    else:
        from ciga.files import atomic

        with atomic(out) as temporary:
            temporary.write_text(text, encoding="utf-8")
        typer.echo(f"written: {out}", err=True)
        if isinstance(shown, PaperTable):
            advise()


def figure(
    name: Name,
    out: Annotated[Path, typer.Option(help="Folder for the SVG and PNG files.")] = Path("figures"),
    select: Annotated[str, typer.Option(help="Selection rule; else each dataset's own.")] = "default",
    seeds: Seeds = None,
    epochs: Epochs = None,
    set_: Pairs = [],  # noqa: B006
    data: DataPairs = [],  # noqa: B006
    preset: Preset = None,
    datasets: Datasets = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    runs_dir: RunsDir = Path("runs"),
    results: Also = ALSO,
) -> None:
    """Draw a figure of the paper, or a table's scores and ranks from records (ciga bench NAME makes them)."""
    from ciga.bench import paper
    from ciga.bench.figures import draw

    shown = paper.exhibit(name, "figure")
    name = shown.name
    variation = variation_of(set_, data, epochs, preset, plugin)
    if not (set_ or data or epochs or preset or plugin):
        last = recall(runs_dir, name)
        variation = last.variation
        seeds = seeds or (",".join(map(str, last.seeds)) if last.seeds else None)
    records = records_for(shown, runs_dir, results)
    for path in draw(shown, records, variation, out, select, parse_seeds(seeds), names(datasets)):
        typer.echo(str(path))
    options = repeated((), datasets, runs_dir, variation, parse_seeds(seeds))
    advise_figure(shown, variation, records, parse_seeds(seeds), names(datasets), options)


# ---------------------------------------------------------------- what bench does


def _run(
    name: str,
    todo: Sequence[Plan],
    records: Records,
    workers: int | None,
    cluster: str | None,
    limit_hours: float | None,
    retry: bool,
    device: str,
) -> int:
    from ciga.cli.progress import bench_bar
    from ciga.parallel import cores
    from ciga.runs.estimate import Estimate
    from ciga.runs.pool.executors import Executor, Processes
    from ciga.runs.pool.schedule import Pool

    executor: Executor
    if cluster is not None:
        from ciga.runs.pool.cluster import Cluster

        executor = Cluster(cluster)
    else:
        executor = Processes(workers or cores(), records.runs[0].root / "bench" / "logs")
    with bench_bar(name) as watch:
        pool = Pool(
            todo,
            records,
            executor,
            device=device,
            retry=retry,
            limit_hours=limit_hours,
            estimate=Estimate(records),
            watch=watch,
        )
        state = pool.run()
    tell(
        f"{name}: {counted(state.total, 'run')}, {state.recorded} recorded before, {state.done} done now, "
        f"{len(state.failed)} failed, {state.not_started} not started.",
        err=True,
    )
    for run, error in state.failed.items():
        complain(f"failed: {pool.plans[run]}: {error}")
    return 1 if state.failed else 0


def _prepare(shown: Any, variation: Variation, datasets: Sequence[str]) -> None:
    """The statistics need no run, only the data."""
    from ciga.bench.datasets import build
    from ciga.cli.progress import epoch_bar

    for column in shown.columns:
        if not datasets or column.dataset in names(datasets):
            with epoch_bar(column.dataset) as bar:
                try:
                    build(column, variation, bar.data)
                    typer.echo(f"{column.dataset} is ready", err=True)
                except CigaError as error:
                    warn(f"{column.dataset}: {error}")
