"""The pages of results say what the committed records say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

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
    assert any(results.EXHIBIT.search(page.read_text()) for page in results.PAGES)
    for page in results.PAGES:
        assert results.filled(page.read_text()) == page.read_text(), "run: python tools/results.py"


def test_every_list_of_records_is_shown() -> None:
    shown = "".join(page.read_text() for page in tool().PAGES)
    # On the page of what was spent every list is named; it must have a table as well.
    wanted = [f"<!-- records: results/{f.name} -->" for f in (ROOT / "results").glob("*.jsonl")]
    assert [block for block in wanted if block not in shown] == []


def test_methods_are_compared_on_the_same_runs_only(tmp_path: Path) -> None:
    def record(method: str, dataset: str, seed: int, accuracy: float, auroc: float | None) -> str:
        score = {"accuracy": accuracy} | ({} if auroc is None else {"edge_auroc": auroc})
        return json.dumps(
            {"method": method, "dataset": dataset, "data": {"bias": 0.6, "seed": seed}, "seed": seed}
            | {"metric": "accuracy", "selected": {"ood-val": {"ood_test": score}}}
        )

    rows = [
        ("a", 1, 0.5, 0.8),
        ("a", 2, 0.7, 1.0),
        ("b", 1, 0.9, 0.95),
        ("b", 2, 0.8, 0.85),
        ("c", 1, 1.0, 1.0),
    ]
    lines = [record(m, d, s, acc, auroc) for m, s, acc, auroc in rows for d in ("x", "y")]
    lines += [record("erm", d, s, 0.9, None) for d in ("x", "y") for s in (1, 2)]
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join(lines) + "\n")
    assert tool().subgraphs(file, "1-2").splitlines()[2:] == [
        "| a | ood-val | 0.600 | 0.900 | 2 of 4 | 0.80 |",
        "| b | ood-val | 0.850 | 0.900 | 2 of 4 | 0.85 |",
    ]
    assert "| c | ood-val | 1.000 | 1.000 | 2 of 2 | 1.00 |" in tool().subgraphs(file, "1")


def test_a_change_is_compared_on_the_seeds_that_both_have(tmp_path: Path) -> None:
    def record(seed: int, accuracy: float, auroc: float, method: str = "m", **settings: float) -> str:
        scores = {
            "ood_val": {"accuracy": 1.0, "rest": 0.4},
            "ood_test": {"accuracy": accuracy, "edge_auroc": auroc},
        }
        return json.dumps(
            {"method": method, "dataset": "x", "data": {"bias": 0.6, "seed": seed}, "seed": seed}
            | {"metric": "accuracy", "selection": "ood-val", "selected": {"ood-val": scores}}
            | {"protocol": "ood"}
            | {"settings": {"alpha": 1.0, "gamma": 0.3} | settings}
        )

    base, file = tmp_path / "base.jsonl", tmp_path / "changed.jsonl"
    base.write_text("\n".join([record(1, 0.8, 0.9), record(2, 0.6, 0.7, new=1.0)]))
    changed = [record(1, 0.5, 0.5, alpha=0.0), record(3, 0.0, 0.0, alpha=0.0), record(2, 0.7, 0.8, gamma=1.0)]
    file.write_text("\n".join(changed))
    assert tool().changes(file, base).splitlines()[2:] == [
        "| m | alpha=0.0 | 1 | 1 | 1.000 | 0.400 | **0.500** | 0.800 | 0.500 | 0.900 |",
        "| m | gamma=1.0 no new | 1 | 2 | 1.000 | 0.400 | **0.700** | 0.600 | 0.800 | 0.700 |",
    ]
    # A record from before there was an option is one with its default.
    base.write_text(record(1, 0.8, 0.9, "ciga-v1"))
    file.write_text(record(1, 0.5, 0.5, "ciga-v1", alpha=0.0, balanced=False))
    assert tool().changes(file, base).splitlines()[2].startswith("| ciga-v1 | alpha=0.0 | 1 | 1 |")


def test_a_search_is_shown_by_validation_scores_of_whole_trials(tmp_path: Path) -> None:
    def record(dataset: str, seed: int, alpha: float, score: float) -> str:
        selected = {
            rule: {"ood_val": {"mcc": value}, "ood_test": {"mcc": 1 - value}}
            for rule, value in (("ood-val", score), ("id-val", score / 2))
        }
        # The width differs between datasets, not between trials: a preset's.
        settings = {"alpha": alpha, "width": {"x": 8, "y": 16}[dataset]}
        return json.dumps(
            {"method": "m", "dataset": dataset, "data": {}, "seed": seed, "settings": settings}
            | {"metric": "mcc", "selection": "ood-val", "selected": selected}
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
            {"method": method, "dataset": dataset, "protocol": protocol, "metric": "mcc"}
            | {"selection": "id-val", "selected": selected}
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
