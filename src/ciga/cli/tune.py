"""`ciga tune`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ciga.cli.run import DataPairs, Pairs, Plugins, Preset, RunsDir
from ciga.cli.screen import again, complete, listing, next_step, say
from ciga.errors import CigaError, UsageError, counted, unknown

if TYPE_CHECKING:
    from ciga.runs.tune import Search


def tune(
    dataset: Annotated[
        str,
        typer.Argument(
            help="A dataset, or several with commas (see: ciga datasets).",
            autocompletion=complete("datasets"),
        ),
    ],
    method: Annotated[
        str | None, typer.Argument(help="A method (see: ciga methods).", autocompletion=complete("methods"))
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Several methods with commas instead: each gets the same number of trials."),
    ] = None,
    trials: Annotated[
        int, typer.Option(help="Trials of each method in all, those recorded included.", min=1)
    ] = 20,
    storage: Annotated[Path, typer.Option(help="Journal file; processes may share it.")] = Path(
        "tune.journal"
    ),
    space: Annotated[str, typer.Option(help="grid, ranges (between the grid's ends), or paper.")] = "grid",
    over: Annotated[
        list[str],
        typer.Option(
            "--over",
            help="Search this setting instead of the method's grid: NAME or NAME=value,value (repeatable); "
            "--over grid adds the method's grid again.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    set_: Pairs = [],  # noqa: B006
    data: DataPairs = [],  # noqa: B006
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs of each run.")] = None,
    preset: Preset = None,
    seeds: Annotated[str, typer.Option(help="Seeds of each trial, like 1-3.")] = "1",
    workers: Annotated[int, typer.Option(help="Trials at a time.", min=1)] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the best settings here (TOML); with --methods, a folder of such files."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    plugin: Plugins = [],  # noqa: B006
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Search settings of METHOD on DATASET by validation score; the same command again continues.

    Several datasets are searched as one, by the mean of their scores. Several methods (--methods) are
    searched on equal terms: each gets exactly the same number of trials, judged by the same rule.
    """
    from ciga import options
    from ciga.cli.bench_options import names, parse_seeds
    from ciga.registry import load_plugin
    from ciga.runs.tune import Search, searches, tune_methods
    from ciga.runs.tune import tune as search

    for file in plugin:
        load_plugin(file)
    if (method is None) == (methods is None):
        raise UsageError("Name one method, or several with --methods A,B,C.")
    several = names([methods]) if methods is not None else []
    if methods is not None and not several:
        raise UsageError("--methods is empty: name methods, such as --methods erm,ciga-v2.")
    fixed: dict[str, Any] = dict(options.parse_pairs(set_, "--set"))
    if epochs is not None:
        fixed["epochs"] = epochs
    common = Search(
        dataset,
        method or "",
        space,
        _over(over),
        options.parse_pairs(data, "--data"),
        fixed,
        preset or "",
        tuple(parse_seeds(seeds)),
        tuple(str(p.resolve()) for p in plugin),
    )
    if several:
        tasks = searches(common, several)
        found = tune_methods(tasks, storage, trials, runs_dir, workers=workers, device=device, say=_tell)
        _compare(dataset, trials, found)
        if out is None:
            _keep("best")
            return
        for task in tasks:
            _write(task, found[task.method], out / f"{task.method}.toml")
        _use(tasks[0], out / f"{tasks[0].method}.toml", data, plugin, runs_dir)
        return
    assert method is not None
    task = Search(**{**vars(common), "settings": typed(method, fixed)})
    made = search(task, storage, trials, runs_dir, workers=workers, device=device, say=_tell)
    _show(made)
    if out is None:
        _keep("best.toml")
    else:
        _write(task, made, out)
        _use(task, out, data, plugin, runs_dir)


def typed(method: str, values: dict[str, Any]) -> dict[str, Any]:
    """Settings from the command line as what they are: numbers as numbers."""
    from ciga import options
    from ciga.runs.tune.space import setting_kinds

    kinds = setting_kinds(method)
    for key in values:
        if key not in kinds:
            raise unknown(f"setting of {method}", key, kinds)
    return {key: options.convert(kinds[key], key, value) for key, value in values.items()}


