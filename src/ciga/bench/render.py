"""Tables as Markdown, LaTeX, HTML and CSV."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ciga.bench.exhibit import Column, Row
from ciga.bench.tables import DEFAULT, Result
from ciga.errors import UsageError
from ciga.scoring.stats import EQUAL, LEAST, Comparison

FORMATS = ("md", "latex", "html", "csv")
HEADER = (
    "table",
    "dataset",
    "method",
    "selection",
    "metric",
    "mean",
    "std",
    "seeds",
    "paper_mean",
    "paper_std",
    "low",
    "high",
)
MISSING = "–"


@dataclass
class Text:
    """A cell to be shown."""

    words: str
    bold: bool = False
    seeds: int | None = None
    worse: bool = False  # bold, and not because it is good


@dataclass
class Sheet:
    """A table to be shown: lines of cells; `quiet` lines are the paper's numbers."""

    header: list[str]
    lines: list[list[Text]] = field(default_factory=list)
    quiet: set[int] = field(default_factory=set)
    rules: set[int] = field(default_factory=set)  # a rule above these lines


def render(result: Result, form: str, every: bool = False) -> str:
    """The whole table, its notes and its comparisons, in one of `FORMATS`."""
    if form not in FORMATS:
        raise UsageError(f"There is no format '{form}': use {', '.join(FORMATS)}.")
    if form == "csv":
        return to_csv(result)
    title = result.table.heading
    return show([(title, to_sheet(result), result.notes), *comparison_sheets(result, every)], form)


def comparison_sheets(
    result: Result, every: bool = False, compact: bool = False
) -> list[tuple[str, Sheet, Sequence[str]]]:
    """Each method against ERM; with `every`, also each of ours against every other baseline."""
    sheets: list[tuple[str, Sheet, Sequence[str]]] = []
    methods = {r.key: r.method for r in result.rows}
    for rule in result.selections:
        name = "" if rule == DEFAULT else f", selected by {rule}"
        for extra in (False, True):
            found = result.comparisons(rule, extra)
            shown = [family for family in found if every or methods[family[0].against] == "erm"]
            if shown:
                where = " on columns that are not the paper's" if extra else ""
                sheets.append(
                    (f"Paired comparisons{where}{name}", _tests(result, shown, compact), _test_notes(result))
                )
    return sheets


def show(sheets: Sequence[tuple[str, Sheet, Sequence[str]]], form: str) -> str:
    """Several titled tables with notes below each."""
    draw = {"md": _markdown, "latex": _latex, "html": _html}[form]
    return "\n".join(draw(title, sheet, notes) for title, sheet, notes in sheets)


def to_sheet(result: Result, compact: bool = False) -> Sheet:
    """Methods down, datasets across, our numbers over the paper's; `compact` is for narrow screens."""
    several = len(result.selections) > 1
    table = result.table
    header = ["method", *(["selected by"] if several else []), *[c.label for c in result.columns]]
    header += ["Avg"] if table.average else []
    header += ["Rank"] if table.ranks or table.average else []
    sheet = Sheet(header)
    group = None
    told: set[str] = set()
    for row in result.rows:
        if group is not None and row.group != group:
            sheet.rules.add(len(sheet.lines))
        group = row.group
        for place, rule in enumerate(result.selections):
            name = Text(row.label if place == 0 else "")
            line = [name, *([Text(rule)] if several else [])]
            line += [_cell(result, row, c, rule, compact) for c in result.columns]
            sheet.lines.append(line + _means(result, row, rule, compact))
        printed = None if row.source in told else _printed(result, row, compact)
        told.add(row.source)  # several rows may stand beside one of the paper's: it is shown once
        if printed is not None:
            sheet.quiet.add(len(sheet.lines))
            sheet.lines.append([Text("paper"), *([Text("")] if several else []), *printed])
    return sheet


def _digits(column: Column, compact: bool = False) -> int:
    return (3 if column.scale == 1 else 2) - compact


def _number(mean: float, std: float | None, digits: int, compact: bool = False) -> str:
    """`59.49 (3.50)`, or `59.5±3.5`."""
    if std is None:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f}±{std:.{digits}f}" if compact else f"{mean:.{digits}f} ({std:.{digits}f})"


def _cell(result: Result, row: Row, column: Column, rule: str, compact: bool) -> Text:
    entry = result.entry(row, column, rule)
    if entry is None:
        return Text("")
    if entry.mean is None:
        return Text("failed" if entry.failed else MISSING)
    digits = _digits(column, compact)
    bold = result.best(column, rule, row.preset) == row.key
    return Text(_number(entry.mean, entry.std, digits, compact), bold, len(entry.values))


