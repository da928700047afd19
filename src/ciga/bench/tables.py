"""A table as a query over records: what each cell holds, under each selection rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from ciga.bench.grid import PUBLISHED, Records, Variation, configs
from ciga.bench.paper import SECONDS, Cell, Column, Row, Table
from ciga.errors import UsageError
from ciga.scoring.metrics import LOWER_IS_BETTER
from ciga.scoring.selection import SELECTORS
from ciga.scoring.stats import Comparison, compare, ranks, spread

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
    wanted: int = 0  # runs the shown cells are made of
    missing: int = 0
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

    def own(self) -> list[Column]:
        """The paper's columns; if none of them is shown, all that are."""
        return [c for c in self.columns if not c.extra] or self.columns

    def average(self, row: Row, selection: str) -> float | None:
        """Over the paper's columns; None unless all of them are there."""
        entries = [self.entry(row, c, selection) for c in self.own()]
        means = [None if e is None else e.mean for e in entries]
        return fmean(m for m in means if m is not None) if means and None not in means else None

    def average_rank(self, row: Row, selection: str) -> float | None:
        """Mean over the paper's columns of the rank among the shown methods, as in the paper."""
        found = [ranks(self.means(c, selection), lower(c)).get(row.key) for c in self.own()]
        return fmean(r for r in found if r is not None) if found and None not in found else None

    def scores(self, selection: str, extra: bool = False) -> dict[str, dict[str, dict[int, float]]]:
        """Row -> column -> seed -> score, more is better; of the paper's columns, or of the `extra` ones."""
        columns = {c.key: c for c in self.columns if c.extra == extra and c.metric != SECONDS}
        out: dict[str, dict[str, dict[int, float]]] = {}
        for (row, column, rule), entry in self.entries.items():
            if rule == selection and column in columns and entry.values:
                sign = -1 if lower(columns[column]) else 1
                out.setdefault(row, {})[column] = {s: sign * v for s, v in entry.values.items()}
        return out

    def best_baseline(self, selection: str, preset: str = "", extra: bool = False) -> str | None:
        """The baseline with the highest mean over the columns that every baseline of this preset has."""
        scores = self.scores(selection, extra)
        fits = [r.key for r in self.rows if r.group == "baseline" and r.preset == preset and r.key in scores]
        shared = set.intersection(*(set(scores[b]) for b in fits)) if fits else set()
        if not shared:
            return None
        return max(fits, key=lambda b: fmean(fmean(scores[b][c].values()) for c in sorted(shared)))

    def comparisons(self, selection: str, extra: bool = False) -> list[Comparison]:
        """Every method against ERM, ours against the best baseline; of the same preset if it is recorded."""
        scores = self.scores(selection, extra)
        shown = [r for r in self.rows if r.group != "oracle"]
        against: dict[str, list[str]] = {}
        for preset in dict.fromkeys(r.preset for r in shown):
            mine = [r for r in shown if r.preset == preset]
            plain = [r.key for r in mine if r.method == "erm" and not r.settings and r.key in scores]
            base = plain[0] if plain else "erm"
            against.setdefault(base, []).extend(r.key for r in mine)
            best = self.best_baseline(selection, preset, extra)
            if best is not None and best != base:
                against.setdefault(best, []).extend(r.key for r in mine if r.group == "ours")
        return [found for base, keys in against.items() for found in compare(scores, base, keys)]


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
    if not _named(datasets):
        # What the user sets for all columns is not what some of ours may differ in from the paper's.
        columns = [c for c in columns if not (c.extra and c.data.keys() & variation.data.keys())]
    result = Result(table, [], [], selections, variation, {})
    pairs = [(r, c, cell) for c in columns for r in rows if (cell := table.cell(r, c)) is not None]
    varied = variation.apply([cell for *_, cell in pairs])
    runs: dict[tuple[str, str], tuple[str, ...]] = {}  # (row, column) -> hashes
    recorded: set[str] = set()
    live: set[tuple[str, str]] = set()
    changes: Changes = {}
    for (row, column, _), cell in zip(pairs, varied, strict=True):
        place = row.key, column.key
        plans = configs(cell, variation, seeds)
        runs[place] = tuple(c.hash for c in plans)
        got = {c.seed: record for c in plans if (record := records.find(c)) is not None}
        recorded |= {c.hash for c in plans if c.seed in got}
        failed = sum(records.failure(c) is not None for c in plans if c.seed not in got)
        if got or failed:
            live.add(place)
            _compare_presets(changes, cell, variation)
        same = metric is None or metric == usual[column.key]
        printed = table.printed.get((row.source, column.key)) if same else None
        for rule in selections:
            values = {seed: v for seed, r in got.items() if (v := score(r, column, rule)) is not None}
            used = sorted({r["selection"] for r in got.values()}) if rule == DEFAULT else [rule]
            entry = Entry(values, ", ".join(used), printed, failed)
            result.entries[row.key, column.key, rule] = entry
    for row in rows:
        mine = {place for place in live if place[0] == row.key}
        # Two names for the same runs (a row that says what the preset says anyway) are shown once.
        told = {(c, runs[r, c]) for r, c in live if r in {shown.key for shown in result.rows}}
        new = any((c, runs[r, c]) not in told for r, c in mine)
        if not row.extra or _named(methods) or row in added or new:
            result.rows.append(row)
    result.columns = [
        c for c in columns if not c.extra or _named(datasets) or any(k == c.key for _, k in live)
    ]
    shown = {(r.key, c.key) for r in result.rows for c in result.columns}
    result.entries = {k: e for k, e in result.entries.items() if k[:2] in shown}
    wanted = {name for place in shown if place in runs for name in runs[place]}
    result.wanted, result.missing = len(wanted), len(wanted - recorded)
    result.notes = [*_notes(result, records, select), *_presets(changes, variation.preset)]
    return result


