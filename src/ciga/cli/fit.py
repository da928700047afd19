"""`ciga fit`: one's own data, from a file to a model."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ciga.cli.data import ask_for_label, refuse_unreadable
from ciga.cli.model import Device, Smiles
from ciga.cli.run import AsJson, DataPairs, Pairs, Plugins, Preset, RunsDir
from ciga.errors import UsageError

#: Share of the training rows of a file that is held out to score and calibrate on data like them.
HELD_OUT = 0.1


def fit(
    source: Annotated[str, typer.Argument(metavar="FILE|DATASET", help="A table, graphs, or a dataset.")],
    out: Annotated[Path, typer.Option(help="The folder of the model.")],
    smiles: Smiles = None,
    label: Annotated[str | None, typer.Option(help="File: the column (or value) to predict.")] = None,
    env: Annotated[str | None, typer.Option(help="File: the column of environments.")] = None,
    split: Annotated[
        str | None,
        typer.Option(help="File: scaffold, cluster, similarity, group:COLUMN, time:COLUMN …"),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="auto: a mixture of several; a method, trained beside forest and ERM (see: ciga methods); "
            "or a,b,c: these are compared, and the best on validation rows answers."
        ),
    ] = "auto",
    candidates: Annotated[
        str | None, typer.Option(help="What auto mixes: a,b,c.", show_default="forest,erm,ciga-v2,…")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each method, averaged.", min=1)] = 3,
    repeats: Annotated[
        int, typer.Option(help="Also train on this number of splits, and judge over all of them.", min=1)
    ] = 1,
    tune: Annotated[int, typer.Option(help="First search settings with this number of trials.", min=0)] = 0,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs (--set epochs=N).")] = None,
    set_: Pairs = [],  # noqa: B006 (typer copies it)
    data: DataPairs = [],  # noqa: B006
    settings: Annotated[Path | None, typer.Option(help="A settings file (TOML).")] = None,
    preset: Preset = None,
    runs_dir: RunsDir = Path("runs"),
    plugin: Plugins = [],  # noqa: B006
    device: Device = "auto",
    json_: AsJson = False,
) -> None:
    """Train several methods on your data, mix them, and say how far to trust the answer."""
    refuse_unreadable(source)
    from ciga import options
    from ciga.cli.fitted import print_summary
    from ciga.cli.progress import epoch_bar
    from ciga.cli.screen import tell
    from ciga.cli.tune import best_settings
    from ciga.models.fit import fit_ensemble, known_settings, methods_of, yardsticks_of
    from ciga.models.folder import check_free
    from ciga.models.repeats import fit_repeatedly
    from ciga.models.report_data import AUTO
    from ciga.registry import load_plugin
    from ciga.runs.settings import read_settings

    check_free(out)  # before hours of training, not after
    for file in plugin:
        load_plugin(file)
    given = {"smiles": smiles, "label": label, "env": env, "split": split}
    dataset, chosen = _source(source, {k: v for k, v in given.items() if v is not None}, data)
    values: dict[str, Any] = read_settings(settings) if settings else {}
    values |= options.parse_pairs(set_, "--set")
    if epochs is not None:
        values["epochs"] = epochs
    mixed = [name for name in (candidates or "").split(",") if name.strip()]
    names = methods_of(method, mixed)
    known = known_settings([*names, *yardsticks_of(method, names)], values)
    if (out / "model.json").is_file():
        tell(f"{out} holds a model: the new one will replace it.", err=True)
    own: dict[str, dict[str, Any]] = {}
    with epoch_bar(f"{method} on {source}", enabled=not json_) as bar:
        for name in names if tune else ():  # the yardsticks as they come
            own[name] = best_settings(
                dataset, name, chosen, known[name], preset or "", tune, plugin, runs_dir, device
            )
        once = partial(
            fit_ensemble,
            dataset,
            method,
            candidates=mixed,
            seeds=seeds,
            settings=values,
            own=own,
            preset=preset or "",
            plugins=plugin,
            runs_dir=runs_dir,
            device=device,
            progress=bar.data,
            on_epochs=bar.overall,
        )
        model = fit_repeatedly(lambda options_: once(data=options_), dataset, chosen, repeats)
    model.save(out)
    if json_:
        shown = {k: v for k, v in model.report_data.items() if k not in ("histories", "pictures", "data")}
        who = {"method": AUTO if model.shares else model.method_name}
        who |= {"subgraphs_of": model.method_name} if model.method.extracts else {}
        typer.echo(json.dumps({"model": str(out), **who, **shown}))
        return
    print_summary(model, out, source)


def _source(source: str, given: dict[str, str], pairs: list[str]) -> tuple[str, dict[str, Any]]:
    """The dataset and its options; a file gets a held-out part drawn like its training rows."""
    from ciga import options
    from ciga.cli.data import which
    from ciga.data.dataset import make

    dataset, path = which(source)
    extra = options.parse_pairs(pairs, "--data")
    if path is None:
        if given:
            raise UsageError(f"--{next(iter(given))} is for files; {source} is a dataset: use --data.")
        return dataset, dict(extra)
    if dataset == "graphs" and "smiles" in given:
        raise UsageError(f"--smiles is for tables; {source} holds graphs.")
    chosen: dict[str, Any] = {**extra, **given, "path": str(path.resolve())}
    ask_for_label(dataset, path, chosen)
    rule = str(chosen.get("split", "")).partition(":")[0]
    files = dataset == "graphs" and path.is_dir()
    if "id_val" not in chosen and rule != "random" and not files:
        named = rule == "column" or "split_column" in chosen
        if not named or "id_val" not in make(dataset, chosen).build():
            chosen["id_val"] = HELD_OUT
    return dataset, chosen