def _means(result: Result, row: Row, rule: str, compact: bool) -> list[Text]:
    """The cells Avg and Rank of a row."""
    out = []
    if result.table.average:
        digits = _digits(result.columns[0], compact)
        value = result.average(row, rule)
        rivals = [r for r in result.rows if r.group != "oracle" and r.preset == row.preset]
        averages = {r.key: a for r in rivals if (a := _sure_average(result, r, rule)) is not None}
        best = max(averages, key=averages.__getitem__, default=None)
        out.append(Text(MISSING if value is None else f"{value:.{digits}f}", best == row.key))
    if result.table.ranks or result.table.average:
        rank = result.average_rank(row, rule) if row.group != "oracle" else None
        out.append(Text("" if row.group == "oracle" else MISSING if rank is None else f"{rank:.2f}"))
    return out


def _sure_average(result: Result, row: Row, rule: str) -> float | None:
    """The average of a row all of whose cells have seeds enough."""
    entries = [result.entry(row, c, rule) for c in result.own()]
    return result.average(row, rule) if all(e is not None and e.enough for e in entries) else None


def _printed(result: Result, row: Row, compact: bool) -> list[Text] | None:
    """The paper's line under ours; None if the paper has none for what is shown."""
    table, cells, some = result.table, [], False
    for column in result.columns:
        entry = result.entry(row, column, result.selections[0])
        printed = None if entry is None else entry.paper
        some |= printed is not None
        if printed is None:
            cells.append(Text(""))
        else:
            digits = 2 if printed[1] is not None or column.scale != 1 else 3
            digits -= compact and column.scale != 1
            cells.append(Text(_number(*printed, digits, compact)))
    if not some:
        return None
    whole = [c for c in table.columns if not c.extra] == [c for c in result.columns if not c.extra]
    average = table.printed_average.get(row.source) if whole else None
    rank = table.printed_rank.get(row.source) if whole else None
    if table.average:
        digits = 2 - (compact and result.columns[0].scale != 1)
        cells.append(Text("" if average is None else f"{average:.{digits}f}"))
    if table.ranks or table.average:
        cells.append(Text("" if rank is None else f"{rank:.2f}"))
    return cells


def _test_notes(result: Result) -> list[str]:
    own = result.own()[0]
    margin = f"{EQUAL * own.scale:.{_digits(own)}f}"
    return [
        "Difference: mean over datasets of the mean over seeds, with its 95 % interval: a bootstrap that "
        "draws datasets, then seeds, widened to Student's t. Below "
        f"{LEAST} datasets only seeds are drawn: then it is about these datasets alone.",
        f"P: the share of bootstrap samples in which the method is better or worse by more than {margin}, or "
        "equal within that. Bold: the interval leaves out 0.",
        "p: Wilcoxon's signed-rank test over datasets (over seeds where there are fewer than "
        f"{LEAST}), two-sided, corrected by Holm over the comparisons between two rules; in brackets the "
        "least it could have been with this number of datasets and comparisons.",
    ]


def _tests(result: Result, families: Sequence[Sequence[Comparison]], compact: bool) -> Sheet:
    """One line for each comparison; a rule between the families that were corrected together."""
    labels = {r.key: r.label for r in result.rows}
    digits = _digits(result.columns[0], compact)
    chance = ["P better", "equal", "worse", "p", "sets" if compact else "datasets"]
    sheet = Sheet(["method", "against", "difference", "95 % interval", *chance])
    for family in families:
        if sheet.lines:
            sheet.rules.add(len(sheet.lines))
        for c in family:
            v = c.verdict
            chances = [Text(f"{v[key]:z.2f}") for key in ("better", "equal", "worse")]
            sheet.lines.append(
                [
                    Text(labels[c.method]),
                    Text(labels[c.against]),
                    Text(
                        f"{v['difference']:+.{digits}f}",
                        bold=v["low"] > 0 or v["high"] < 0,
                        worse=v["high"] < 0,
                    ),
                    Text(f"{v['low']:+.{digits}f} to {v['high']:+.{digits}f}"),
                    *chances,
                    Text(f"{c.p:.2g} ({c.floor:.2g})"),
                    Text(f"{c.datasets}"),
                ]
            )
    return sheet


# ---------------------------------------------------------------- formats


