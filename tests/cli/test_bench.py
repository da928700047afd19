"""`ciga bench`, `table`, `figure`, `tune` and `runs`, as typed."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ciga.cli.bench_options import parse_seeds
from ciga.errors import UsageError
from ciga.runs.pool import executors
from ciga.runs.pool.executors import Inline
from tests.helpers import ciga

TINY = ["--data=train_per_class=6", "--data=val_per_class=3", "--data=test_per_class=3"]
TINY += ["--epochs=2", "--set=layers=2", "--set=width=8"]
PART = ["--methods=erm,ciga-v2-count", "--datasets=spmotif-struc-0.60,spmotif-mixed-0.90"]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command in an empty folder, its runs in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(executors, "Processes", lambda *args: Inline())
    return lambda *words: ciga(monkeypatch, capsys, *words)


def test_bench_then_table_from_an_empty_folder(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("bench", "table-spmotif", *TINY, *PART, "--seeds=1-2", "--dry-run")
    assert code == 0
    assert out.count("erm, ciga-v2: 1-2") == 2
    assert "8 runs, 0 recorded, 8 missing" in out
    code, _, error = run("bench", "table-spmotif", *TINY, *PART, "--seeds=1-2")
    assert code == 0
    assert "8 runs, 0 recorded before, 8 done now, 0 failed" in error
    assert "[8/8]" in error
    # The table shows what was run, and says that this is not the paper's setting.
    code, out, _ = run("table", "table-spmotif")
    assert code == 0
    assert "CIGAv2, 8 edges" in out
    assert out.count(" [2] |") == 4
    assert "Not the paper's setting: train_per_class=6" in out
    code, out, _ = run("table", "table-spmotif", "--format=csv", "--select=all")
    found = [r for r in csv.DictReader(io.StringIO(out)) if r["seeds"] == "2"]
    rules = [r["selection"] for r in found]
    assert {r: rules.count(r) for r in rules} == {
        "id-val": 4,
        "ood-val": 4,
        "ood-val-rest": 2,  # ERM leaves nothing behind
        "oracle": 4,
        "last": 4,
    }
    # The full runs are others, and none of them is there.
    code, out, _ = run("table", "table-spmotif", "--data=variant=paper")
    assert "310 of 310 runs are missing" in out
    code, _, error = run("bench", "table-spmotif", *TINY, *PART, "--seeds=1-2")
    assert "8 recorded before, 0 done now" in error
    code, out, _ = run("bench", "table-spmotif", *TINY, *PART, "--dry-run", "--seeds=1-3")
    assert "12 runs, 8 recorded, 4 missing" in out


def test_two_presets_in_one_folder(run: Run) -> None:
    """The released SPMotif data: the tuned preset has messages both ways, the published one does not."""
    words = ["table-spmotif", *TINY, "--methods=erm", "--datasets=spmotif-struc-0.60", "--seeds=1"]
    for preset in ("published", "tuned"):
        assert "1 done now" in run("bench", *words, f"--preset={preset}")[2]
    found = json.loads(run("runs", "--json")[1])
    assert sorted(r["settings"]["undirected"] for r in found) == [False, True]
    assert "1 run in" in run("runs", "--where=undirected=true")[1]
    # The last bench is what a table without options shows; it says so.
    out = run("table", "table-spmotif")[1]
    said = next(line for line in out.splitlines() if "Settings: preset 'tuned' (it changes" in line)
    assert "gate_price=3.0" in said
    assert "ERM, tuned" not in out
    # Asked for the published preset, it shows the paper's own runs: other ones, none of which is there.
    out = run("table", "table-spmotif", "--preset=published")[1]
    assert "310 of 310 runs are missing" in out
    # From the paper's side both are there, each in its row.
    out = run("table", *words[:1], *TINY, "--preset=published", "--format=csv", "--all")[1]
    seeds = {r["method"]: r["seeds"] for r in csv.DictReader(io.StringIO(out)) if r["seeds"] != "0"}
    assert seeds == {"erm": "1", "erm-tuned": "1"}


def test_runs_list_show_compare_export(run: Run, tmp_path: Path) -> None:
    run(
        "bench", "table-spmotif", *TINY, "--methods=erm,ciga-v1", "--datasets=spmotif-struc-0.60", "--seeds=1"
    )
    code, out, _ = run("runs")
    assert code == 0
    assert "2 runs in runs" in out
    code, out, _ = run("runs", "--json")
    records = json.loads(out)
    names = [r["hash"] for r in records]
    assert {r["method"] for r in records} == {"erm", "ciga-v1"}
    code, out, _ = run("runs", "--method=ciga-*", "--where=size=0.25")
    assert "1 run in" in out
    assert "No run is recorded" in run("runs", "--where=size=0.5")[1]
    code, out, said = run("runs", "show", names[0][:8])
    assert code == 0
    assert f"Next:  ciga runs compare {names[0][:8]} OTHER" in said
    assert "train_per_class=6" in out
    code, out, said = run("runs", "compare", *names)
    assert code == 0
    assert "Next:  ciga runs export --csv runs.csv" in said
    assert "ood-val.ood_test.accuracy" in out
    assert "settings.width" not in out  # equal in both
    assert run("runs", "show", "zzz")[0] == 2
    assert run("runs", "export")[0] == 2
    code, _, said = run(
        "runs", "export", "--csv=all.csv", "--jsonl=results/all.jsonl", "--parquet=all.parquet"
    )
    assert code == 0
    assert "2 runs in all.csv" in said
    assert "Next:  ciga bench --list" in said
    code, out, said = run("runs", "--failed")
    assert (code, out, said) == (0, "", "No failed run is recorded in runs.\n")
    rows = list(csv.DictReader((tmp_path / "all.csv").open()))
    assert len(rows) == 2
    assert {r["settings.epochs"] for r in rows} == {"2"}
    lines = [json.loads(line) for line in (tmp_path / "results/all.jsonl").read_text().splitlines()]
    assert all("history" not in r for r in lines)
    import pandas as pd

    assert list(pd.read_parquet(tmp_path / "all.parquet")["hash"]) == [r["hash"] for r in lines]


def test_committed_lines_count_as_recorded(run: Run, tmp_path: Path) -> None:
    """What `ciga runs export --jsonl` wrote is enough for a table, and is not run again."""
    words = ["table-spmotif", *TINY, "--methods=erm", "--datasets=spmotif-struc-0.60", "--seeds=1-2"]
    run("bench", *words)
    assert run("runs", "export", "--jsonl=results/spmotif.jsonl")[0] == 0
    before = run("table", *words, "--format=csv")[1]
    assert ",2,55.48,4.84" in before
    (tmp_path / "runs").rename(tmp_path / "gone")
    assert run("table", *words, "--format=csv")[1] == before
    assert "2 recorded before, 0 done now" in run("bench", *words)[2]


def test_a_table_without_records_says_what_to_type(run: Run) -> None:
    """AUDIT U7: `ciga table 2` was refused, and 72 empty cells came without a hint."""
    code, out, error = run("table", "2")
    assert code == 0
    assert "Table 2" in out
    assert "Nothing of table-real is recorded here yet." in error
    assert "ciga bench table-real --quick" in error
    assert "on graph-sst5, graph-twitter, 3 seeds; 24 runs, about" in error
    assert "360 runs, about" in error
    code, _, error = run("table", "99")
    assert code == 2
    assert "1, 2, 3" in error


def test_quick_is_a_slice_of_the_table(run: Run) -> None:
    code, out, error = run("bench", "1", "--quick", "--dry-run")
    assert code == 0
    assert "18 runs, 0 recorded, 18 missing" in out
    assert "erm, ciga-v1, ciga-v2 on spmotif-struc, spmotif-mixed, 3 seeds." in error
    assert run("bench", "1", "--quick", "--methods=erm")[0] == 2
    assert run("bench", "figure-ranks", "--quick")[0] == 2
    # Sizes and epochs may still be given; the table then shows what was run, by its number or its name.
    assert run("bench", "1", "--quick", *TINY, "--seeds=1")[0] == 0
    assert " [1] |" in run("table", "1")[1]


def test_list_shows_everything(run: Run) -> None:
    code, out, _ = run("bench", "--list")
    assert code == 0
    for name in ("table-spmotif", "table-datasets", "figure-failure", "figure-subgraphs", "figure-ranks"):
        assert name in out
    assert "1260" in out  # runs of the failure study


def test_rows_of_ones_own(run: Run) -> None:
    words = ["table-spmotif", *TINY, "--methods=none", "--datasets=spmotif-struc-0.60", "--seeds=1"]
    code, _, error = run("bench", *words, "--row=My idea=ciga-v1:alpha=3,size=0.5")
    assert code == 0
    assert "1 run," in error
    code, out, _ = run("table", "table-spmotif")
    assert "My idea" in out
    assert run("bench", *words, "--row=nonsense")[0] == 2


def test_columns_of_ones_own(run: Run) -> None:
    """The mirror image of --row: a dataset with its options, beside the paper's columns or alone."""
    words = ["table-spmotif", *TINY, "--methods=erm,ciga-v1", "--seeds=1"]
    mine = "--column=Weak bias=spmotif-struc:bias=0.4,variant=paper"
    code, out, _ = run("bench", *words, "--datasets=none", mine, "--dry-run")
    assert (code, "2 runs, 0 recorded, 2 missing" in out, "bias=0.4" in out) == (0, True, True)
    code, _, error = run("bench", *words, "--datasets=none", mine)
    assert code == 0, error
    assert "2 runs, 0 recorded before, 2 done now" in error
    # The table shows it beside the paper's columns, in its own scale; `none` shows nothing else.
    code, out, _ = run("table", "table-spmotif")
    assert code == 0
    assert out.count(" [1] |") == 2
    header = next(line for line in out.splitlines() if line.startswith("| method"))
    assert "Weak bias" in header
    assert "Struc" in header
    out = run("table", "table-spmotif", "--datasets=none")[1]
    header = next(line for line in out.splitlines() if line.startswith("| method"))
    assert header.split("|")[2].strip() == "Weak bias"
    assert "Struc" not in header
    found = [
        r for r in csv.DictReader(io.StringIO(run("table", "1", "--format=csv")[1])) if r["seeds"] == "1"
    ]
    assert [(r["dataset"], r["method"]) for r in found] == [("weak-bias", "erm"), ("weak-bias", "ciga-v1")]
    # Rows and columns of one's own meet in a cell, also in the quick slice.
    both = [mine, "--row=Mine=ciga-v1:alpha=3"]
    code, out, _ = run("bench", *words[:1], *TINY, "--methods=none", "--datasets=none", *both, "--dry-run")
    assert "5 runs, 0 recorded, 5 missing" in out
    code, out, _ = run("bench", *words[:1], *TINY, "--quick", *both, "--dry-run")
    assert code == 0
    assert "36 runs, 2 recorded, 34 missing" in out


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (["--column=nonsense"], "--column takes LABEL=DATASET:key=value,…, not 'nonsense'."),
        (["--column==nci1"], "--column takes LABEL=DATASET:key=value,…, not '=nci1'."),
        (["--column=Mine=nci1:path"], "--column takes key=value, not 'path'."),
        (["--column=Mine=nci2"], "nci2"),
        (["--column=Mine=nci1:colour=red"], "colour"),
        (["--column=A=nci1", "--column=a=dd"], "the table has a column 'a', use another label."),
        (["--row=ERM=erm"], "the table has a row 'erm', use another label."),
    ],
)
def test_a_wrong_row_or_column_is_one_sentence(run: Run, said: list[str], answer: str) -> None:
    code, _, error = run("bench", "table-spmotif", "--methods=erm", "--datasets=none", *said, "--dry-run")
    assert code == 2
    assert answer in " ".join(error.split())
    assert "Traceback" not in error