def _named(wanted: Sequence[str]) -> bool:
    """Did the user ask for these very rows or columns?"""
    return bool(wanted) and list(wanted) != ["all"]


def score(record: Mapping[str, Any], column: Column, rule: str) -> float | None:
    """The test score of one run in the table's units; None if this rule or metric does not apply."""
    if column.metric == SECONDS:
        return float(record["seconds"]) / max(int(record["epochs"]), 1) * column.scale
    chosen = record["selected"].get(record["selection"] if rule == DEFAULT else rule)
    if chosen is None:
        return None
    value = chosen.get("ood_test", chosen.get("id_test", {})).get(column.metric)
    return None if value is None else float(value) * column.scale


Changes = dict[str, dict[str, set[str]]]  # preset -> setting -> values unlike the published ones


def _compare_presets(changes: Changes, cell: Cell, variation: Variation) -> None:
    """What the preset of a cell changes in the settings that the paper used."""
    preset = cell.preset or variation.preset
    said = changes.setdefault(preset, {})
    if preset != PUBLISHED:
        mine = configs(cell, variation)[0].settings
        theirs = configs(replace(cell, preset=PUBLISHED), variation)[0].settings
        for key, value in mine.items():
            if theirs[key] != value:
                said.setdefault(key, set()).add(str(value))


def _presets(changes: Changes, main: str) -> list[str]:
    """Which settings the shown runs were made with."""
    notes = []
    for preset, settings in changes.items() if changes else [(main, None)]:
        which = "Settings" if preset == main else f"Settings of the rows '{preset}'"
        if preset == PUBLISHED:
            meaning = "what the paper used"
        elif settings is None:
            meaning = "nothing recorded yet"
        else:
            each = [k if len(v) > 1 else f"{k}={next(iter(v))}" for k, v in sorted(settings.items())]
            meaning = "it changes " + ", ".join(each) if each else "here the same as published"
        notes.append(f"{which}: preset '{preset}' ({meaning}).")
    return notes


def _notes(result: Result, records: Records, select: str) -> list[str]:
    """What a reader must know to read the numbers."""
    notes = []
    if select == DEFAULT:
        # Which split a rule looks at is a matter of the data; whether it asks for the rest, of the method.
        rules: dict[str, list[str]] = {}
        for column in result.columns:
            mine = [e.rule for (_, c, _), e in result.entries.items() if c == column.key and e.rule]
            for rule in {r.removesuffix("-rest") for each in mine for r in each.split(", ")}:
                rules.setdefault(rule, []).append(column.label)
        said = "; ".join(
            rule if len(rules) == 1 else f"{rule}: {', '.join(labels)}"
            for rule, labels in sorted(rules.items())
        )
        asked = {r for (r, _, _), e in result.entries.items() if e.rule.endswith("-rest")}
        labels = ", ".join(row.label for row in result.rows if row.key in asked)
        rest = f"; for {labels} less what the rest tells there (-rest)" if labels else ""
        notes.append(f"Epoch selected by {said or 'validation (nothing recorded yet)'}{rest}.")
    else:
        notes.append(f"Epoch selected by {', '.join(result.selections)}.")
    if "oracle" in result.selections:
        notes.append("The rule 'oracle' looks at test data: an upper bound, not a result.")
    notes.append("Test score, mean (standard deviation, ddof 1) over seeds [number of seeds].")
    if str(result.variation):
        notes.append(f"Not the paper's setting: {result.variation}.")
    failed = sum(e.failed for (_, _, s), e in result.entries.items() if s == result.selections[0])
    broken = f", {failed} of them failed" if failed else ""
    if result.missing:
        notes.append(f"{result.missing} of {result.wanted} runs are missing{broken}.")
    if records.stale:
        notes.append(f"Records left out, made under other defaults: {len(set(records.stale))}.")
    return notes
