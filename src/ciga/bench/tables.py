"""Fill a table of the paper from records: what each cell holds under each selection rule, and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ciga.bench.exhibit import SECONDS, Cell, Column, Own, PaperTable, Row
from ciga.bench.grid import Variation, configs
from ciga.bench.presets import Presets
from ciga.errors import UsageError, unknown
from ciga.runs.records import Records
from ciga.scoring.metrics import EXPLANATION_METRICS, LOWER_IS_BETTER, METRICS
from ciga.scoring.selection import SELECTORS
from ciga.scoring.stats import EQUAL, LEAST, Comparison, Interval, compare, interval, ranks

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
    def interval(self) -> Interval:
        """Mean, deviation and 95 % interval over seeds (NaN where there are too few)."""
        return interval(list(self.values.values()))

    @property
    def mean(self) -> float | None:
        return fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        return self.interval["std"] if len(self.values) > 1 else None

    @property
    def enough(self) -> bool:
        """Are there seeds enough to be ranked, compared or called the best?"""
        return len(self.values) >= LEAST


@dataclass
class Result:
    """A table filled in."""

    table: PaperTable
    rows: list[Row]
    columns: list[Column]
    selections: list[str]
    variation: Variation
    entries: dict[tuple[str, str, str], Entry]  # (row, column, selection)
    wanted: int = 0  # runs the shown cells are made of
    missing: int = 0
    hidden: tuple[int, int] = (0, 0)  # rows and columns that are recorded, but not the paper's
    notes: list[str] = field(default_factory=list)

    def entry(self, row: Row, column: Column, selection: str) -> Entry | None:
        return self.entries.get((row.key, column.key, selection))

    def means(self, column: Column, selection: str, preset: str = "") -> dict[str, float]:
        """Row -> mean of this column, of one preset: those with seeds enough, the oracle left out."""
        found = {}
        for row in self.rows:
            entry = self.entry(row, column, selection)
            if row.group != "oracle" and row.preset == preset and entry is not None and entry.enough:
                found[row.key] = fmean(entry.values.values())
        return found

    def best(self, column: Column, selection: str, preset: str = "") -> str | None:
        """The row with the best mean of this column, among those of one preset."""
        means = self.means(column, selection, preset)
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
        """Mean over the paper's columns of the rank among the methods of one preset that have all of them."""
        means = [self.means(c, selection, row.preset) for c in self.own()]
        whole = [key for key in means[0] if all(key in found for found in means)] if means else []
        if row.key not in whole:
            return None
        places = zip(self.own(), means, strict=True)
        return fmean(ranks({k: found[k] for k in whole}, lower(c))[row.key] for c, found in places)

    def scores(self, selection: str, extra: bool = False) -> dict[str, dict[str, dict[int, float]]]:
        """Row -> column -> seed -> score, more is better; of the paper's columns, or of the `extra` ones."""
        columns = {c.key: c for c in self.columns if c.extra == extra and c.metric != SECONDS}
        out: dict[str, dict[str, dict[int, float]]] = {}
        for (row, column, rule), entry in self.entries.items():
            if rule == selection and column in columns and entry.values:
                sign = -1 if lower(columns[column]) else 1
                out.setdefault(row, {})[column] = {s: sign * v for s, v in entry.values.items()}
        return out

    def comparisons(self, selection: str, extra: bool = False) -> list[list[Comparison]]:
        """Families of comparisons within one preset, each corrected by itself.

        First every method against ERM, which is named beforehand; then each of ours against every other
        baseline. None is picked after the fact.
        """
        scores = self.scores(selection, extra)
        shown = [r for r in self.rows if r.group != "oracle"]
        columns = [c for c in self.columns if c.extra == extra]
        margin = EQUAL * columns[0].scale if columns else EQUAL
        first: list[list[Comparison]] = []
        others: list[list[Comparison]] = []
        for preset in dict.fromkeys(r.preset for r in shown):
            mine = [r for r in shown if r.preset == preset]
            erm = next((r.key for r in mine if r.method == "erm" and not r.settings), None)
            if erm is not None:
                first.append(compare(scores, [(r.key, erm) for r in mine], margin))
            rivals = [r.key for r in mine if r.group == "baseline" and r.key != erm]
            for row in mine:
                if row.group == "ours":
                    others.append(compare(scores, [(row.key, rival) for rival in rivals], margin))
        return [family for family in (*first, *others) if family]


def lower(column: Column) -> bool:
    """Is less better?"""
    return column.metric == SECONDS or column.metric in LOWER_IS_BETTER


