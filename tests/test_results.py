"""The pages of results say what the committed records say."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results", ROOT / "tools" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_records() -> None:
    results = tool()
    assert any(results.tables(page.read_text(), "paper") for page in results.PAGES)
    for page in results.PAGES:
        assert results.filled(page.read_text()) == page.read_text(), "run: python tools/results.py"


def test_the_readme_has_a_small_table_from_records() -> None:
    results = tool()
    (found,) = results.TABLE.finditer((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found[2] == "study"
    rows = [line for line in found[0].splitlines() if line.startswith("| ")]
    assert 3 <= len(rows) <= 9
    assert rows[1].startswith("| ERM")
    for row in rows[1:]:
        seeds = [int(n) for n in re.findall(r"\[(\d+)\]", row)]
        assert len(seeds) == 6
        assert min(seeds) >= 3, "fewer seeds are not quoted"
    assert results.filled(found[0].replace("0.", "9.")) == found[0]


def test_the_page_for_users_stays_short() -> None:
    assert len((ROOT / "docs" / "results.md").read_text().splitlines()) <= 150


def test_the_page_for_practitioners_has_no_scores_of_its_own() -> None:
    """They went stale when a method changed: all its scores are in tables that are made from records."""
    page = (ROOT / "docs" / "practitioner.md").read_text(encoding="utf-8")
    for kind in ("molecules", "extraction", "gauge", "commands"):
        (table,) = tool().tables(page, kind)
        page = page.replace(table, "")
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    found = re.findall(r"-?\b0\.\d{2,3}\b|\b\d+ %", page)
    assert found == ["95 %", "5 %"], "the level of intervals, and of the gauge"


def test_a_search_is_shown_by_validation_scores_of_whole_trials(tmp_path: Path) -> None:
    def record(dataset: str, seed: int, alpha: float, score: float) -> str:
        selected = {
            rule: {"ood_val": {"mcc": value}, "ood_test": {"mcc": 1 - value}}
            for rule, value in (("ood-val", score), ("id-val", score / 2))
        }
        # The width differs between datasets, not between trials: a preset's.
        settings = {"alpha": alpha, "width": {"x": 8, "y": 16}[dataset]}
        return json.dumps(
            {"hash": "0", "method": "m", "dataset": dataset, "data": {}, "seed": seed, "settings": settings}
            | {
                "protocol": "ood",
                "epochs": 1,
                "seconds": 1.0,
                "metric": "mcc",
                "selection": "ood-val",
                "selected": selected,
            }
        )

    every = [(d, s) for d in ("x", "y") for s in (1, 2)]
    lines = [record(d, s, 1.0, 0.2 if d == "x" else 0.4) for d, s in every]
    lines += [record(d, s, 2.0, 0.1 * s + 0.3) for d, s in every]
    lines += [record(d, s, 3.0, 0.9) for d, s in every[:3]]  # a trial that was ended early
    file = tmp_path / "search.jsonl"
    file.write_text("\n".join(lines))
    assert tool().search(file).splitlines()[2:] == [
        "| m | alpha=2.0 | 0.450 | 0.450 | 0.450 | 0.225 |",
        "| m | alpha=1.0 | 0.200 | 0.400 | 0.300 | 0.150 |",
    ]
    # A test score is one less the other's here, so the better trial is always the worse one.
    assert tool().guide(file).startswith("Over the 2 settings of this search the rank correlation")
    assert tool().guide(file).endswith("is -1.00.\n")


def test_scores_stand_beside_one_that_no_threshold_moves(tmp_path: Path) -> None:
    def record(method: str, dataset: str, mcc: float, auc: float, protocol: str = "ood") -> str:
        selected = {
            rule: {"ood_test": {"mcc": value, "roc_auc": auc}}
            for rule, value in (("id-val", mcc), ("oracle", mcc + 0.1))
        }
        return json.dumps(
            {"hash": "0", "method": method, "dataset": dataset, "protocol": protocol, "metric": "mcc"}
            | {
                "data": {},
                "settings": {},
                "seed": 1,
                "epochs": 1,
                "seconds": 1.0,
                "selection": "id-val",
                "selected": selected,
            }
        )

    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    lines = [record("a", "x", 0.1, 0.6), record("a", "x", 0.3, 0.8), record("a", "y", 0.6, 0.9)]
    lines += [record("b", "x", 0.9, 0.9), record("a", "y", 0.0, 0.0, "iid")]  # half a row, and an oracle's
    one.write_text("\n".join(lines))
    two.write_text("\n".join([record("a", "x", 0.7, 0.5), record("a", "y", 0.5, 0.5)]))
    assert tool().thresholds(one, two).splitlines()[2:] == [
        "| a | `two` | 0.600 | 0.500 | 0.700 |",
        "| a | `one` | 0.400 | 0.800 | 0.500 |",
    ]


def test_tables_of_molecules(tmp_path: Path) -> None:
    results, file = tool(), tmp_path / "lines.jsonl"

    def written(*lines: dict[str, Any]) -> Path:
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return file

    place = {
        "table": "t",
        "split": "s",
        "seeds": 5,
        "versions": {},
        "roc_auc": {"mean": 0.7, "low": 0.6, "high": 0.8},
    }
    told = {"flagged": 0.25, "told_apart": {"size": 0.625}, "id_val": 0.9}
    found = results.gauge(written({**place, "tool": "erm"}, {**place, **told, "tool": "auto"}))
    assert found.splitlines()[2:] == ["| t, s | 25 % | 0.20 | 0.62 |"]
    found = results.molecules(written({**place, "tool": "erm", "older": "a change"}))
    assert "| t, s * | 5 | – | **0.700** (0.60–0.80) |" in found
    both = ({**place, "tool": "erm"}, {**place, "tool": "forest"}, {**place, "tool": "chemprop", "seeds": 3})
    assert "| t, s | 5; chemprop 3 | – |" in results.molecules(written(*both))
    assert "Rows with * are from before a change." in found

    gap = {"difference": 0.1, "low": 0.05, "high": 0.2}
    singles = {"tool": "erm", "single": [0.5, 0.625], "roc_auc": {"mean": 0.72}}
    parts = {"tool": "ciga-v2", "against_erm": gap}
    rows = results.extraction(
        written({**place, "tool": "auto"}, {**place, **singles}, {**place, **parts})
    ).splitlines()
    assert rows[0] == "| table, split | single ERMs | auto - best other | ciga-v2 - erm |"
    assert rows[2] == "| t, s | 0.50–0.62 | -0.020 (erm) | **+0.100 (+0.05 to +0.20)** |"
    none = {**parts, "against_erm": {**gap, "low": -0.05}}
    rows = results.extraction(written({**place, "tool": "auto"}, {**place, **singles}, {**place, **none}))
    assert "| +0.100 (-0.05 to +0.20) |" in rows

    def tried(split: str, score: float, **values: str) -> dict[str, Any]:
        line = {"table": "t", "split": split, "method": "erm", "try": values, "seeds": 1}
        return {**line, "ood_val": score, "id_val": score + 0.1}

    lines = (
        tried("a", 0.5),
        tried("b", 0.6),
        tried("a", 0.7, lr="1"),
        tried("b", 0.8, lr="1"),
        tried("a", 0.9, x="2"),
    )
    rows = results.tries(written(*lines)).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["lr=1", "–", "x=2"], "best first, what is not whole last"
    assert rows[0] == "| erm | lr=1 | 1 | 0.700, 0.800 | 0.800, 0.900 | 0.800 |"
    assert rows[2].endswith("| – | – |")
    rows = results.tries(written({**tried("a", 0.5, lr="1"), "averaging": 0.99})).splitlines()[2:]
    assert rows[0].startswith("| erm | lr=1 averaging=0.99 | 1 |")
    more = {"averaging": 0.99, "features": "drugood", "seconds": 10.0}
    wide = (
        {**tried("a", 0.5, epochs="30"), **more},
        {**tried("b", 0.6, epochs="30"), **more},
        {**tried("a", 0.7, lr="1"), **more, "seconds": 20.0},
        {**tried("b", 0.8, lr="1"), **more, "seconds": 20.0},
        {**tried("a", 0.4), **more, "features": "ogb"},
        {**tried("b", 0.3), **more, "features": "ogb"},
        {**tried("a", 0.9, x="2"), **more},
    )
    rows = results.gains(written(*wide)).splitlines()[2:]
    assert rows[0] == "| erm | lr=1 | running mean | +0.200 | +0.200 | +0.200 (0.000) | 2.0 |"
    assert rows[1] == "| erm | features=OGB | running mean | -0.200 | -0.200 | -0.200 (0.100) | 1.0 |"
    assert not rows[2], "the preset itself and what is not whole are left out"
    rules = {"last": {"ood_val": 0.5, "id_val": 0.7, "epoch": 29.0}}
    both = ({"averaging": 0.0, "rules": rules}, {"averaging": 0.99, "rules": rules})
    [raw, averaged] = results.epochs(written(*both)).splitlines()[2:4]
    assert raw == "| last | as they are | 0.500 | 0.700 | 0.600 | 29 |"
    assert averaged.startswith("| last | running mean | 0.500")

    lines = [
        {"table": t, "split": "s", "way": "other rows", "rows": 10, "scores": {"1": [0.7, 0.9, loss]}}
        for t, loss in (("a", 0.2), ("b", 0.4))
    ]
    assert results.shares(written(*lines)).splitlines()[2] == "| other rows | 1 | 0.800, 0.300 |"

    timed = {"command": "ciga fit", "seconds": 1061.4, "processor": 60.2}
    file.write_text(json.dumps({"commands": [timed], "rows": 1513, "cores": 2}))
    assert "| `ciga fit` | 60 |" in results.commands(file)
    assert "1,513 molecules" in results.commands(file)


def test_corrected_rows_are_compared_on_the_same_seeds(tmp_path: Path) -> None:
    def written(name: str, scores: dict[int, float]) -> Path:
        file = tmp_path / name
        lines = [
            {"hash": "0", "method": "eiil", "dataset": "nci1", "data": {}, "seed": seed, "settings": {}}
            | {"protocol": "ood", "epochs": 1, "seconds": 1.0, "metric": "mcc"}
            | {"selection": "id-val"}
            | {"selected": {k: {"ood_test": {"mcc": v}} for k, v in (("id-val", score), ("last", score / 2))}}
            for seed, score in scores.items()
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return file

    old, new = written("old.jsonl", {1: 0.1, 2: 0.3, 3: 0.9}), written("new.jsonl", {1: 0.4, 2: 0.6})
    rows = tool().corrected("table-size", old, new).splitlines()
    assert rows[0] == "| method |  | NCI1 |"
    assert rows[2:] == [
        "| EIIL | before | 0.200 (0.141) [2] |",
        "| EIIL | after | 0.500 (0.141) [2] |",
        "| EIIL | after, last epoch | 0.250 (0.071) [2] |",
        "| | *paper* | *0.14 (0.03)* |",
    ]