def _md(words: str) -> str:
    """Words that Markdown shows as they are: marks, links, tags and the borders of cells escaped."""
    marks = r"[\\`*<>|]|(?<!\w)_|_(?!\w)|\](?=[(\[:])"
    return re.sub(marks, r"\\\g<0>", " ".join(words.split()))


def _markdown(title: str, sheet: Sheet, notes: Sequence[str]) -> str:
    def words(cell: Text, quiet: bool) -> str:
        seeds = "" if cell.seeds is None else f" [{cell.seeds}]"
        if not cell.words:
            return ""
        shown = _md(cell.words)
        return (f"**{shown}**" if cell.bold else f"*{shown}*" if quiet else shown) + seeds

    header = [_md(word) for word in sheet.header]
    lines = [[words(c, i in sheet.quiet) for c in line] for i, line in enumerate(sheet.lines)]
    widths = [max(len(line[j]) for line in [header, *lines]) for j in range(len(header))]

    def row(cells: Sequence[str]) -> str:
        padded = [
            c.ljust(w) if j == 0 else c.rjust(w) for j, (c, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    ruler = "|" + "|".join("-" * (w + 1) + ("-" if j == 0 else ":") for j, w in enumerate(widths)) + "|"
    body = "\n".join(row(line) for line in lines)
    below = "\n".join(f"- {_md(note)}" for note in notes)
    return f"### {_md(title)}\n\n{row(header)}\n{ruler}\n{body}\n\n{below}\n"


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "^": r"\^{}", "~": r"\~{}",
    "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "<": "$<$", ">": "$>$",
    "Γ": r"$\Gamma$", "–": "--", "±": r"$\pm$", "\n": " ", "\r": " ",
}  # fmt: skip


def _tex(words: str) -> str:
    return "".join(_LATEX.get(c, c) for c in words)


def _latex(title: str, sheet: Sheet, notes: Sequence[str]) -> str:
    def words(cell: Text, quiet: bool) -> str:
        seeds = "" if cell.seeds is None else f"$_{{{cell.seeds}}}$"
        shown = _tex(cell.words)
        shown = rf"\textbf{{{shown}}}" if cell.bold else rf"\textit{{{shown}}}" if quiet and shown else shown
        return shown + seeds

    out = [r"\begin{table}[ht]", r"\centering\small", rf"\caption{{{_tex(title)}}}"]
    out += [rf"\begin{{tabular}}{{l{'r' * (len(sheet.header) - 1)}}}", r"\toprule"]
    out += [" & ".join(_tex(h) for h in sheet.header) + r" \\", r"\midrule"]
    for i, line in enumerate(sheet.lines):
        out += [r"\midrule"] if i in sheet.rules else []
        out.append(" & ".join(words(c, i in sheet.quiet) for c in line) + r" \\")
    out += [r"\bottomrule", r"\end{tabular}", r"\par\smallskip"]
    out += [rf"{{\footnotesize {_tex(' '.join(notes))}}}", r"\end{table}", ""]
    return "\n".join(out)


def _html(title: str, sheet: Sheet, notes: Sequence[str]) -> str:
    def words(cell: Text) -> str:
        seeds = "" if cell.seeds is None else f"<sub>{cell.seeds}</sub>"
        shown = html.escape(cell.words)
        return (f"<b>{shown}</b>" if cell.bold else shown) + seeds

    head = "".join(f"<th>{html.escape(h)}</th>" for h in sheet.header)
    body = []
    for i, line in enumerate(sheet.lines):
        marks = [name for name, places in (("paper", sheet.quiet), ("rule", sheet.rules)) if i in places]
        kind = f' class="{" ".join(marks)}"' if marks else ""
        body.append(f"<tr{kind}>" + "".join(f"<td>{words(c)}</td>" for c in line) + "</tr>")
    below = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return (
        f"<table>\n<caption>{html.escape(title)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(body)
        + f"\n</tbody>\n</table>\n<ul>{below}</ul>\n"
    )


def to_csv(result: Result) -> str:
    """One line for each cell and selection rule; numbers in the table's units."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for row in result.rows:
        for column in result.columns:
            for rule in result.selections:
                entry = result.entry(row, column, rule)
                if entry is not None:
                    paper = entry.paper or (None, None)
                    bounds = [entry.interval["low"], entry.interval["high"]] if entry.enough else [None, None]
                    numbers = [entry.mean, entry.std, len(entry.values), *paper, *bounds]
                    shown = ["" if n is None else n for n in numbers]
                    writer.writerow(
                        [result.table.name, column.key, row.key, entry.rule, column.metric, *shown]
                    )
    return out.getvalue()