@pytest.mark.parametrize("name", ["figure-alpha", "table-datasets"])
def test_only_tables_of_methods_have_rows_and_columns(run: Run, name: str) -> None:
    code, _, error = run("bench", name, "--column=Mine=nci1", "--dry-run")
    assert code == 2
    assert f"{name} is not a table of methods" in " ".join(error.split())


def test_wrong_words(run: Run) -> None:
    for words in (
        ["bench", "table-spmotiv"],
        ["bench"],
        ["bench", "table-spmotif", "--methods=erm,cigar"],
        ["bench", "table-spmotif", "--seeds=five"],
        ["bench", "table-spmotif", "--data=bias=0.5"],
        ["table", "table-spmotif", "--format=docx"],
        ["table", "figure-alpha"],
        ["tune", "spmotif-struc", "erm"],
        ["tune", "spmotif-struc", "ciga-v1", "--space=random"],
    ):
        code, _, error = run(*words)
        assert code == 2, words
        assert "Traceback" not in error
        assert error.strip().count("\n") <= 6


def test_seeds() -> None:
    assert parse_seeds("1-3,7,2") == [1, 2, 3, 7]
    assert parse_seeds(None) == []
    with pytest.raises(UsageError, match="empty range"):
        parse_seeds("5-1")
    with pytest.raises(UsageError, match="at most"):
        parse_seeds("1-99999999999999999999")


