"""What the commands look like in a terminal of 80 columns: nothing wider, no score or name cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ciga.bench.exhibit import PaperTable
from ciga.bench.grid import Variation, configs
from ciga.bench.paper import exhibit
from ciga.cli import screen
from ciga.cli.help import EXAMPLES, GROUPS
from ciga.cli.screen import again, complete, next_step, show_warning, warn
from ciga.files import write_json
from tests.bench.conftest import record_of
from tests.helpers import ciga

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command in an empty folder, 80 columns wide."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: ciga(monkeypatch, capsys, *words, columns=80)


def fits(text: str) -> bool:
    return max(map(len, text.splitlines())) <= 80 and "…" not in text


@pytest.mark.parametrize("number", ["1", "2", "3", "6", "7"])
def test_tables(run: Run, number: str) -> None:
    """AUDIT U6: Markdown 300 columns wide on a terminal."""
    code, out, _ = run("table", number, "--format=screen")
    assert code == 0
    assert fits(out)
    if number == "2":
        assert "71.8±0.3" in out
        assert run("table", "2", "--format=screen", "--out=x.md")[0] == 2


def test_dry_run(run: Run) -> None:
    """AUDIT U6: 360 lines."""
    code, out, _ = run("bench", "2", "--dry-run")
    assert code == 0
    assert fits(out.rpartition("table-real:")[0])
    assert len(out.splitlines()) < 40
    assert "360 runs, 0 recorded, 360 missing" in out


def test_dry_run_with_options_of_the_dataset(run: Run) -> None:
    """A long line of options left no room for the methods and the numbers."""
    given = [f"--data={key}=1000" for key in ("train_per_class", "val_per_class", "test_per_class")]
    code, out, _ = run("bench", "table-spmotif", *given, "--datasets=spmotif-struc-0.60", "--dry-run")
    assert code == 0
    table = out.rpartition("table-spmotif:")[0]
    assert fits(table)
    assert {"runs", "time", "55"} <= set(table.split())
    assert all(f"{key}=1000" in table for key in ("train_per_class", "val_per_class", "test_per_class"))


def test_datasets_of_the_paper(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A table like the others: drawn on a terminal, Markdown when piped."""
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))  # nothing is there: the paper's numbers alone
    few = ["table", "table-datasets", "--datasets=drugood-ic50-size,drugood-ic50-assay"]
    code, out, said = run(*few, "--format=screen")
    assert code == 0
    assert fits(out)
    assert "|" not in out
    assert "36,597" in out
    assert "Next:  ciga data stats" in said
    assert run(*few)[1].count("|") > 20


