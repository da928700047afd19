"""`ciga tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ciga.cli.run import DataPairs, Pairs, Plugins, RunsDir


def tune(
    dataset: Annotated[str, typer.Argument(help="A dataset, or several with commas (see: ciga datasets).")],
    method: Annotated[str, typer.Argument(help="A method (see: ciga methods).")],
    trials: Annotated[int, typer.Option(help="Trials in all, those recorded included.", min=1)] = 20,
    storage: Annotated[Path, typer.Option(help="Journal file; processes may share it.")] = Path(
        "tune.journal"
    ),
    space: Annotated[str, typer.Option(help="grid, ranges (between the grid's ends), or paper.")] = "grid",
    over: Annotated[
        list[str], typer.Option("--over", help="Search this setting: NAME or NAME=value,value (repeatable).")
    ] = [],  # noqa: B006 (typer copies it)
    set_: Pairs = [],  # noqa: B006
    data: DataPairs = [],  # noqa: B006
    epochs: Annotated[int | None, typer.Option(help="At most so many epochs a run.")] = None,
    preset: Annotated[str, typer.Option(help="Settings to start from: tuned, published, or none.")] = "tuned",
    seeds: Annotated[str, typer.Option(help="Seeds of each trial, like 1-3.")] = "1",
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the best settings here (TOML).")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    plugin: Plugins = [],  # noqa: B006
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Search settings of METHOD on DATASET by validation score; the same command again continues.

    Several datasets are searched as one, by the mean of their scores.
    """
    from ciga import options
    from ciga.cli.bench_options import parse_seeds
    from ciga.registry import load_plugin
    from ciga.runs.tune import Task, write_settings
    from ciga.runs.tune import tune as search

    for file in plugin:
        load_plugin(file)
    fixed: dict[str, Any] = dict(options.parse_pairs(set_, "--set"))
    if epochs is not None:
        fixed["epochs"] = epochs
    task = Task(
        dataset,
        method,
        space,
        _over(over),
        options.parse_pairs(data, "--data"),
        typed(method, fixed),
        preset,
        tuple(parse_seeds(seeds)) or (1,),
        tuple(str(p.resolve()) for p in plugin),
    )
    found = search(task, storage, trials, runs_dir, workers=workers, device=device, say=_tell)
    _show(found)
    if out is not None:
        write_settings(task, found, out)
        several = f" --preset {preset}" if len(task.datasets) > 1 else ""
        use = f"ciga run {task.datasets[0]} {method}{several} --settings {out}"
        typer.echo(f"best settings: {out} ({use})", err=True)


def typed(method: str, values: dict[str, Any]) -> dict[str, Any]:
    """Settings from the command line as what they are: numbers as numbers."""
    from ciga import options
    from ciga.errors import unknown
    from ciga.methods.base import methods
    from ciga.nn.encoder import Backbone
    from ciga.training.loop import Training

    kinds = {k: kind for kind in (Training, Backbone, methods[method]) for k in options.fields_of(kind)}
    for key in values:
        if key not in kinds:
            raise unknown(f"setting of {method}", key, kinds)
    return {key: options.convert(kinds[key], key, value) for key, value in values.items()}


def _over(given: Sequence[str]) -> dict[str, list[Any] | None]:
    """`alpha`, `alpha=1,2` -> names with their values, or None for the declared grid."""
    out: dict[str, list[Any] | None] = {}
    for text in given:
        name, sign, values = text.partition("=")
        out[name.strip()] = [_plain(v.strip()) for v in values.split(",")] if sign else None
    return out


def _plain(text: str) -> Any:
    """A value as TOML would have it; anything else is a string."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _tell(news: str) -> None:
    """A line of progress on standard error."""
    typer.echo(news, err=True)


def _show(found: Any) -> None:
    """The trials, best first."""
    from rich.console import Console
    from rich.table import Table

    from ciga.errors import CigaError

    states: dict[str, int] = {}
    for trial in found.trials:
        states[trial.state.name.lower()] = states.get(trial.state.name.lower(), 0) + 1
    done = [t for t in found.trials if t.state.name == "COMPLETE"]
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    if not done:
        raise CigaError(f"No trial of the search came to an end ({counts}).")
    names = list(done[0].params)
    table = Table("trial", "validation", *names, title=f"{found.study_name}: {counts}")
    for trial in sorted(done, key=lambda t: -t.value)[:10]:
        table.add_row(str(trial.number), f"{trial.value:.4f}", *[str(trial.params[n]) for n in names])
    Console().print(table)
