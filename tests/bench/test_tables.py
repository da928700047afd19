"""Tables from hand-made records with known means, deviations, ranks and p-values."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ciga.bench.exhibit import PaperTable
from ciga.bench.grid import Variation, configs
from ciga.bench.paper import exhibit
from ciga.bench.render import HEADER, render
from ciga.bench.tables import fill
from ciga.errors import UsageError
from ciga.runs.records import Records
from tests.bench.conftest import record_of

Book = Callable[..., Records]
COLUMNS = [f"spmotif-{k}-{b}" for k in ("struc", "mixed") for b in ("0.33", "0.60", "0.90")]


@pytest.fixture
def table() -> PaperTable:
    found = exhibit("table-spmotif")
    assert isinstance(found, PaperTable)
    return found


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_is_long_and_has_the_papers_numbers(table: PaperTable, book: Book) -> None:
    records = book(table, {("erm", "spmotif-struc-0.60"): [0.5, 0.6, 0.7]})
    text = render(fill(table, records), "csv")
    assert text.splitlines()[0] == ",".join(HEADER)
    rows = {(r["dataset"], r["method"]): r for r in lines(text)}
    assert len(rows) == 62
    cell = rows["spmotif-struc-0.60", "erm"]
    assert float(cell["mean"]) == pytest.approx(60.0)
    assert float(cell["std"]) == pytest.approx(10.0)
    assert (cell["seeds"], cell["selection"], cell["metric"]) == ("3", "ood-val", "accuracy")
    assert (cell["paper_mean"], cell["paper_std"]) == ("55.48", "4.84")
    assert float(cell["high"]) - 60 == pytest.approx(4.3027 * 10 / 3**0.5, abs=0.01)  # Student's t, 2 degrees
    missing = rows["spmotif-struc-0.60", "cnc"]
    assert (missing["mean"], missing["std"], missing["seeds"]) == ("", "", "0")


def test_average_rank_best_and_missing(table: PaperTable, book: Book) -> None:
    scores: dict[tuple[str, str], list[float]] = {}
    for place, column in enumerate(COLUMNS):
        scores["erm", column] = [0.5] * 3
        scores["cnc", column] = [0.4] * 3 if place % 2 else [0.6] * 3
        scores["ciga-v1", column] = [0.9] * 3
    del scores["cnc", COLUMNS[5]]
    result = fill(table, book(table, scores))
    by_key = {r.key: r for r in result.rows}
    assert result.average(by_key["erm"], "default") == pytest.approx(50)
    assert result.average(by_key["cnc"], "default") is None
    assert result.average_rank(by_key["ciga-v1"], "default") == 1
    # CNC lacks a column: it is not ranked, and takes no place from the others in the columns that it has.
    assert result.average_rank(by_key["cnc"], "default") is None
    assert result.average_rank(by_key["erm"], "default") == 2
    assert result.best(result.columns[0], "default") == "ciga-v1"
    text = render(result, "md")
    erm = next(line for line in text.splitlines() if line.startswith("| ERM"))
    assert "50.00 (0.00) [3]" in erm
    assert "**90.00 (0.00)** [3]" in text
    assert "*59.49 (3.50)*" in text
    cnc = next(line for line in text.splitlines() if line.startswith("| CNC"))
    assert cnc.count("–") == 3  # the last cell, the average and the rank
    assert "Epoch selected by ood-val." in text
    assert f"{310 - 3 * 17} of 310 runs are missing" in text


def test_every_method_against_erm_and_ours_against_every_baseline(table: PaperTable, book: Book) -> None:
    base = [0.50, 0.52, 0.54, 0.56, 0.58]
    scores = {("erm", COLUMNS[0]): base}
    scores["cnc", COLUMNS[0]] = [b + 0.05 for b in base]
    scores["irm", COLUMNS[0]] = [b + 0.01 for b in base]
    scores["ciga-v2", COLUMNS[0]] = [b + d for b, d in zip(base, (0.1, 0.11, 0.12, 0.13, 0.14), strict=True)]
    result = fill(table, book(table, scores))
    erm, ours = result.comparisons("default")
    assert {(c.method, c.against) for c in erm} == {("cnc", "erm"), ("irm", "erm"), ("ciga-v2", "erm")}
    found = next(c for c in erm if c.method == "ciga-v2")
    assert found.verdict["difference"] == pytest.approx(12.0)
    # One dataset: the seeds are drawn, and the interval is Student's.
    assert found.verdict["high"] - 12 == pytest.approx(2.776 * 1.5811 / 5**0.5, abs=0.15)
    assert found.verdict["better"] == 1
    assert found.p == pytest.approx(3 * 2 / 32)  # all five positive; Holm over three methods
    assert found.floor == pytest.approx(3 * 2 / 32)
    # No baseline is picked after the fact: all of them, corrected together.
    assert {(c.method, c.against) for c in ours} == {("ciga-v2", "cnc"), ("ciga-v2", "irm")}
    assert [c.p for c in ours] == pytest.approx([2 * 2 / 32] * 2)
    plain, every = render(result, "md"), render(result, "md", every=True)
    assert "0.19 (0.19)" in plain
    assert "0.12 (0.12)" not in plain
    assert "0.12 (0.12)" in every


def test_too_few_seeds_are_neither_bold_nor_ranked_nor_compared(table: PaperTable, book: Book) -> None:
    """AUDIT M17, U7: one-seed cells were bold, and two seeds had an interval."""
    scores = {(row, c): [0.9, 0.9] for c in COLUMNS for row in ("erm", "cnc", "ciga-v2")}
    result = fill(table, book(table, scores))
    assert result.best(result.columns[0], "default") is None
    assert result.average_rank(result.rows[0], "default") is None
    assert result.comparisons("default") == []
    text = render(result, "md")
    assert "**" not in text
    assert "95 % interval" not in text
    rows = [r for r in lines(render(result, "csv")) if r["seeds"] == "2"]
    assert {(r["low"], r["high"]) for r in rows} == {("", "")}


def test_ranks_and_winners_within_one_preset(table: PaperTable, book: Book) -> None:
    """AUDIT M18: a method's tuned twin took ranks from its published self."""
    scores = {}
    for column in COLUMNS:
        scores |= {("erm", column): [0.5] * 3, ("cnc", column): [0.4] * 3}
        scores |= {("erm-tuned", column): [0.9] * 3, ("cnc-tuned", column): [0.8] * 3}
    result = fill(table, book(table, scores))
    by_key = {r.key: r for r in result.rows}
    found = {key: result.average_rank(by_key[key], "default") for key in ("erm", "cnc", "erm-tuned")}
    assert found == {"erm": 1, "cnc": 2, "erm-tuned": 1}
    text = render(result, "md")
    assert text.count("**50.00 (0.00)**") == text.count("**90.00 (0.00)**") == 6