@pytest.mark.parametrize(("no_colour", "forced"), [("", ""), ("", "1"), ("1", "1")])
def test_errors_are_red_and_warnings_yellow(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_colour: str, forced: str
) -> None:
    """Only on a terminal, and not where NO_COLOR is set."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", forced)
    monkeypatch.setenv("NO_COLOR", no_colour)
    coloured = bool(forced and not no_colour)
    code, _, said = run("table", "table-nothing")
    assert code == 2
    assert said.startswith("\x1b[31mciga: " if coloured else "ciga: ")
    assert ("\x1b" in said) is coloured
    warn("Take care [of this].")
    assert capsys.readouterr().err == (
        "\x1b[33mTake care [of this].\x1b[0m\n" if coloured else "Take care [of this].\n"
    )


def test_our_warnings_are_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    show_warning("The cache is damaged.", UserWarning, str(Path(screen.__file__)), 1)
    assert capsys.readouterr().err == "ciga: The cache is damaged.\n"
    show_warning("Old.", DeprecationWarning, "elsewhere.py", 1)
    assert capsys.readouterr().err.startswith("elsewhere.py:1: DeprecationWarning: Old.")


def test_a_sentence_is_broken_between_words_and_never_in_a_command() -> None:
    quick, all_of_it = "ciga bench figure-alpha --quick", "ciga bench figure-alpha"
    said = f"Too few are recorded. Make them with  {quick}  or  {all_of_it}."
    found = screen.broken(said, 40)
    assert found == [
        "Too few are recorded. Make them with",
        "ciga bench figure-alpha --quick  or",
        "ciga bench figure-alpha.",
    ]
    assert screen.broken("ciga: one word after another", 12) == ["ciga: one", "word after", "another"]
    assert screen.broken("", 40) == [""]


def test_the_next_command_repeats_what_it_needs() -> None:
    assert again() == ""
    assert again(["bias=0.9"], [Path("my plugin.py")], Path("other")) == (
        " --data bias=0.9 --plugin 'my plugin.py' --runs-dir other"
    )


def test_a_long_reason_goes_below_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The terminal broke words; the command itself stays whole, to be copied."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    command, why = "ciga bench table-real --quick", "erm, ciga-v2 on graph-sst5, 3 seeds; " * 3
    next_step(command, why)
    assert len(capsys.readouterr().err.splitlines()) == 1  # piped
    monkeypatch.setenv("FORCE_COLOR", "1")
    next_step(command, why)
    first, *below = capsys.readouterr().err.splitlines()
    assert first == f"Next:  {command}"
    assert fits("\n".join(below))
    assert " ".join(" ".join(below).split()) == f"({why.strip()} )"
    next_step(command, "short")
    assert capsys.readouterr().err == f"Next:  {command}   (short)\n"


def test_runs(run: Run, tmp_path: Path) -> None:
    """AUDIT U6: the score was cut at 80 columns."""
    code, out, said = run("runs")
    assert (code, out) == (0, "No run is recorded in runs.\n")
    assert "Next:  ciga run" in said
    table = exhibit("table-real")
    assert isinstance(table, PaperTable)
    cells = table.cells(["ciga-v2", "oracle"], ["drugood-ic50-scaffold", "cmnist-sp"])
    for cell in cells:
        for config in configs(cell, Variation(), [1, 2]):
            write_json(tmp_path / "runs" / config.hash / "record.json", record_of(config, 0.8765))
    code, out, said = run("runs")
    assert code == 0
    assert fits(out)
    assert out.count("0.876") + out.count("0.877") == 8
    for whole in ("drugood-ic50-scaffold", "erm (iid)", "ood-val", "8 runs in runs"):
        assert whole in out
    short = out.splitlines()[2].split()[0]
    assert f"ciga runs show {out.splitlines()[9].split()[0]}" in said
    assert run("runs", "--method=nothing")[1] == "No run is recorded in runs that fits.\n"
    assert len(short) == 8


COMMANDS = "| run| tune| demo| fit| predict| explain| export| bench| table| figure| methods| datasets"
COMMANDS += "| data| data check| data stats| runs| runs show| runs compare"


@pytest.mark.parametrize("command", COMMANDS.split("|"))
def test_help_has_groups_examples_and_plain_types(run: Run, command: str) -> None:
    """AUDIT U6: `<bool>` after flags, no example, no group."""
    words = command.split()
    code, out, _ = run(*words, "--help")
    assert code == 0
    assert fits(out.partition("Examples")[0].replace("…", "."))
    assert "<" not in out
    assert "Examples" in out
    for option in ("--json", "--help", "--version", "--dry-run", "--strict"):
        assert not [line for line in out.splitlines() if line.startswith(f"  {option} TEXT")]
    if not words:
        assert out.index("Your own data") < out.index("Experiments") < out.index("The paper")
        assert "--install-completion" in out
    if words == ["run"]:
        assert "--seed N " in out
        assert "[default: runs]" in out


def test_examples_are_of_commands_that_exist() -> None:
    known = {name for names in GROUPS.values() for name in names}
    for examples in EXAMPLES.values():
        for example in examples:
            assert example.split()[1] in known


def test_version(run: Run) -> None:
    import ciga as package

    assert run("--version") == (0, f"ciga {package.__version__}\n", "")


def test_names_are_completed() -> None:
    assert complete("methods")("ciga-") == ["ciga-complement", "ciga-v1", "ciga-v2"]
    assert complete("datasets")("nci") == ["nci1", "nci109"]
    assert "table-size" in complete("exhibits")("table-s")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ciga table table-s", ["table-spmotif", "table-size", "table-single-env"]),
        ("ciga figure figure-a", ["figure-alpha"]),
        ("ciga bench figure-b", ["figure-beta"]),
        ("ciga tune nci", ["nci1", "nci109"]),
        ("ciga data stats nci", ["nci1", "nci109"]),
        ("ciga run nci1 ciga-v", ["ciga-v1", "ciga-v2"]),
    ],
)
def test_the_shell_is_offered_names(
    run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, offered: list[str]
) -> None:
    """As bash asks, after Tab."""
    monkeypatch.setenv("_CIGA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    _, out, _ = run()
    assert set(out.split()) == set(offered)


def test_a_missing_argument_is_called_what_the_help_calls_it(run: Run) -> None:
    code, _, err = run("table")
    assert code == 2
    assert "Usage: ciga table NAME [options]" in err
    assert "Missing argument 'NAME'." in err


def test_an_example_is_of_the_command_it_stands_under() -> None:
    for path, examples in EXAMPLES.items():
        start = "ciga " if path == "ciga" else f"ciga {path}"
        assert all(example.startswith(start) for example in examples), path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "spmotif-struc", "erm", "--seed=-1"], "It must be at least 0."),
        (["run", "spmotif-struc", "erm", "--epochs=x"], "It must be a whole number."),
        (["runn"], "Usage: ciga COMMAND [options]"),
        (["runs", "compare", "3e2052a5"], "Name another run to set beside 3e2052a5"),
        (["table", "1", "--format=pdf"], "There is no format 'pdf': use screen, md"),
        (["explain", "model", "nothere.csv"], "There is no file nothere.csv."),
        (["predict", "model", "nothere.csv", "--out=-"], "There is no file nothere.csv."),
    ],
)
def test_wrong_words_are_answered_plainly(run: Run, words: list[str], said: str) -> None:
    code, out, err = run(*words)
    assert code == 2
    assert said in " ".join((out + err).split())
    assert "Input should" not in err


def test_a_table_without_a_named_label(run: Run, tmp_path: Path) -> None:
    """`There is no column called 'label'` did not say how to name it."""
    (tmp_path / "new.csv").write_text("smiles,active\nCCO,1\nCCC,0\n", encoding="utf-8")
    says = "Say which column to predict: --label COLUMN. new.csv has smiles, active."
    for words in (["data", "check", "new.csv"], ["fit", "new.csv", "--out=m"]):
        code, _, err = run(*words)
        assert code == 2
        assert says in " ".join(err.split())
