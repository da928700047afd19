"""`ciga datasets` and `ciga data …`, as a user calls them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ciga.cli import app
from ciga.data.check import view
from ciga.data.dataset import datasets, make
from ciga.errors import CigaError, UsageError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))


def ciga(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.stdout


def ciga_json(*arguments: str) -> Any:
    return json.loads(ciga(*arguments, "--json"))


def write_graphs(path: Path, count: int = 40, bad: int = 0) -> Path:
    lines = []
    for i in range(count):
        size = 4 + i // 2
        edges = [[u, u + 1] for u in range(size - 1)]
        lines.append({"x": [[float(u % 3)] for u in range(size)], "edges": edges, "y": i % 2, "env": i % 3})
    lines += [{"num_nodes": 2, "edges": [[0, 5]], "y": 0}] * bad
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_the_list_has_every_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_DATA", str(tmp_path / "nothing"))
    rows = ciga_json("datasets")
    assert list(rows) == list(datasets)
    assert rows["nci1"]["metric"] == "mcc"
    assert rows["nci1"]["sizes"] == {"train": 1942, "id_val": 215, "ood_test": 412}
    assert rows["nci1"]["sizes_from"] == "paper"
    assert rows["nci1"]["files_here"] is False
    assert "TU/NCI1/raw/NCI1_A.txt" in rows["nci1"]["missing_files"]
    assert rows["spmotif-struc"]["files_here"] is True
    assert rows["spmotif-struc"]["sizes"]["ood_test"] == 3000
    assert rows["drugood-ec50-assay"]["sizes"]["id_val"] == 1502
    assert rows["molecules"]["sizes"] is None
    table = ciga("datasets")
    assert "cmnist-sp" in table
    assert str(tmp_path / "nothing") in table.replace("\n", "")


def test_the_list_knows_the_sizes_of_what_was_prepared() -> None:
    assert ciga_json("datasets")["ego"]["sizes"] is None
    assert "ego is ready" in ciga("data", "prepare", "ego", "--data", "hops=1")
    assert ciga_json("datasets")["ego"]["sizes"] is None, "other options, other data"
    ready = ciga_json("data", "prepare", "ego")
    row = ciga_json("datasets")["ego"]
    assert row["sizes"] == ready["splits"]
    assert row["sizes_from"] == "cache"


def test_a_file_in_the_cache_is_not_taken_for_another(tmp_path: Path) -> None:
    """`ciga datasets` showed the sizes of whichever graphs were built last."""
    path = write_graphs(tmp_path / "g.jsonl")
    ciga("data", "prepare", "graphs", "--data", f"path={path}")
    row = ciga_json("datasets")["graphs"]
    assert row["sizes"] is None
    assert row["files_here"] is False


def test_stats_of_ones_own_graphs(tmp_path: Path) -> None:
    path = write_graphs(tmp_path / "g.jsonl")
    found = ciga_json("data", "stats", "pyg", "--data", f"path={path}")
    assert set(found["splits"]["train"]) == {"graphs", "nodes_mean", "edges_mean", "class_counts"}
    assert sum(part["graphs"] for part in found["splits"].values()) == found["all"]["graphs"] == 40
    assert found["paper"] is None
    assert found["environments"] == 3
    shown = CliRunner().invoke(app, ["data", "stats", "pyg", "--data", f"path={path}"], env={"COLUMNS": "80"})
    assert "train" in shown.stdout
    assert "paper" not in shown.stdout  # it says nothing of these graphs
    assert any(line.startswith("ood_test ") for line in shown.stdout.splitlines())
    assert f"Next:  ciga data check pyg --data path={path}" in shown.stderr


@pytest.mark.data
def test_stats_show_the_papers_figures_beside_ours() -> None:
    if make("proteins").missing_files():
        pytest.skip("the TU files are not in CIGA_DATA")
    found = ciga_json("data", "stats", "proteins")
    assert {part: stats["graphs"] for part, stats in found["splits"].items()} == found["paper"]["graphs"]
    assert found["all"] == {"graphs": 1113, "nodes_mean": 39.06, "edges_mean": 145.63}
    table = ciga("data", "stats", "proteins")
    for figure in ("511", "145.63", "41.98", "41.97", "90.17"):
        assert figure in table
    narrow = CliRunner().invoke(app, ["data", "stats", "proteins"], env={"COLUMNS": "80"}).stdout
    assert any(line.startswith("ood_test ") and "138.86" in line for line in narrow.splitlines())
    assert "…" not in narrow


def test_check_of_a_file_of_graphs(tmp_path: Path) -> None:
    path = write_graphs(tmp_path / "g.jsonl", bad=2)
    report = ciga_json("data", "check", str(path), "--split", "random")
    assert report["duplicates"]["exact"]["id_test in train"]["graphs"] > 0, "every size occurs twice"
    assert [row["reason"] for row in report["rejected"]] == ["edge to a node that does not exist"] * 2
    assert report["environments"]["environments"] == 3
    text = ciga("data", "check", str(path))
    assert "edge to a node that does not exist" in text
    assert "2 rows were set aside" in text
    with pytest.raises(CigaError, match="row 41"):
        ciga("data", "check", str(path), "--strict")


def test_check_of_a_table(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    path = tmp_path / "m.csv"
    rows = [("C" * n + "O", n % 2, f"a{n % 2}") for n in range(1, 21)] + [("OCC", 1, "a1"), ("C(C", 0, "a0")]
    lines = [f"{s},{y},{e},site {i % 3}\n" for i, (s, y, e) in enumerate(rows)]
    path.write_text("mol,active,lab,site\n" + "".join(lines))
    report = ciga_json(
        "data", "check", str(path), "--smiles", "mol", "--label", "active", "--env", "lab",
        "--split", "random", "--data", "fractions=0.5,0.25,0.25",
    )  # fmt: skip
    assert sum(part["graphs"] for part in report["splits"].values()) == 21
    assert [row["row"] for row in report["rejected"]] == [23]
    assert len(report["environments"]["single_class"]) == 2
    assert set(report["duplicates"]) == {"exact", "WL hash", "canonical SMILES"}
    assert set(report["similarity"]) == {"id_val", "id_test"}
    assert 0 <= report["similarity"]["id_test"]["low"] <= report["similarity"]["id_test"]["median"] <= 1
    asked = [str(path), "--label", "active", "--split", "group:site", "--data", "fractions=.4,0,.6"]
    shown = CliRunner().invoke(app, ["data", "check", *asked], env={"COLUMNS": "160"})
    assert f"Next:  ciga fit {' '.join(asked)} --out model" in shown.stderr
    text = shown.stdout
    assert "Tanimoto similarity to the nearest in train" in text
    assert "split: group site" in text
    assert "smiles: taken from the column 'mol'" in " ".join(text.split())


def test_check_of_a_dataset() -> None:
    report = ciga_json("data", "check", "ego")
    assert report["name"] == "ego"
    assert report["shifts"]["ood_test"]["nodes"]["mean"] > report["shifts"]["ood_test"]["nodes"]["train_mean"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "nowhere.csv"), "no file"),
        (("check", "nci11"), "Did you mean"),
        (("check", "ego", "--label", "y"), "--label is for files"),
        (("stats", "ego", "--data", "hop=1"), "Did you mean hops"),
        (("stats", "ego", "--data", "hops"), "key=value"),
        (("prepare", "speling"), "no dataset called"),
    ],
)
def test_wrong_usage_says_what_to_do(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ciga("data", *arguments)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "notes.docx").write_text("x")
    with pytest.raises(UsageError, match="neither a table"):
        ciga("data", "check", str(tmp_path / "notes.docx"))
    graphs = write_graphs(tmp_path / "g.jsonl")
    with pytest.raises(UsageError, match="--smiles is for tables"):
        ciga("data", "check", str(graphs), "--smiles", "s")


def test_help_needs_no_torch() -> None:
    code = "import sys, ciga.cli.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_how_hard_a_split_is_goes_by_its_test_rows() -> None:
    alike = {"low": 0.5, "median": 0.93, "high": 1.0, "verdict": "close"}
    unlike = {"low": 0.2, "median": 0.39, "high": 0.6, "verdict": "far"}
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(view._similarity({"ood_val": unlike, "ood_test": alike}))
    text = console.export_text()
    assert "close" in text
    assert "far" not in text
