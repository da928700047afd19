"""`ciga predict`, `ciga explain`, `ciga export`: what a model says of new data."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ciga.cli.data import refuse_missing
from ciga.cli.run import AsJson, Plugins
from ciga.cli.screen import again, next_step, tell, warn
from ciga.errors import CigaError, UsageError, counted

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
    if file is None:
        from ciga.cli.molecule import print_answer

        if smiles is None or out is not None:
            raise UsageError(
                "Name a file of molecules or graphs (predict MODEL FILE --out PREDICTIONS.csv), "
                "or one molecule (predict MODEL --smiles CCO)."
            )
        print_answer(_load(model, plugin, device, member), smiles, json_)
        return
    if out is None:
        raise UsageError("Say where the predictions go: --out FILE.csv, or --out - to print them.")
    refuse_missing(file)
    from ciga.cli.progress import row_counter
    from ciga.models.output import check_output
    from ciga.models.stream import predict_file

    check_output(out)
    loaded = _load(model, plugin, device, member)
    with row_counter(f"predict {file.name}", enabled=not json_) as report:
        totals = predict_file(loaded, file, out, smiles=smiles, report=report)
    if json_:
        typer.echo(json.dumps({**vars(totals), "similarity": totals.nearest}))
    if not totals.classes:
        molecules = loaded.featuriser["kind"] == "smiles"
        check = "--smiles names the column of SMILES" if molecules else "the model was fitted on such graphs"
        where = "the column error" if str(out) == "-" else f"the column error of {out}"
        raise CigaError(f"No row of {file} could be predicted: {where} says why; check that {check}.")
    if json_:
        return
    counts = ", ".join(f"{count:,} of class {name}" for name, count in sorted(totals.classes.items()))
    good = totals.rows - totals.errors
    typer.echo(f"{counted(totals.rows, 'row')}: {counts}.", err=True)
    if totals.errors:
        warn(f"{counted(totals.errors, 'row')} could not be read: see the column error.")
    if totals.seen:
        these = "this row" if good == 1 else f"{totals.seen:,} of these {good:,} rows"
        tell(f"The model was trained on {these}: its answers there say nothing about new ones.", err=True)
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
        tell(
            f"Similarity to the nearest {_asked(loaded)}: median {totals.nearest:.2f}{beside} (similarity).",
            err=True,
        )
    typer.echo(f"predictions: {out}", err=True)
    if loaded.method.extracts:
        words = ["ciga", "explain", str(model), str(file), *([] if smiles is None else ["--smiles", smiles])]
        next_step(
            shlex.join([*words, *_member(member)]) + again(plugins=plugin),
            "shows which part of each graph the answers rest on",
        )
    else:
        _offer_export(model, loaded, member, plugin)


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
    if file is not None:
        refuse_missing(file)
    from ciga.cli.progress import epoch_bar
    from ciga.data.reading.row_names import row_names
    from ciga.explain.examine import examine
    from ciga.explain.report import report_model
    from ciga.models.stream import read_labelled

    whole = _load(model, plugin, device)
    loaded = whole if member is None else whole.only(member)
    if not loaded.method.extracts:
        raise UsageError(f"{loaded.method_name} does not extract a subgraph: {_who_does(whole)}.")
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
    tell(
        f"{said}. Probability of the predicted class: whole graph {f['whole']:.3f}, "
        f"kept part {f['kept']:.3f}, random part of that size {f['random']:.3f}, the rest {f['rest']:.3f}."
    )
    if examined.quality:
        tell(
            f"Against the true subgraph: edge AUROC {examined.quality['edge_auroc']:.3f}, "
            f"precision@k {examined.quality['precision_at_k']:.3f}."
        )
    if origin:
        tell(origin)
    typer.echo(f"report: {out}")
    _offer_export(model, loaded, member, plugin)


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
    path = out or model.resolve().with_name(model.resolve().name + FORMATS[format_])
    gap = write(loaded, path, format_)
    size = path.stat().st_size / 2**20
    tell(f"{path} ({size:.1f} MB): differs from the original by {gap:.1g} at most on random graphs.")
    words = shlex.join(["ciga", "predict", str(model), "FILE", "--out", "predictions.csv", *_member(member)])
    next_step(words + again(plugins=plugin), "gives the answers to compare it with")


def _member(name: str | None) -> list[str]:
    """The words that choose a member again."""
    return [] if name is None else ["--member", name]


def _offer_export(folder: Path, model: Model, member: str | None, plugins: list[Path]) -> None:
    """`ciga export` as the next step, where it works; a mixture cannot be exported, so a member is named."""
    from ciga.models.export import exportable

    if model.shares:
        member, model = model.method_name, model.only(model.method_name)
    if exportable(model):
        words = shlex.join(["ciga", "export", str(folder), *_member(member)])
        next_step(words + again(plugins=plugins), "writes the model for other programs")


def _asked(model: Model) -> str:
    """Which training graphs the gauge compares with: all, or some of them."""
    kept = 0 if model.gauge is None or model.gauge.neighbours is None else len(model.gauge.neighbours.rows)
    if model.trained_on is None or kept >= model.trained_on:
        return "training row"
    what = "molecules" if model.featuriser["kind"] == "smiles" else "graphs"
    return f"of {kept:,} of the {model.trained_on:,} training {what}"


# ---------------------------------------------------------------- where the data come from


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


def _who_does(model: Model) -> str:
    """What to do for a subgraph: ask one of the model's own methods, or fit another one."""
    names = [n for n, one in {model.method_name: model, **model.rivals}.items() if one.method.extracts]
    return f"use --member {' or '.join(names)}" if names else "fit with ciga-v2, gsat or dir"


def _finite(value: Any) -> Any:
    """The same with None for what is not a number, as JSON has it."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return None if isinstance(value, float) and value != value else value