def test_the_next_command_means_the_same_part(run: Run) -> None:
    """It named the whole table, whatever had been asked for."""
    part = ["--methods=erm", "--datasets=spmotif-struc-0.60"]
    _, _, said = run("bench", "table-spmotif", *TINY, *part, "--seeds=1-2", "--row", "Big ERM=erm:width=16")
    assert "Next:  ciga table table-spmotif --methods erm --datasets spmotif-struc-0.60   (" in said
    _, _, said = run("table", "table-spmotif", *part, "--seeds=1-4")
    offered = next(line for line in said.splitlines() if line.startswith("Next:  ciga bench"))
    command, _, why = offered.removeprefix("Next:  ciga ").partition("   (")
    assert why.startswith("runs what is missing: 4 runs, ")
    _, out, _ = run(*shlex.split(command), "--dry-run")
    assert "8 runs, 4 recorded, 4 missing" in out


def test_a_record_without_weights_is_no_model_to_draw(run: Run) -> None:
    """It counted as done, so that the figure could never be drawn beside the committed records."""
    words = ["figure-subgraphs", *TINY, "--datasets=spmotif-mixed"]
    assert run("bench", *words, "--runs-dir=elsewhere")[0] == 0
    assert run("runs", "export", "--runs-dir=elsewhere", "--jsonl=results/all.jsonl")[0] == 0
    assert " 0 recorded, " in run("bench", *words, "--dry-run")[1]


