"""A table as a query over records: what each cell holds, under each selection rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ciga.bench.grid import Records, Variation, configs
from ciga.bench.paper import SECONDS, Column, Row, Table
from ciga.bench.stats import Comparison, compare, ranks, spread
from ciga.errors import UsageError
from ciga.metrics import LOWER_IS_BETTER
from ciga.selection import SELECTORS

#: The rule each dataset's own record names: shifted validation data where there are any.
DEFAULT = "default"


@dataclass(frozen=True)
class Entry:
    """One cell under one selection rule."""

    values: Mapping[int, float]  # seed -> score, in the table's units
    rule: str  # the rule that chose the epoch
    paper: tuple[float, float | None] | None = None
    failed: int = 0

    @property
    def mean(self) -> float | None:
        return fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        return spread(list(self.values.values()))[1] if self.values else None


@dataclass
class Result:
    """A table filled in."""

    table: Table
    rows: list[Row]
    columns: list[Column]
    selections: list[str]
    variation: Variation
    entries: dict[tuple[str, str, str], Entry]  # (row, column, selection)
    wanted: int  # runs the shown cells are made of
    notes: list[str] = field(default_factory=list)

    def entry(self, row: Row, column: Column, selection: str) -> Entry | None:
        return self.entries.get((row.key, column.key, selection))

    def means(self, column: Column, selection: str) -> dict[str, float]:
        """Row -> mean of this column, the oracle left out."""
        found = {}
        for row in self.rows:
            entry = self.entry(row, column, selection)
            if row.group != "oracle" and entry is not None and entry.mean is not None:
                found[row.key] = entry.mean
        return found

    def best(self, column: Column, selection: str) -> str | None:
        means = self.means(column, selection)
        pick = min if lower(column) else max
        return pick(means, key=means.__getitem__) if means else None

    def average(self, row: Row, selection: str) -> float | None:
        """Over the paper's columns; None unless all of them are there."""
        entries = [self.entry(row, c, selection) for c in self.columns if not c.extra]
        means = [None if e is None else e.mean for e in entries]
        return fmean(m for m in means if m is not None) if means and None not in means else None

    def average_rank(self, row: Row, selection: str) -> float | None:
        """Mean over the paper's columns of the rank among the shown methods, as in the paper."""
        own = [c for c in self.columns if not c.extra]
        found = [ranks(self.means(c, selection), lower(c)).get(row.key) for c in own]
        return fmean(r for r in found if r is not None) if found and None not in found else None

    def scores(self, selection: str) -> dict[str, dict[str, dict[int, float]]]:
        """Row -> column -> seed -> score, signed so that more is better."""
        out: dict[str, dict[str, dict[int, float]]] = {}
        for (row, column, rule), entry in self.entries.items():
            kept = next(c for c in self.columns if c.key == column)
            if rule == selection and kept.metric != SECONDS and entry.values:
                sign = -1 if lower(kept) else 1
                out.setdefault(row, {})[column] = {s: sign * v for s, v in entry.values.items()}
        return out

    def best_baseline(self, selection: str) -> str | None:
        """The baseline with the highest mean over the columns that every baseline has."""
        scores = self.scores(selection)
        baselines = [r.key for r in self.rows if r.group == "baseline" and r.key in scores]
        if not baselines:
            return None
        shared = set.intersection(*(set(scores[b]) for b in baselines))
        if not shared:
            return None
        return max(baselines, key=lambda b: fmean(fmean(scores[b][c].values()) for c in sorted(shared)))

    def comparisons(self, selection: str) -> list[Comparison]:
        """Every method against ERM, and ours against the best baseline."""
        scores = self.scores(selection)
        shown = [r for r in self.rows if r.group != "oracle"]
        found = compare(scores, "erm", [r.key for r in shown])
        best = self.best_baseline(selection)
        if best is not None and best != "erm":
            found += compare(scores, best, [r.key for r in shown if r.group == "ours"])
        return found


def lower(column: Column) -> bool:
    """Is less better?"""
    return column.metric == SECONDS or column.metric in LOWER_IS_BETTER


