"""`ciga fit`, `ciga predict`, `ciga explain`, `ciga export`: one's own data, from a file to a report."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ciga.cli.run import AsJson, DataPairs, Pairs, Plugins, Preset, RunsDir
from ciga.cli.screen import next_step, offer_export, warn
from ciga.data.reading.json_graphs import refuse_damaged
from ciga.errors import UsageError, counted

if TYPE_CHECKING:
    from ciga.graphs.splits import Splits
    from ciga.graphs.store import GraphStore
    from ciga.models.model import Model

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `ciga fit` wrote.")]
Smiles = Annotated[str | None, typer.Option(help="Table: the column of SMILES.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Member = Annotated[
    str | None, typer.Option(help="Only this one of the methods that were trained (see the summary of fit).")
]
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
            help="auto: a mixture of several; a method, trained beside ERM (see: ciga methods); or a,b,c: "
            "these are compared, and the best on validation rows answers."
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
    refuse_damaged(Path(source).expanduser())  # before torch is imported
    from ciga import options
    from ciga.cli.fitted import print_summary
    from ciga.cli.progress import epoch_bar
    from ciga.cli.tune import best_settings
    from ciga.models.fit import fit_ensemble, known_settings, methods_of
    from ciga.models.folder import check_free
    from ciga.models.repeats import fit_repeatedly
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
    own: dict[str, dict[str, Any]] = {}
    with epoch_bar(f"{method} on {source}", enabled=not json_) as bar:
        for name, known in known_settings(names, values).items() if tune else ():
            own[name] = best_settings(
                dataset, name, chosen, known, preset or "", tune, plugin, runs_dir, device
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
        typer.echo(json.dumps({"model": str(out), "method": model.method_name, **shown}))
        return
    print_summary(model, out, source)


def predict(
    model: ModelFolder,
    file: Annotated[Path | None, typer.Argument(help="A table of SMILES, or graphs.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where predictions go (.csv, .tsv, .csv.gz, .parquet; - prints them)."),
    ] = None,
    smiles: Annotated[
        str | None, typer.Option(help="Table: the column of SMILES. Without FILE: a molecule.")
    ] = None,
    member: Member = None,
    plugin: Plugins = [],  # noqa: B006
    device: Device = "auto",
    json_: AsJson = False,
) -> None:
    """Predict every row of a file of any size, or one molecule: class, probability, and a shift flag."""
    from ciga.cli.molecule import print_answer
    from ciga.cli.progress import row_counter
    from ciga.models.output import check_output
    from ciga.models.stream import predict_file

    if file is None:
        if smiles is None or out is not None:
            raise UsageError(
                "Name a file of molecules or graphs (predict MODEL FILE --out PREDICTIONS.csv), "
                "or one molecule (predict MODEL --smiles CCO)."
            )
        print_answer(_load(model, plugin, device, member), smiles, json_)
        return
    if out is None:
        raise UsageError("Say where the predictions go: --out FILE.csv, or --out - to print them.")
    check_output(out)
    loaded = _load(model, plugin, device, member)
    with row_counter(f"predict {file.name}", enabled=not json_) as report:
        totals = predict_file(loaded, file, out, smiles=smiles, report=report)
    if json_:
        typer.echo(json.dumps({**vars(totals), "similarity": totals.nearest}))
        return
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(totals.classes.items()))
    good = max(totals.rows - totals.errors, 1)
    typer.echo(f"{counted(totals.rows, 'row')}: {counts or 'none could be predicted'}.", err=True)
    if totals.errors:
        warn(f"{counted(totals.errors, 'row')} could not be read: see the column error.")
    if totals.flagged:
        warn(
            f"Unlike the training data: {totals.flagged:,} ({100 * totals.flagged / good:.1f} %); "
            "do not rely on those (column shift)."
        )
    elif loaded.gauge is not None:
        typer.echo("None is unlike the training data.", err=True)
    if totals.nearest is not None and loaded.gauge is not None:
        usual = loaded.gauge.usual
        beside = "" if usual is None else f"; rows like the training data have {usual:.2f}"
        typer.echo(
            f"Similarity to the nearest training row: median {totals.nearest:.2f}{beside} (similarity).",
            err=True,
        )
    typer.echo(f"predictions: {out}", err=True)
    if loaded.method.extracts:
        next_step(f"ciga explain {model} {file}", "shows which part of each graph the answers rest on")
    else:
        offer_export(model, loaded.method_name if loaded.shares else None)


def explain(
    model: ModelFolder,
    file: Annotated[
        Path | None, typer.Argument(help="A table of SMILES, or graphs; else what the model was fitted on.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The report.")] = Path("report.html"),
    smiles: Smiles = None,
    label: Annotated[str | None, typer.Option(help="The column of true classes, if there is one.")] = None,
    part: Annotated[str | None, typer.Option(help="Without FILE: ood_test, id_val …")] = None,
    most: Annotated[int, typer.Option(help="Maximum number of rows to look at.", min=1)] = 5000,
    member: Member = None,
    gallery: Annotated[int, typer.Option(help="Maximum number of graphs to draw.", min=1)] = 150,
    plugin: Plugins = [],  # noqa: B006
    device: Device = "auto",
    json_: AsJson = False,
) -> None:
    """Show which part of each graph the model looks at, and measure whether that is the reason."""
    from ciga.cli.progress import epoch_bar
    from ciga.data.reading.row_names import row_names
    from ciga.explain.examine import examine
    from ciga.explain.report import report_model
    from ciga.models.stream import read_labelled

    loaded = _load(model, plugin, device, member)
    if not loaded.method.extracts:
        raise UsageError(f"{loaded.method_name} does not extract a subgraph: fit with ciga-v2, gsat or dir.")
    rows: list[int] | None = None
    errors: list[tuple[str, str]] = []
    notes: list[str] = []
    share = loaded.shares.get(loaded.method_name)
    origin = (
        ""
        if share is None
        else f"The parts shown are those of {loaded.method_name}, {100 * share:.0f} % of the answer "
        f"({loaded.label})."
    )
    with epoch_bar("explain", enabled=not json_) as bar:
        if file is None:
            store, subject, notes = _own(loaded, part, bar.data)
            store = store.subset(slice(0, most))
            names = row_names(store, loaded.source)
        else:
            if part is not None:
                raise UsageError("--part is for the data the model was fitted on: leave FILE out.")
            found = read_labelled(loaded, file, smiles=smiles, label=label, most=most)
            store, rows, errors, subject = found.store, found.rows, found.errors, file.name
            names = found.names
            if found.cut:
                notes.append(f"Only the first {store.num_graphs:,} rows were looked at (--most).")
        examined = examine(loaded, store, rows=rows, names=names, gallery=gallery, progress=bar.data)
    examined.errors = errors
    examined.notes = [*([origin] if origin else []), *notes, *examined.notes]
    command = shlex.join(["ciga", *sys.argv[1:]])
    report_model(
        loaded, examined, out, title=f"{model.resolve().name}: {subject}", subject=subject, command=command
    )
    if json_:
        shown = {
            k: getattr(examined, k)
            for k in ("graphs", "fidelity", "quality", "scores", "flagged", "stability")
        }
        typer.echo(json.dumps({**_finite(shown), "report": str(out)}))
        return
    f = examined.fidelity
    said = counted(examined.graphs, "graph")
    typer.echo(
        f"{said}. Probability of the predicted class: whole graph {f['whole']:.3f}, "
        f"kept part {f['kept']:.3f}, random part of that size {f['random']:.3f}, the rest {f['rest']:.3f}."
    )
    if examined.quality:
        typer.echo(
            f"Against the true subgraph: edge AUROC {examined.quality['edge_auroc']:.3f}, "
            f"precision@k {examined.quality['precision_at_k']:.3f}."
        )
    if origin:
        typer.echo(origin)
    typer.echo(f"report: {out}")
    offer_export(model, loaded.method_name if loaded.shares else None)


def export(
    model: ModelFolder,
    format_: Annotated[str, typer.Option("--format", help="torch-export or onnx.")] = "torch-export",
    out: Annotated[Path | None, typer.Option(help="The file; else beside the model folder.")] = None,
    member: Member = None,
    plugin: Plugins = [],  # noqa: B006
) -> None:
    """Write the model as one file for other programs, checked against the original."""
    from ciga.models.export import FORMATS
    from ciga.models.export import export as write

    if format_ not in FORMATS:
        raise UsageError(f"There is no export format '{format_}': use {' or '.join(FORMATS)}.")
    loaded = _load(model, plugin, "cpu", member)
    if loaded.shares:
        raise UsageError(f"A {loaded.label} cannot be exported: choose one of them, --member NAME.")
    path = out or model.resolve().with_name(model.resolve().name + FORMATS[format_])
    gap = write(loaded, path, format_)
    size = path.stat().st_size / 2**20
    typer.echo(f"{path} ({size:.1f} MB): differs from the original by {gap:.1g} at most on random graphs.")
    next_step(f"ciga predict {model} FILE --out predictions.csv", "gives the answers to compare it with")


# ---------------------------------------------------------------- where the data come from


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
    rule = str(chosen.get("split", "")).partition(":")[0]
    files = dataset == "graphs" and path.is_dir()
    if "id_val" not in chosen and rule != "random" and not files:
        named = rule == "column" or "split_column" in chosen
        if not named or "id_val" not in make(dataset, chosen).build():
            chosen["id_val"] = HELD_OUT
    return dataset, chosen


def _own(model: Model, part: str | None, progress: Any) -> tuple[GraphStore, str, list[str]]:
    """A part of the data the model was fitted on."""
    from ciga.data.dataset import make
    from ciga.errors import unknown

    if not model.source:
        raise UsageError("This model does not say what it was fitted on: give a FILE.")
    splits: Splits = make(model.source["dataset"], model.source["options"]).build(progress)
    name = part or str(model.report_data.get("where", "train"))
    if name not in splits:
        raise unknown("part", name, list(splits))
    notes = []
    if splits.fingerprint() != model.fingerprint:
        notes.append("The data have changed since the model was fitted: their fingerprint is another one.")
    file = Path(str(model.source["options"].get("path", "")))
    return splits[name], f"{name} of {file.name or model.source['dataset']}", notes


def _load(folder: Path, plugins: list[Path], device: str, member: str | None = None) -> Model:
    from ciga.models.model import Model
    from ciga.registry import load_plugin
    from ciga.training.device import pick_device

    for file in plugins:
        load_plugin(file)
    loaded = Model.load(folder, pick_device(device))
    return loaded if member is None else loaded.only(member)


def _finite(value: Any) -> Any:
    """The same with None for what is not a number, as JSON has it."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return None if isinstance(value, float) and value != value else value
