"""The comparison of tools on tables of molecules: what it measures, keeps, and does not measure twice."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from benchmarks import commands, molecules, search_molecules, shares
from ciga.models.shift import MEASURES
from ciga.runs.settings import resolve
from ciga.training.loop import fit

pytest.importorskip("rdkit", reason="rdkit is missing: pip install 'ciga[molecules]'")
#: Stands in for an interpreter that has chemprop: it checks the call and answers with fixed probabilities.
FAKE = """#!{python}
import csv, sys
words = sys.argv[3:]
if not words:
    print("9.9")
elif words[0] == "train":
    rows = list(csv.DictReader(open(words[words.index("-i") + 1])))
    assert {{row["split"] for row in rows}} == {{"train", "val", "test"}}, rows
else:
    rows = list(csv.DictReader(open(words[words.index("-i") + 1])))
    name = words[words.index("-o") + 1]
    found = [[row["smiles"], 0.9 * ("O" in row["smiles"]), 0.5] for row in rows]
    with open(name, "w") as file:
        csv.writer(file).writerows([["smiles", "y"], *(row[:2] for row in found)])
    with open(name.replace(".csv", "_individual.csv"), "w") as file:
        csv.writer(file).writerows([["smiles", "y_model_0", "y_model_1"], *found])
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small table in the place of BACE, in which oxygen makes a molecule active."""
    cores = ["c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccsc1", "C1CCCC1", "c1ccc2ccccc2c1"]
    tails = ["", "C", "OC", "OCC", "FC", "ClC", "CCC", "OCCC"]
    rows = [f"{tail}{core},{int('O' in tail)}" for core, tail in itertools.product(cores, tails)]
    (tmp_path / "molecules").mkdir()
    file = tmp_path / "molecules" / "small.csv.gz"
    file.write_bytes(gzip.compress("\n".join(["smiles,active", *rows]).encode()))
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    monkeypatch.setitem(molecules.TABLES, "bace", ("small.csv.gz", "active", 40))
    return tmp_path


def test_every_tool_is_measured_once_on_the_same_rows(table: Path) -> None:
    python = table / "python"
    python.write_text(FAKE.format(python=sys.executable))
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    out = table / "out.jsonl"
    words = ["--tables", "bace", "--splits", "size", "--seeds", "1", "--epochs", "1"]
    words += ["--out", str(out), "--runs-dir", str(table / "runs"), "--chemprop", str(python)]
    molecules.main(words)
    lines = {line["tool"]: line for line in molecules.read(out)}
    assert set(lines) == {"auto", "forest", "erm", "ciga-v2", "ciga-complement", "chemprop"}
    assert len({line["fingerprint"] for line in lines.values()}) == 1
    assert lines["chemprop"]["roc_auc"]["mean"] == 1.0, "oxygen decides"
    assert lines["chemprop"]["versions"]["chemprop"] == "9.9"
    assert sum(lines["auto"]["shares"].values()) == pytest.approx(1)
    assert all(line["processor"] > 0 for line in lines.values())
    assert set(lines["auto"]["told_apart"]) == set(MEASURES)
    assert lines["auto"]["told_apart"]["size"] > 0.9, "a split by size"
    assert {tool for tool, line in lines.items() if line.get("against_erm")} == {
        "forest",
        "ciga-v2",
        "ciga-complement",
    }
    before = out.read_bytes()
    molecules.main(words)
    assert out.read_bytes() == before
    # Older lines are measured again, and make way.
    old = [{**line, "older": "a change", "seconds": -1} for line in molecules.read(out)]
    out.write_text("".join(json.dumps(line) + "\n" for line in old))
    molecules.main(words[:-2])  # without chemprop
    again = {line["tool"]: line for line in molecules.read(out)}
    assert len(molecules.read(out)) == len(lines)
    assert [tool for tool, line in again.items() if line.get("older")] == ["chemprop"]


def test_committed_lines_are_whole() -> None:
    lines = molecules.read()
    for line in lines:
        assert {"table", "split", "seeds", "tool", "fingerprint", "roc_auc", "selection", "versions"} <= set(
            line
        )
        assert line["seeds"] >= 3, "fewer show no interval"
        assert not line.get("settings"), "defaults only"
    places = {(line["table"], line["split"]) for line in lines}
    for place in places:
        mine = [line for line in lines if (line["table"], line["split"]) == place]
        assert len({line["fingerprint"] for line in mine}) == 1
        assert len({line["tool"] for line in mine}) == len(mine)


def test_an_ensemble_of_chemprop_is_averaged(table: Path) -> None:
    python = table / "python"
    python.write_text(FAKE.format(python=sys.executable))
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    dataset, data = molecules.source("bace", "size", table)
    [line] = molecules.chemprop(str(python), molecules.make(dataset, data).build(), 2, table)
    assert line["single"] == [1.0, 0.5]
    assert line["roc_auc"]["mean"] == 1.0


def test_a_failing_chemprop_is_named(table: Path) -> None:
    python = table / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no such module')\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    dataset, data = molecules.source("bace", "size", table)
    rows = molecules.make(dataset, data).build()
    with pytest.raises(SystemExit, match="no such module"):
        list(molecules.chemprop(str(python), rows, 2, table))


def test_a_part_of_a_large_table_is_always_the_same(table: Path) -> None:
    _, data = molecules.source("bace", "size", table)
    with Path(data["path"]).open(newline="") as file:
        first = list(csv.DictReader(file))
    assert len(first) == 40
    with Path(molecules.source("bace", "size", table)[1]["path"]).open(newline="") as file:
        assert json.dumps(list(csv.DictReader(file))) == json.dumps(first)


def test_the_search_sees_no_test_row_and_tries_the_same_for_every_method(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, data = molecules.source("bace", "size", table)
    whole = molecules.make(dataset, data).build()
    left = search_molecules.without_test(whole)
    assert set(left) == {"train", "ood_val", "id_val"}
    fewer = search_molecules.without_test(whole, 4)
    assert [fewer[part].num_graphs for part in ("train", "ood_val", "id_val")] == [4, 2, 2]

    out = table / "search.jsonl"
    words = ["--tables", "bace:size", "--methods", "erm,ciga-v1", "--epochs", "2", "--out", str(out)]
    words += ["--try", "", "--try", "width=8", "--seeds", "2"]
    search_molecules.main(words)
    tried = [(line["method"], line["try"], line["averaging"]) for line in molecules.read(out)]
    settings = [{}, {"width": "8"}]
    assert tried == [(m, values, a) for values in settings for m in ("erm", "ciga-v1") for a in (0.0, 0.99)]
    before = out.read_bytes()
    search_molecules.main(words)
    assert out.read_bytes() == before
    assert "1 tables: averaging=0.99" in capsys.readouterr().out
    search_molecules.main([*words[:2], "--methods", "forest", "--try", "trees=5", "--out", str(out)])
    assert molecules.read(out)[-1]["rules"]["last"]["epoch"] == 0, "a forest has one solution"


def test_a_search_takes_the_steps_of_a_fit(table: Path) -> None:
    dataset, data = molecules.source("bace", "size", table)
    splits = search_molecules.without_test(molecules.make(dataset, data).build())
    values = {"width": "8", "averaging": "0.99", "readout": "max"}
    said = search_molecules.trace(splits, "ciga-v2", values, 3, 2).said
    for averaging, value in (("0", 0.0), ("0.99", 0.99)):
        chosen = resolve(
            "ciga-v2", {**values, "averaging": averaging, "epochs": 2}, preset="own-data", dataset="molecules"
        )
        fitted = fit(chosen.method, splits, backbone=chosen.backbone, training=chosen.training, seed=3)
        answers = search_molecules.answers(chosen.method, fitted.network("last"), splits["ood_val"])
        assert (answers == said[value]["ood_val"][-1]).all()


def test_a_half_chooses_the_epoch_and_the_other_scores_it() -> None:
    y = np.array([0, 1] * 20)
    right, noise = y.astype(float), np.random.default_rng(1).random(40)
    said = {"ood_val": np.stack([noise, right, noise]), "id_val": np.stack([right, noise, noise])}
    classes = {"ood_val": y, "id_val": y}
    found = search_molecules.scores([said], classes)
    assert (found["ood-val"]["ood_val"], found["ood-val"]["epoch"]) == (1.0, 1.0)
    assert found["id-val"]["id_val"] == 1.0
    assert found["last"]["epoch"] == 2
    for first, second in search_molecules.halvings(41, 0):
        assert sorted([*first, *second]) == list(range(41))


def test_the_search_scores_as_scikit_learn_does() -> None:
    draw = np.random.default_rng(2)
    y, said = draw.integers(2, size=50), draw.random((3, 50)).round(1)  # with ties
    expected = [roc_auc_score(y, one) for one in said]
    assert search_molecules.auc(y, said).tolist() == pytest.approx(expected)
    assert search_molecules.auc(np.ones(50), said).tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [([0.5, 0.9, 0.6, 0.6, 0.95], 1), ([0.5, 0.9, 0.6, 0.95, 0.6], 3), ([0.9, 0.5, 0.5, 0.5, 0.95], 0)],
)
def test_a_rule_stops_where_training_would(scores: list[float], chosen: int) -> None:
    rule = search_molecules.stopping(warmup=2, patience=2)
    assert rule(np.array(scores), np.array(scores)) == chosen


def test_shares_are_chosen_on_some_rows_and_judged_on_others() -> None:
    draw = torch.Generator().manual_seed(0)
    y = {part: torch.randint(2, (90,), generator=draw) for part in ("id_val", "ood_val")}

    def said(right: float, part: str) -> torch.Tensor:
        noise = 0.2 * torch.rand(90, generator=draw)
        one = torch.where(y[part] == 1, right, 1 - right) * 0.8 + noise
        return torch.stack([1 - one, one], 1).unsqueeze(0)

    # The network is right on the rows that chose its epoch, and wrong with an epoch that others chose.
    own = {part: {"forest": said(0.8, part), "erm": said(0.95, part)} for part in y}
    other = {"id_val": own["id_val"], "ood_val": {**own["ood_val"], "erm": said(0.05, "ood_val")}}
    lines = shares.compare({"ood-val": own, "id-val": other}, y)
    assert {(line["way"], line["rows"]) for line in lines} == {
        (w, n) for w in shares.WAYS for n in shares.ROWS
    }
    most = {line["way"]: line["scores"]["1"] for line in lines if line["rows"] == max(shares.ROWS)}
    assert most["other rows"][0] > most["own rows"][0] + 0.1, "on ood_val"
    assert most["other rows"][2] < most["own rows"][2], "the log loss"
    assert most["other rows, cooled"][2] < most["other rows"][2], "a network that is sure and wrong is cooled"


def test_committed_shares_are_whole() -> None:
    lines = molecules.read(shares.RECORDS)
    for line in lines:
        assert {"table", "split", "seeds", "fingerprint", "preset", "versions", "runs"} <= set(line)
        assert len(line["runs"]) == 4 * line["seeds"]
    assert len(lines) % (len(shares.WAYS) * len(shares.ROWS)) == 0


def test_the_three_commands_are_timed(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(molecules.TABLES, "bace", ("small.csv.gz", "active", 0))
    fit = "ciga fit bace.csv --label active --method ciga-v1 --seeds 1 --epochs 1 --out model"
    monkeypatch.setattr(commands, "COMMANDS", (fit, *commands.COMMANDS[1:]))
    commands.main(table / "commands.json")
    found = json.loads((table / "commands.json").read_text())
    assert [line["command"] for line in found["commands"]] == [*commands.COMMANDS]
    assert all(line["processor"] > 0 for line in found["commands"])
    assert found["rows"] == 48


def test_the_committed_times_are_of_the_commands_as_they_are() -> None:
    found = json.loads(commands.RECORD.read_text())
    assert [line["command"] for line in found["commands"]] == [*commands.COMMANDS]
    assert found["rows"] == 1513
    page = (Path(__file__).parent.parent / "docs" / "practitioner.md").read_text()
    assert all(f"| `{command}` |" in page for command in commands.COMMANDS)