def _write(task: Search, found: Any, out: Path) -> None:
    from ciga.runs.tune import write_settings

    write_settings(task, found, out)
    typer.echo(f"best settings: {out}", err=True)


def _keep(out: str) -> None:
    """How to keep what was found: the same command with --out reads the journal and trains nothing."""
    next_step(f"{shlex.join(['ciga', *sys.argv[1:]])} --out {out}", "keeps the best settings; runs nothing")


def _use(task: Search, file: Path, data: list[str], plugins: list[Path], runs_dir: Path) -> None:
    several = f" --preset {task.start}" if len(task.datasets) > 1 else ""
    more = again(data, plugins, runs_dir)
    next_step(
        f"ciga run {task.datasets[0]} {task.method}{several} --settings {shlex.quote(str(file))}{more}",
        "trains with them",
    )


def _over(given: Sequence[str]) -> dict[str, list[Any] | None]:
    """`alpha`, `alpha=1,2` -> names with their values, or None for the declared grid."""

    out: dict[str, list[Any] | None] = {}
    for text in given:
        name, sign, values = text.partition("=")
        name = name.strip()
        if not name or name in out:
            raise UsageError(f"--over {text}: name each setting once, as NAME or NAME=value,value.")
        out[name] = [_plain(v.strip()) for v in values.split(",")] if sign else None
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

    from ciga.runs.tune import counts

    ends = counts(found)
    said = ", ".join(f"{count} {state}" for state, count in ends.items())
    done = [t for t in found.trials if t.state.name == "COMPLETE"]
    if not done:
        raise CigaError(f"No trial of the search came to an end ({said}).")
    names = list(done[0].params)
    console = Console()
    say(console, f"{found.study_name}: {counted(sum(ends.values()), 'trial')} ({said})")
    table = listing("trial", "validation", *names)
    for trial in sorted(done, key=lambda t: -t.value)[:10]:
        table.add_row(str(trial.number), f"{trial.value:.4f}", *[str(trial.params[n]) for n in names])
    console.print(table)


def _compare(dataset: str, trials: int, found: Mapping[str, Any]) -> None:
    """The best of each method, and what it was given."""
    from rich.console import Console

    from ciga.runs.tune import counts

    console = Console()
    say(console, f"{dataset}: {counted(trials, 'trial')} for each method, judged by the same rule")
    table = listing("method", "trials", "validation", "best settings")
    for method, made in found.items():
        ends = counts(made)
        said = f"{sum(ends.values())} ({', '.join(f'{n} {state}' for state, n in ends.items())})"
        done = [t for t in made.trials if t.state.name == "COMPLETE"]
        best = max(done, key=lambda t: t.value, default=None)
        chosen = " ".join(f"{k}={v}" for k, v in best.params.items()) if best is not None else "–"
        table.add_row(method, said, "–" if best is None else f"{best.value:.4f}", chosen)
    console.print(table)


def best_settings(
    dataset: str,
    method: str,
    data: dict[str, Any],
    settings: dict[str, Any],
    preset: str,
    trials: int,
    plugins: list[Path],
    runs_dir: Path,
    device: str,
) -> dict[str, Any]:
    """The best settings of a search that looks at validation data only, for `ciga fit --tune`.

    Args:
        dataset: The name of a dataset.
        method: The name of a method.
        data: Options of the dataset.
        settings: Settings that every trial has.
        preset: Where settings start.
        trials: How many are tried.
        plugins: Python files that register what is named here.
        runs_dir: Where the runs and the journal of the search go.
        device: What to train on.
    """
    from ciga.parallel import cores
    from ciga.runs.tune import Search
    from ciga.runs.tune import tune as search

    found = tuple(str(p.resolve()) for p in plugins)
    task = Search(dataset, method, data=data, settings=typed(method, settings), preset=preset, plugins=found)
    workers = min(cores(), trials)
    study = search(task, runs_dir / "tune.journal", trials, runs_dir, workers=workers, device=device)
    best: dict[str, Any] = dict(study.best_trial.params)
    said = " ".join(f"{k}={v}" for k, v in best.items())
    typer.echo(f"{method}, the best of {counted(trials, 'trial')} on validation data: {said}", err=True)
    return best
