"""`ciga runs`: list, show, compare and export records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ciga.cli.run import AsJson, RunsDir
from ciga.cli.screen import again, listing, never_cut, next_step, tell
from ciga.errors import UsageError, counted

if TYPE_CHECKING:
    from ciga.runs.types import Record

app = typer.Typer(help="List, show, compare and export the records of runs.", invoke_without_command=True)

Dataset = Annotated[str | None, typer.Option(help="Only this dataset (a pattern like spmotif-*).")]
Method = Annotated[str | None, typer.Option(help="Only this method (a pattern).")]
Where = Annotated[
    list[str], typer.Option("--where", help="Only runs with this option or setting.", metavar="KEY=VALUE")
]


@app.callback()
def runs(
    context: typer.Context,
    dataset: Dataset = None,
    method: Method = None,
    where: Where = [],  # noqa: B006 (typer copies it)
    failed: Annotated[bool, typer.Option("--failed", help="Runs that failed, with their errors.")] = False,
    json_: AsJson = False,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """List records: one line per run, with its test score under its own selection rule."""
    from rich.console import Console

    from ciga.runs.records import read_failure

    if context.invoked_subcommand is not None:
        return
    if failed:
        files = sorted(runs_dir.glob("*/error.json"))
        for file in files:
            said = read_failure(file)
            typer.echo(f"{file.parent.name}  {said['time']}  {said['error']}")
        if files:
            next_step(f"ciga bench NAME --retry{again(runs_dir=runs_dir)}", "tries those of a table again")
        else:
            typer.echo(f"No failed run is recorded in {runs_dir}.", err=True)
        return
    found = select(runs_dir, dataset, method, where)
    if json_:
        typer.echo(json.dumps([{k: v for k, v in r.items() if k != "history"} for r in found]))
        return
    if not found:
        typer.echo(
            f"No run is recorded in {runs_dir}" + (" that fits." if any((dataset, method, where)) else ".")
        )
        next_step("ciga run spmotif-struc ciga-v2", "trains one")
        return
    console = Console()
    wide = console.width >= 120
    more = ["selected by", "epochs", "seconds", "finished"] if wide else ["selected by"]
    view = listing("run", "dataset", "method", "seed", "test", "metric", *more)
    for place, column in enumerate(view.columns):
        column.no_wrap = place not in (1, 2)
        column.overflow = "fold"
    view.columns[3].justify = view.columns[4].justify = "right"
    for record in found:
        value = test_score(record)
        iid = " (iid)" if record["protocol"] == "iid" else ""
        extra = [str(record["epochs"]), f"{record['seconds']:.0f}", record["finished"]] if wide else []
        view.add_row(
            record["hash"] if wide else record["hash"][:8],
            record["dataset"],
            record["method"] + iid,
            str(record["seed"]),
            "–" if value is None else f"{value:.3f}",
            record["metric"],
            record["selection"],
            *extra,
        )
    console.print(view, highlight=False)
    console.print(f"{counted(len(found), 'run')} in {runs_dir}", highlight=False)
    next_step(
        f"ciga runs show {found[-1]['hash'][:8]}{again(runs_dir=runs_dir)}",
        "shows one; ciga runs compare A B sets two side by side",
    )


@app.command("show")
def show(
    run: Annotated[str, typer.Argument(help="A run's name, or the beginning of it.")],
    json_: AsJson = False,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Show one record."""
    from ciga.cli.run import _show

    record = one(runs_dir, run)
    if json_:
        typer.echo(json.dumps(record))
        return
    _show(record, runs_dir / record["hash"])
    for group in ("data", "settings", "notes", "versions"):
        tell(f"{group}: " + ", ".join(f"{k}={v}" for k, v in record[group].items()))
    short = record["hash"][:8]
    next_step(f"ciga runs compare {short} OTHER{again(runs_dir=runs_dir)}", "sets it beside another run")