def test_the_papers_rows_first_and_its_numbers_once(table: PaperTable, book: Book) -> None:
    """AUDIT U7: the paper's line was repeated under every twin of a row."""
    scores = {("erm", COLUMNS[0]): [0.5] * 3, ("erm-tuned", COLUMNS[0]): [0.6] * 3}
    scores |= {("ciga-v1-count", COLUMNS[0]): [0.8] * 3, ("erm", f"{COLUMNS[0]}-clean"): [0.7] * 3}
    records = book(table, scores)
    every = render(fill(table, records), "md")
    assert every.count("59.49 (3.50)") == 1
    assert every.count("71.07 (3.60)") == 1
    result = fill(table, records, also=())
    assert not any(thing.extra for thing in (*result.rows, *result.columns))
    assert "not the paper's: 2 rows and 1 column (--all shows them)" in render(result, "md")
    some = fill(table, records, also=["ciga-v1-count"])
    assert [r.key for r in some.rows if r.extra] == ["ciga-v1-count"]


def test_rows_whose_rule_asks_for_the_rest_are_named(table: PaperTable, book: Book, tmp_path: Path) -> None:
    records = book(table, {("erm", COLUMNS[0]): [0.5], ("ciga-v1", COLUMNS[0]): [0.6]})
    for file in (tmp_path / "runs").glob("*/record.json"):
        record = json.loads(file.read_text())
        if record["method"] == "ciga-v1":
            record["selection"] = "ood-val-rest"
            record["selected"]["ood-val-rest"] = record["selected"]["ood-val"]
            file.write_text(json.dumps(record))
    text = render(fill(table, records), "md")
    assert (
        "selected by ood-val; for CIGAv1 by the score on G_c minus the probe's score on G_s there (-rest)."
        in text
    )


def test_every_rule_side_by_side(table: PaperTable, book: Book) -> None:
    records = book(table, {("erm", COLUMNS[0]): [0.5, 0.5]})
    rows = [r for r in lines(render(fill(table, records, select="all"), "csv")) if r["seeds"] == "2"]
    found = {r["selection"]: float(r["mean"]) for r in rows}
    assert found == pytest.approx({"id-val": 49, "ood-val": 50, "oracle": 51, "last": 52})
    text = render(fill(table, records, select="all"), "md")
    assert "selected by" in text.splitlines()[2]
    assert "looks at test data" in text
    only = render(fill(table, records, select="last"), "md")
    assert "Epoch selected by last." in only
    with pytest.raises(UsageError, match="ood-val"):
        fill(table, records, select="best")