def fill(
    table: Table,
    records: Records,
    variation: Variation | None = None,
    *,
    select: str = DEFAULT,
    methods: Sequence[str] = (),
    datasets: Sequence[str] = (),
    seeds: Sequence[int] = (),
    metric: str | None = None,
    added: Sequence[Row] = (),
) -> Result:
    """Look up every run of the table. `added` are rows of the user's own.

    Extra rows and columns are shown if they were named, or if there is anything to show.
    """
    if select not in (DEFAULT, "all", *SELECTORS):
        raise UsageError(f"There is no selection rule '{select}': use {', '.join(SELECTORS)} or all.")
    selections = list(SELECTORS) if select == "all" else [select]
    variation = variation or Variation()
    rows = table.select(methods or [r.key for r in table.rows], extra=added)[0]
    columns = table.select((), datasets or [c.key for c in table.columns])[1]
    usual = {c.key: c.metric for c in columns}
    if metric is not None:
        scale = 1.0 if metric in ("mcc", SECONDS) else 100.0
        columns = [Column(**{**vars(c), "metric": metric, "scale": scale}) for c in columns]
    result = Result(table, [], [], selections, variation, {}, 0)
    found = 0
    pairs = [(r, c, cell) for c in columns for r in rows if (cell := table.cell(r, c)) is not None]
    varied = variation.apply([cell for *_, cell in pairs])
    live: set[tuple[str, str]] = set()
    counts: dict[tuple[str, str], int] = {}
    for (row, column, _), cell in zip(pairs, varied, strict=True):
        plans = configs(cell, variation, seeds)
        counts[row.key, column.key] = len(plans)
        got = {c.seed: record for c in plans if (record := records.find(c)) is not None}
        failed = sum(records.failure(c) is not None for c in plans if c.seed not in got)
        if got or failed:
            live.add((row.key, column.key))
        same = metric is None or metric == usual[column.key]
        printed = table.printed.get((row.key, column.key)) if same else None
        for rule in selections:
            values = {seed: v for seed, r in got.items() if (v := score(r, column, rule)) is not None}
            used = sorted({r["selection"] for r in got.values()}) if rule == DEFAULT else [rule]
            entry = Entry(values, ", ".join(used), printed, failed)
            result.entries[row.key, column.key, rule] = entry
        found += len(got)
    result.rows = [
        r for r in rows if not r.extra or _named(methods) or r in added or any(k == r.key for k, _ in live)
    ]
    result.columns = [
        c for c in columns if not c.extra or _named(datasets) or any(k == c.key for _, k in live)
    ]
    shown = {(r.key, c.key) for r in result.rows for c in result.columns}
    result.entries = {k: e for k, e in result.entries.items() if k[:2] in shown}
    result.wanted = sum(n for key, n in counts.items() if key in shown)
    result.notes = _notes(result, records, found, select)
    return result


def _named(wanted: Sequence[str]) -> bool:
    """Did the user ask for these very rows or columns?"""
    return bool(wanted) and list(wanted) != ["all"]


def score(record: Mapping[str, Any], column: Column, rule: str) -> float | None:
    """The test score of one run in the table's units; None if this rule or metric does not apply."""
    if column.metric == SECONDS:
        return float(record["seconds"]) / max(record["epochs"], 1) * column.scale
    chosen = record["selected"].get(record["selection"] if rule == DEFAULT else rule)
    if chosen is None:
        return None
    value = chosen.get("ood_test", chosen.get("id_test", {})).get(column.metric)
    return None if value is None else float(value) * column.scale


def _notes(result: Result, records: Records, found: int, select: str) -> list[str]:
    """What a reader must know to read the numbers."""
    notes = []
    if select == DEFAULT:
        rules: dict[str, list[str]] = {}
        for column in result.columns:
            for rule in {e.rule for (_, c, _), e in result.entries.items() if c == column.key and e.rule}:
                rules.setdefault(rule, []).append(column.label)
        said = "; ".join(
            rule if len(rules) == 1 else f"{rule}: {', '.join(labels)}"
            for rule, labels in sorted(rules.items())
        )
        notes.append(f"Epoch selected by {said or 'validation (nothing recorded yet)'}.")
    else:
        notes.append(f"Epoch selected by {', '.join(result.selections)}.")
    if "oracle" in result.selections:
        notes.append("The rule 'oracle' looks at test data: an upper bound, not a result.")
    notes.append("Test score, mean (standard deviation, ddof 1) over seeds [number of seeds].")
    if str(result.variation):
        notes.append(f"Not the paper's setting: {result.variation}.")
    failed = sum(e.failed for (_, _, s), e in result.entries.items() if s == result.selections[0])
    broken = f", {failed} of them failed" if failed else ""
    if found < result.wanted:
        notes.append(f"{result.wanted - found} of {result.wanted} runs are missing{broken}.")
    if records.stale:
        notes.append(f"{len(records.stale)} records were made under other defaults and are left out.")
    return notes