def test_figure_and_report(run: Run, tmp_path: Path) -> None:
    words = [*TINY, "--datasets=spmotif-mixed", "--seeds=1"]
    assert run("bench", "figure-alpha", *words, "--report=report.html")[0] == 0
    assert (tmp_path / "report.html").stat().st_size > 1000
    code, out, said = run("figure", "figure-alpha", "--out=pictures")
    assert code == 0
    assert "Next:  ciga bench figure-alpha --seeds 1 --set layers=2 " in said
    assert (
        run("figure", "figure-theory")[2]
        == "Next:  ciga bench --list   (shows the other tables and figures)\n"
    )
    assert [Path(line).name for line in out.split()] == ["figure-alpha.svg", "figure-alpha.png"]
    code, _, error = run("figure", "figure-beta")
    assert code == 1
    assert "ciga bench figure-beta" in error


def test_tune_then_run(run: Run, tmp_path: Path) -> None:
    small: list[Any] = [*TINY, "--trials=2", "--over=alpha=0.5,2", "--out=best.toml"]
    code, out, told = run("tune", "spmotif-struc", "ciga-v1", *small)
    assert code == 0
    assert "2 complete" in out
    for place in ("[1/2] alpha=", "[2/2] alpha="):  # progress
        assert place in told
    assert "trial 0, spmotif-struc, seed 1: " in told
    assert "Next:  ciga run spmotif-struc ciga-v1 --settings best.toml --data train_per_class=6" in told
    told = run("tune", "spmotif-struc", "ciga-v1", *small[:-1])[2]
    assert "Next:  ciga tune spmotif-struc ciga-v1 " in told
    assert "--over=alpha=0.5,2 --out best.toml   (keeps the best settings; runs nothing)" in told
    data = [w for w in TINY if w.startswith("--data")]
    code, out, _ = run("run", "spmotif-struc", "ciga-v1", *data, "--settings=best.toml", "--json")
    assert code == 0
    assert json.loads(out)["settings"]["epochs"] == 2
    assert json.loads(out)["settings"]["alpha"] in (0.5, 2.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds="], "--seeds takes numbers and ranges"),
        (["--seeds=1,,2"], "--seeds takes numbers and ranges"),
        (["--seeds=1-1000000000", "--dry-run"], "at most 1000 seeds"),  # not a list of a billion numbers
        (["--seeds=1-600,1001-1600"], "at most 1000 seeds"),
        (["--limit-hours=-1"], "give a number of hours"),
        (["--limit-hours=nan"], "give a number of hours"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    run: Run, tmp_path: Path, words: list[str], said: str
) -> None:
    code, _, error = run("bench", "table-spmotif", *words)
    assert code == 2
    assert said in error
    assert list(tmp_path.iterdir()) == []