def test_extra_rows_appear_when_there_is_something_to_show(table: PaperTable, book: Book) -> None:
    records = book(table, {("ciga-v1-count", COLUMNS[0]): [0.8]})
    shown = [r.key for r in fill(table, records).rows]
    assert "ciga-v1-count" in shown
    assert "ciga-v2-count" not in shown
    assert "ciga-v2-count" in [r.key for r in fill(table, records, methods=["ciga-v2-count"]).rows]


def row_of(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| {label} "))


def test_presets_are_told_apart(table: PaperTable, book: Book) -> None:
    """Runs of one method from two presets stand in two rows, each compared with the ERM of its preset."""
    scores = {(row, COLUMNS[1]): [0.5, 0.6, 0.7] for row in ("erm", "ciga-v2")}
    scores |= {("erm-tuned", COLUMNS[1]): [0.6, 0.7, 0.8], ("ciga-v2-tuned", COLUMNS[1]): [0.9, 0.92, 0.94]}
    records = book(table, scores)
    result = fill(table, records)
    text = render(result, "md")
    assert "60.00 (10.00)** [3]" in row_of(text, "ERM")  # the best of its preset, as the other is of its own
    assert "70.00 (10.00) [3]" in row_of(text, "ERM, tuned")
    assert "**92.00 (2.00)** [3]" in row_of(text, "CIGAv2, tuned")
    assert "Settings: preset 'published' (what the paper used)." in text
    said = next(line for line in text.splitlines() if "rows 'tuned'" in line)
    assert "undirected=True" in said
    assert "budget=capped" in said
    families = result.comparisons("default")
    pairs = {(c.method, c.against): c.verdict["difference"] for family in families for c in family}
    assert pairs["ciga-v2", "erm"] == pytest.approx(0)
    assert pairs["ciga-v2-tuned", "erm-tuned"] == pytest.approx(22)
    assert ("ciga-v2-tuned", "erm") not in pairs
    rows = {(r["method"], r["dataset"]): r for r in lines(render(result, "csv"))}
    assert float(rows["erm", COLUMNS[1]]["mean"]) == pytest.approx(60)
    assert float(rows["erm-tuned", COLUMNS[1]]["mean"]) == pytest.approx(70)
    assert rows["erm-tuned", COLUMNS[1]]["paper_mean"] == "55.48"  # the same method in the paper
    # Asked for from the other side, the same runs have the plain names, and are not shown twice.
    tuned = render(fill(table, records, Variation(preset="tuned")), "md")
    assert "70.00 (10.00) [3]" in row_of(tuned, "ERM")
    assert "ERM, tuned" not in tuned
    assert "Settings: preset 'tuned' (it changes alpha=1.0" in tuned
    assert "Not the paper's setting: preset tuned" in tuned


def test_both_budgets_and_both_variants(table: PaperTable, book: Book) -> None:
    """Rows that say the budget appear if they are other runs than those above; clean data has its columns."""
    clean = f"{COLUMNS[1]}-clean"
    scores = {
        ("ciga-v1", COLUMNS[1]): [0.5],
        ("ciga-v1-count", COLUMNS[1]): [0.7],
        ("erm", clean): [0.6, 0.65, 0.7],
    }
    scores |= {("ciga-v1-ratio-tuned", clean): [0.8, 0.8], ("ciga-v1-count-tuned", clean): [0.9, 0.9]}
    scores |= {("cnc", clean): [0.5, 0.6, 0.7]}
    scores |= {("oracle-each", clean): [0.95], ("oracle-each", COLUMNS[0]): [0.94]}
    result = fill(table, book(table, scores))
    keys = [r.key for r in result.rows]
    assert "ciga-v1-ratio" not in keys  # the very runs of ciga-v1
    assert {"ciga-v1-count", "ciga-v1-ratio-tuned", "ciga-v1-count-tuned", "oracle-each"} <= set(keys)
    assert "ciga-v1-tuned" not in keys  # another budget than both: no run of it
    assert [c.key for c in result.columns] == [*COLUMNS, clean]
    text = render(result, "md")
    assert "Struc 0.60 clean" in text
    assert "Paired comparisons on columns that are not the paper's" in text
    assert result.average(result.rows[0], "default") is None
    # Only the clean columns: their average.
    alone = fill(table, book(table, {}), datasets=[clean])
    assert alone.average(next(r for r in alone.rows if r.key == "erm"), "default") == pytest.approx(65)
    # All columns on clean data are those columns: they are not shown twice.
    varied = fill(table, book(table, {}), Variation({"variant": "clean"}))
    assert [c.key for c in varied.columns] == COLUMNS
    assert varied.entry(varied.rows[0], varied.columns[1], "default").mean == pytest.approx(65)


def test_failed_runs_are_said(table: PaperTable, tmp_path: Path) -> None:
    cell = table.cells(["dir"], [COLUMNS[0]])[0]
    records = Records([tmp_path])
    records.runs[0].write_failure(configs(cell, Variation())[0], {"error": "it broke", "time": ""})
    text = render(fill(table, records), "md")
    assert "failed" in next(line for line in text.splitlines() if line.startswith("| DIR"))
    assert "310 of 310 runs are missing, 1 of them failed" in text


def test_time_is_better_when_less(book: Book) -> None:
    table = exhibit("table-runtime")
    assert isinstance(table, PaperTable)
    book(table, {("erm", "seconds"): [0.5] * 3}, seconds=8.0)
    records = book(table, {("gib", "seconds"): [0.6] * 3}, seconds=400.0)
    result = fill(table, records)
    assert result.best(result.columns[0], "default") == "erm"
    assert result.best(result.columns[1], "default") == "gib"
    by_key = {r.key: r for r in result.rows}
    assert result.average_rank(by_key["erm"], "default") == 1.5
    entry = result.entry(by_key["gib"], result.columns[0], "default")
    assert entry is not None
    assert entry.mean == 100.0
    assert entry.paper == (300.304, None)
    assert [c.datasets for family in result.comparisons("default") for c in family] == [
        1
    ]  # no score: seconds


def test_another_metric(table: PaperTable, book: Book) -> None:
    records = book(table, {("erm", COLUMNS[0]): [0.5]})
    result = fill(table, records, metric="mcc")
    entry = result.entry(result.rows[0], result.columns[0], "default")
    assert entry is not None
    assert entry.mean == pytest.approx(0.5)
    assert entry.paper is None
    nothing = fill(table, records, metric="edge_auroc")
    assert not any(e.values for e in nothing.entries.values())


def test_latex_and_html_are_well_formed(table: PaperTable, book: Book) -> None:
    from xml.etree import ElementTree

    records = book(table, {("erm", COLUMNS[0]): [0.5, 0.6, 0.7], ("ciga-v1", COLUMNS[0]): [0.8, 0.85, 0.9]})
    result = fill(table, records, Variation(preset="published"))
    latex = render(result, "latex")
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    assert r"\textbf{85.00 (5.00)}$_{3}$" in latex
    body = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in body} == {8}
    ElementTree.fromstring(f"<div>{render(result, 'html')}</div>")
    with pytest.raises(UsageError, match="csv"):
        render(result, "docx")