@app.command("compare")
def compare(
    names: Annotated[list[str], typer.Argument(help="Runs to compare (two or more).")],
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Show runs side by side: what differs, and the scores under their own selection rule."""
    from rich.console import Console

    if len(names) < 2:
        raise UsageError(f"Name another run to set beside {names[0]} (ciga runs lists them).")
    records = [one(runs_dir, name) for name in names]
    rows: dict[str, list[str]] = {}
    always = {"dataset", "method"}
    flat = []
    for record in records:
        rule = record["selection"]
        kept = {rule: record["selected"][rule]} if rule in record["selected"] else {}
        always |= {f"{rule}.{split}.{record['metric']}" for scores in kept.values() for split in scores}
        flat.append(flatten({**record, "selected": kept}))
    for key in dict.fromkeys(k for f in flat for k in f):
        values = [_short(f.get(key)) for f in flat]
        if len(set(values)) > 1 or key in always:
            rows[key] = values
    view = never_cut(listing("", *[r["hash"][:8] for r in records]))
    for key, values in rows.items():
        view.add_row(key, *values)
    Console().print(view)
    next_step(f"ciga runs export --csv runs.csv{again(runs_dir=runs_dir)}", "writes every record to a table")


@app.command("export")
def export(
    csv_: Annotated[Path | None, typer.Option("--csv", help="One line per run.")] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="The same, as Parquet.")] = None,
    jsonl: Annotated[
        Path | None, typer.Option("--jsonl", help="Whole records, to commit or pass on.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="With --jsonl, keep every epoch.")] = False,
    dataset: Dataset = None,
    method: Method = None,
    where: Where = [],  # noqa: B006
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Write records to a file: a table of them, or the records themselves."""
    from ciga.errors import CigaError
    from ciga.files import atomic

    found = select(runs_dir, dataset, method, where)
    if csv_ is parquet is jsonl is None:
        raise UsageError("Say where to: --csv FILE, --parquet FILE or --jsonl FILE.")
    if not found:
        raise CigaError(f"No such run is recorded in {runs_dir}.")
    if jsonl is not None:
        kept = [{k: v for k, v in r.items() if history or k != "history"} for r in found]
        lines = [json.dumps(r) for r in sorted(kept, key=_order)]
        with atomic(jsonl) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if csv_ is not None:
        with atomic(csv_) as temporary:
            temporary.write_text(to_csv(found), encoding="utf-8")
    if parquet is not None:
        _write_parquet(found, parquet)
    for path in (csv_, parquet, jsonl):
        if path is not None:
            typer.echo(f"{counted(len(found), 'run')} in {path}", err=True)
    next_step(f"ciga bench --list{again(runs_dir=runs_dir)}", "shows which tables and figures they fill")


# ---------------------------------------------------------------- records


def select(runs_dir: Path, dataset: str | None, method: str | None, where: Sequence[str]) -> list[Record]:
    """The records that fit, each once.

    Args:
        runs_dir: Where runs are kept.
        dataset: A pattern such as `spmotif-*`; None for any.
        method: A pattern; None for any.
        where: Conditions on settings and data, each `key=value`.
    """
    from fnmatch import fnmatchcase

    from ciga import options
    from ciga.runs.records import Runs

    wanted = options.parse_pairs(where, "--where")
    found: dict[str, Record] = {}
    for record in Runs(runs_dir):
        known = {**record["data"], **record["settings"], **{k: record[k] for k in ("seed", "protocol")}}
        fits = fnmatchcase(record["dataset"], dataset or "*") and fnmatchcase(record["method"], method or "*")
        if fits and all(_same(known.get(k), v) for k, v in wanted.items()):
            found.setdefault(record["hash"], record)
    return sorted(found.values(), key=_order)


def one(runs_dir: Path, name: str) -> Record:
    """The record whose name begins so."""
    from ciga.runs.records import Runs

    found = {r["hash"]: r for r in Runs(runs_dir) if r["hash"].startswith(name)}
    if len(found) != 1:
        what = f"{len(found)} runs in {runs_dir} begin" if found else f"No run in {runs_dir} begins"
        raise UsageError(f"{what} with '{name}' (ciga runs lists them).")
    return next(iter(found.values()))


def flatten(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as one flat row: `data.bias`, `settings.alpha`, `ood-val.ood_test.accuracy`."""
    out = {k: v for k, v in record.items() if not isinstance(v, dict | list)}
    for group in ("data", "settings", "versions"):
        out |= {f"{group}.{k}": _cell(v) for k, v in record.get(group, {}).items()}
    for rule, scores in record["selected"].items():
        out[f"{rule}.epoch"] = scores["epoch"]
        for split, values in scores.items():
            if split != "epoch":
                out |= {f"{rule}.{split}.{k}": v for k, v in values.items()}
    return out


def to_csv(records: Iterable[Record]) -> str:
    """One line per run; a column that a run does not have is empty."""
    import csv
    import io

    rows = [flatten(r) for r in records]
    names = list(dict.fromkeys(k for row in rows for k in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _write_parquet(records: Iterable[Record], path: Path) -> None:
    from ciga.errors import MissingExtra
    from ciga.files import atomic

    try:
        import pandas as pd
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtra("pandas and pyarrow", "tables") from None
    frame = pd.DataFrame([flatten(r) for r in records])
    # An option may be a number in one dataset and a word in another: such a column is text.
    for name in frame.columns:
        if len({type(v) for v in frame[name].dropna()} - {int, float}) > 1:
            frame[name] = frame[name].map(lambda v: None if v is None else str(v))
    with atomic(path) as temporary:
        frame.to_parquet(temporary)


def test_score(record: Record) -> float | None:
    """Of the default rule, on the shifted test data where there are any."""
    chosen = record["selected"].get(record["selection"], {})
    value = (chosen.get("ood_test") or chosen.get("id_test") or {}).get(record["metric"])
    return None if value is None else float(value)


def _order(record: Mapping[str, Any]) -> tuple[Any, ...]:
    data = json.dumps(record["data"], sort_keys=True)
    return record["dataset"], data, record["method"], record["seed"], record["hash"]


def _cell(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _short(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _same(mine: Any, text: str) -> bool:
    """Does a value, as recorded, equal one from the command line?"""
    try:
        return float(mine) == float(text)
    except (TypeError, ValueError):
        return str(mine).lower() == text.lower()
