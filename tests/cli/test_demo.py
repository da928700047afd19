"""The demo on a handful of graphs: its table, its picture, and where it says they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ciga.cli import demo
from ciga.runs.plan import Plan, plan
from tests.helpers import SHORT, TINY, ciga


def small(method: str, seed: int, quick: bool) -> Plan:
    """What `demo._plan` makes, with less of everything."""
    return plan(demo.DATASET, method, seed=seed, data={**TINY, "bias": 0.9}, settings=SHORT)


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pyplot = pytest.importorskip(
        "matplotlib.pyplot", reason="matplotlib is missing: pip install 'ciga[report]'"
    )
    monkeypatch.setattr(demo, "_plan", small)
    out = tmp_path / "out"
    code, printed, err = ciga(monkeypatch, capsys, "demo", "--quick", "--seeds", 2, "--out", out)
    assert code == 0, err
    assert "training: " in err  # where there is no terminal, too
    assert "epochs; " in err
    for word in (
        "erm",
        "ciga-complement",
        "test accuracy",
        "worst class",
        "edge AUROC",
        "seconds",
        "2 seeds",
        "ood-val",
    ):
        assert word in printed
    assert str(out / "records.json") in printed
    assert str(out / "subgraphs.png") in printed
    assert f"report: {out / 'report.html'}" in printed
    # AUDIT U11: it ends with two sentences on what was seen.
    end = " ".join(printed.partition("report.html")[2].split())
    assert end.startswith("On the shifted test ERM reaches ")
    assert end.endswith("where 1 is perfect and 0.5 is chance.")
    assert end.count(". ") == 1
    assert "None" not in printed + err
    page = (out / "report.html").read_text()
    assert 'id="gallery"' in page
    assert "plain network (ERM)" in page
    records = json.loads((out / "records.json").read_text())
    assert [(r["method"], r["seed"]) for r in records] == [
        ("erm", 1), ("ciga-complement", 1), ("erm", 2), ("ciga-complement", 2),
    ]  # fmt: skip
    image = pyplot.imread(out / "subgraphs.png")
    assert image[..., :3].std() > 0.02


def test_the_plans_are_what_the_demo_says() -> None:
    for method in ("erm", "ciga-complement"):
        whole, quick = (demo._plan(method, 3, q).config for q in (False, True))
        assert whole.data["bias"] == quick.data["bias"] == 0.9
        assert (whole.data["train_per_class"], quick.data["train_per_class"]) == (3000, 300)
        assert whole.seed == 3
    chosen = demo._plan("ciga-complement", 1, True).config.settings
    assert (chosen["budget"], chosen["size"]) == ("capped", 0.25)


def test_what_was_seen_follows_the_scores() -> None:
    def record(method: str, accuracy: float, auroc: float) -> Any:
        test = {"accuracy": accuracy, "edge_auroc": auroc}
        return {"method": method, "selection": "ood-val", "selected": {"ood-val": {"ood_test": test}}}

    good = demo.seen([record("erm", 0.5, 0.0), record(demo.OURS, 0.9, 0.95)])
    assert "ERM reaches 50 %" in good
    assert "was not misled by the base" in good
    assert "finds the motif" in good
    fair = demo.seen([record("erm", 0.55, 0.0), record(demo.OURS, 0.8, 0.78)])
    assert "was misled less by the base" in fair
    assert "finds part of the motif" in fair
    poor = demo.seen([record("erm", 0.5, 0.0), record(demo.OURS, 0.5, 0.4)])
    assert "no clear difference" in poor
    assert "misses the motif" in poor