def test_labels_cannot_break_out_of_their_cell() -> None:
    from ciga.bench.render import Sheet, Text, show

    name = "a|b <i>*x*</i> _y_ `z` [u](v) \\input{f} $1^2~3$ 50% & #\nnext"
    sheet = Sheet(["method", name], [[Text(name), Text("1.00", bold=True, seeds=5)]])
    shown = show([("title", sheet, [name])], "md")
    lines = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(lines) == 3
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}
    assert not re.search(r"(?<!\\)<", shown)
    assert r"\]" in shown
    latex = show([("title", sheet, [name])], "latex")
    for plain in (r"\input", "{f}", " 50% ", " $1"):
        assert plain not in latex
    for escaped in (r"\textbackslash{}input\{f\}", r"\$1\^{}2\~{}3\$", r"50\% \& \#"):
        assert escaped in latex


def test_an_unknown_metric_is_refused(table: PaperTable, book: Book) -> None:
    with pytest.raises(UsageError, match=r"no metric called 'acuracy'\. Did you mean accuracy"):
        fill(table, book(table, {}), metric="acuracy")


def test_a_selection_the_data_has_not(table: PaperTable, book: Book) -> None:
    records = book(table, {("erm", COLUMNS[0]): [0.5]}, rules=("id-val", "last"))
    assert "Epoch selected by id-val." in render(fill(table, records), "md")
    assert not any(e.values for e in fill(table, records, select="ood-val").entries.values())


def test_record_helper_is_found_by_its_own_configuration(table: PaperTable, book: Book) -> None:
    """The fixture writes under the hash the table looks for: otherwise every test above would be empty."""
    cell = table.cells(["erm"], [COLUMNS[0]])[0]
    config = configs(cell, Variation())[0]
    assert record_of(config, 0.5)["hash"] == config.hash