def fill(
    table: PaperTable,
    records: Records,
    variation: Variation | None = None,
    *,
    select: str = DEFAULT,
    methods: Sequence[str] = (),
    datasets: Sequence[str] = (),
    seeds: Sequence[int] = (),
    metric: str | None = None,
    own: Own | None = None,
    also: Sequence[str] | None = None,
) -> Result:
    """Look up every run of the table.

    Args:
        table: which one.
        records: the finished runs.
        variation: how the runs differ from the paper's.
        select: the selection rule; each dataset's own by default.
        methods: show these rows only (names as `ciga table --methods` takes them).
        datasets: show these columns only.
        seeds: the seeds to look for; else the paper's.
        metric: another metric than the table's.
        own: the user's own rows and columns.
        also: of the rows and columns that are not the paper's, those that are shown beside its own if
            anything of them is recorded; None: all of them.
    """
    if select not in (DEFAULT, "all", *SELECTORS):
        raise UsageError(f"There is no selection rule '{select}': use {', '.join(SELECTORS)} or all.")
    selections = list(SELECTORS) if select == "all" else [select]
    variation = variation or Variation()
    own = own or Own()
    rows, columns = table.select(
        methods or [r.key for r in table.rows], datasets or [c.key for c in table.columns], own
    )
    mine = {c.key for c in own.columns}
    usual = {c.key: c.metric for c in columns}
    if metric is not None:
        known = (*METRICS, *EXPLANATION_METRICS, SECONDS)
        if metric not in known:
            raise unknown("metric", metric, known)
        scale = 1.0 if metric in ("mcc", SECONDS) else 100.0
        columns = [Column(**{**vars(c), "metric": metric, "scale": scale}) for c in columns]
    if not _named(datasets):
        # What the user sets for all columns is not what some of ours may differ in from the paper's.
        columns = [
            c for c in columns if c.key in mine or not (c.extra and c.data.keys() & variation.data.keys())
        ]
    result = Result(table, [], [], selections, variation, {})
    pairs = [(r, c, cell) for c in columns for r in rows if (cell := table.cell(r, c)) is not None]
    varied = variation.apply([cell for *_, cell in pairs])
    runs: dict[tuple[str, str], tuple[str, ...]] = {}  # (row, column) -> hashes
    recorded: set[str] = set()
    live: dict[tuple[str, str], Cell] = {}  # places with anything recorded
    presets = Presets()
    for (row, column, _), cell in zip(pairs, varied, strict=True):
        place = row.key, column.key
        plans = configs(cell, variation, seeds)
        runs[place] = tuple(c.hash for c in plans)
        got = {c.seed: record for c in plans if (record := records.find(c)) is not None}
        recorded |= {c.hash for c in plans if c.seed in got}
        failed = sum(records.failure(c) is not None for c in plans if c.seed not in got)
        if got or failed:
            live[place] = cell
        same = metric is None or metric == usual[column.key]
        printed = table.printed.get((row.source, column.key)) if same else None
        for rule in selections:
            values = {seed: v for seed, r in got.items() if (v := score(r, column, rule)) is not None}
            used = sorted({r["selection"] for r in got.values()}) if rule == DEFAULT else [rule]
            entry = Entry(values, ", ".join(used), printed, failed)
            result.entries[row.key, column.key, rule] = entry
    hidden_rows = 0
    for row in rows:
        places = {place for place in live if place[0] == row.key}
        # Two names for the same runs (a row that says what the preset says anyway) are shown once.
        told = {(c, runs[r, c]) for r, c in live if r in {shown.key for shown in result.rows}}
        new = any((c, runs[r, c]) not in told for r, c in places)
        wished = also is None or bool({row.key, row.method} & set(also))
        if not row.extra or _named(methods) or row in own.rows or (new and wished):
            result.rows.append(row)
        elif new:
            hidden_rows += 1
    recorded_columns = [c for c in columns if not c.extra or any(k == c.key for _, k in live)]
    result.columns = [
        c
        for c in columns
        if not c.extra
        or c.key in mine
        or _named(datasets)
        or (c in recorded_columns and (also is None or bool({c.key, c.dataset} & set(also))))
    ]
    result.hidden = hidden_rows, len([c for c in recorded_columns if c not in result.columns])
    shown = {(r.key, c.key) for r in result.rows for c in result.columns}
    result.entries = {k: e for k, e in result.entries.items() if k[:2] in shown}
    for place, cell in live.items():
        if place in shown:
            presets.add(cell, variation)
    wanted = {name for place in shown if place in runs for name in runs[place]}
    result.wanted, result.missing = len(wanted), len(wanted - recorded)
    result.notes = [*_notes(result, records, select), *presets.notes(variation.preset)]
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
        rest = (
            f"; for {labels} by the score on G_c minus the probe's score on G_s there (-rest)"
            if labels
            else ""
        )
        notes.append(f"Epoch selected by {said or 'validation (nothing recorded yet)'}{rest}.")
    else:
        notes.append(f"Epoch selected by {', '.join(result.selections)}.")
    if "oracle" in result.selections:
        notes.append("The rule 'oracle' looks at test data: an upper bound, not a result.")
    notes.append("Test score, mean (standard deviation, ddof 1) over seeds [number of seeds].")
    notes.append(
        "Bold: the best of its column and preset. Ranks: among the rows of a preset that have all columns. "
        f"Neither below {LEAST} seeds."
    )
    if str(result.variation):
        notes.append(f"Not the paper's setting: {result.variation}.")
    failed = sum(e.failed for (_, _, s), e in result.entries.items() if s == result.selections[0])
    broken = f", {failed} of them failed" if failed else ""
    if result.missing:
        notes.append(f"{result.missing} of {result.wanted} runs are missing{broken}.")
    if any(result.hidden):
        words = zip(result.hidden, ("row", "column"), strict=True)
        what = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in words if n]
        notes.append(f"Also recorded, but not the paper's: {' and '.join(what)} (--all shows them).")
    if records.stale:
        notes.append(f"Records left out, made under other defaults: {len(set(records.stale))}.")
    return notes
