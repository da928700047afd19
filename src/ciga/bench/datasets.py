"""The table of dataset statistics: what our data is, beside what the paper says its data is."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from ciga import options
from ciga.bench.exhibit import Column, Statistics
from ciga.bench.grid import Variation
from ciga.bench.render import FORMATS, HEADER, MISSING, Sheet, Text, show
from ciga.data.dataset import datasets, make
from ciga.data.datasets.paper_stats import STATS, PaperStats
from ciga.errors import CigaError, UsageError, unknown
from ciga.graphs.splits import Splits
from ciga.progress import Progress, silent

PARTS = ("train", "id_val", "ood_val", "ood_test")


def build(column: Column, variation: Variation, progress: Progress = silent) -> Splits:
    """The data of a column as varied."""
    known = options.fields_of(datasets[column.dataset])
    given = {k: v for k, v in variation.data.items() if k in known}
    return make(column.dataset, {**column.data, **given}).build(progress)


def describe(splits: Splits, paper: PaperStats) -> dict[str, float]:
    """Graphs of each part; mean nodes and edges over the parts the paper counts."""
    out: dict[str, float] = {f"graphs.{p}": float(splits[p].num_graphs) for p in PARTS if p in splits}
    stats = [splits[p].stats() for p in paper.graphs if p in splits]
    graphs = sum(s["graphs"] for s in stats)
    for key in ("nodes_mean", "edges_mean"):
        note = splits.notes.get(f"all.{key}")
        out[key] = float(note) if note else sum(s[key] * s["graphs"] for s in stats) / graphs
    out["classes"] = float(splits.task.classes)
    return out


def printed(paper: PaperStats) -> dict[str, float]:
    """The same figures as the paper prints them."""
    graphs = {f"graphs.{part}": float(count) for part, count in paper.graphs.items()}
    return {**graphs, "nodes_mean": paper.nodes_mean, "edges_mean": paper.edges_mean}


Figures = Mapping[str, Mapping[str, float]]  # dataset -> what is counted -> how many


def statistics_table(shown: Statistics, form: str, wanted: Sequence[str], variation: Variation) -> str:
    """In one of the formats of every table; a dataset whose files are not here is shown as missing.

    Args:
        shown: The table to show.
        form: One of `FORMATS`.
        wanted: Only these datasets; all of them if empty.
        variation: How the data differ from the paper's.
    """
    if form not in FORMATS:
        raise UsageError(f"There is no format '{form}': use {', '.join(FORMATS)}.")
    if form == "csv":
        columns, found, _ = _gather(shown, wanted, variation)
        return _csv(shown, columns, found)
    return show([statistics_view(shown, wanted, variation)], form)


def statistics_view(
    shown: Statistics, wanted: Sequence[str], variation: Variation
) -> tuple[str, Sheet, list[str]]:
    """The same as a title, a sheet and its notes."""
    columns, found, notes = _gather(shown, wanted, variation)
    return f"{shown.title}. Paper: {shown.source}", _sheet(columns, found), notes


def _gather(
    shown: Statistics, wanted: Sequence[str], variation: Variation
) -> tuple[list[Column], Figures, list[str]]:
    """The datasets that are wanted, what is counted of those that are here, and notes."""
    names = [c.dataset for c in shown.columns]
    for name in wanted:
        if name not in names:
            raise unknown("dataset of this table", name, names)
    found: dict[str, Mapping[str, float]] = {}
    notes: list[str] = []
    columns = [c for c in shown.columns if not wanted or c.dataset in wanted]
    for column in columns:
        try:
            splits = build(column, variation)
            found[column.dataset] = describe(splits, STATS[column.dataset])
            notes += [
                f"{column.dataset}: {splits.notes[k]}" for k in ("partial", "altered") if k in splits.notes
            ]
        except CigaError as error:
            notes.append(f"{column.dataset}: {error}")
        if STATS[column.dataset].remark:
            notes.append(f"{column.dataset}, paper: {STATS[column.dataset].remark}.")
    return columns, found, notes


_KEYS = [*(f"graphs.{p}" for p in PARTS), "classes", "nodes_mean", "edges_mean"]


def _sheet(columns: Sequence[Column], found: Figures) -> Sheet:
    sheet = Sheet(["dataset", *PARTS, "classes", "nodes", "edges", "metric"])
    for column in columns:
        name = column.dataset
        ours = found.get(name)
        cells = [
            Text("" if ours else MISSING) if not ours or k not in ours else _number(k, ours[k]) for k in _KEYS
        ]
        sheet.lines.append([Text(name), *cells, Text(STATS[name].metric)])
        theirs = printed(STATS[name])
        sheet.quiet.add(len(sheet.lines))
        line = [Text("") if k not in theirs else _number(k, theirs[k]) for k in _KEYS]
        sheet.lines.append([Text("paper"), *line, Text("")])
    return sheet


def _number(key: str, value: float) -> Text:
    return Text(f"{value:,.2f}" if key.endswith("_mean") else f"{value:,.0f}")


def _csv(shown: Statistics, columns: Sequence[Column], found: Figures) -> str:
    out = io.StringIO()
    writer: Any = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for column in columns:
        ours, theirs = found.get(column.dataset, {}), printed(STATS[column.dataset])
        for key in _KEYS:
            if key in ours or key in theirs:
                writer.writerow(
                    [
                        shown.name,
                        column.dataset,
                        "",
                        "",
                        key,
                        ours.get(key, ""),
                        "",
                        "",
                        theirs.get(key, ""),
                        "",
                    ]
                )
    return out.getvalue()
