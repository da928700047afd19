"""The report as text: complete, escaped, and without any address to fetch from."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from ciga.data import GraphStore
from ciga.errors import CigaError
from ciga.explain.examine import Examined, examine
from ciga.explain.report import report_bench, report_model
from ciga.explain.svg import POINTED
from tests.small_models import toy_model, toy_splits

pytest.importorskip("jinja2", reason="jinja2 is missing: pip install 'ciga[report]'")
NASTY = '<script>alert("x")</script>'


class Reader(HTMLParser):
    """Ids, tags and the addresses a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if (
                name in ("src", "href", "srcset", "action", "data")
                and value
                and not value.startswith(("#", "data:,"))
            ):
                self.fetched.append(value)


def read(path: Path) -> tuple[str, Reader]:
    text = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    return text, reader


#: Enough training to tell classes apart: then there are pieces kept for one more than for the others.
KNOWING: dict[str, Any] = {
    "epochs": 10, "lr": 0.01, "classifier_input": "raw", "contrast_input": "rep",
    "budget": "count", "size": 6, "rival": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def examined() -> Examined:
    return examine(toy_model(**KNOWING), toy_splits()["ood_test"])


def test_what_is_examined(examined: Examined) -> None:
    store = toy_splits()["ood_test"]
    assert examined.graphs == len(examined.cards) == store.num_graphs
    assert set(examined.quality) == {"edge_auroc", "precision_at_k"}
    assert 0 <= (examined.stability or 0) <= 1
    assert examined.flagged is not None
    assert examined.flagged > 0.4
    assert sum(map(sum, examined.pictures["confusion"])) == store.num_graphs
    wrong = sum(card["correct"] == "wrong" for card in examined.cards)
    assert 1 - wrong / store.num_graphs == pytest.approx(examined.scores["accuracy"])
    for card in examined.cards:
        assert len(card["scores"]) == len(card["kept"]) == card["edges"]
        assert card["svg"].count("<line") == (
            card["edges"] if card["edges"] <= POINTED else card["kept_edges"]
        )


def test_rows_are_those_of_the_file_where_it_is_known() -> None:
    few = toy_splits()["ood_test"].subset(range(3))
    assert [card["name"] for card in examine(toy_model(), few).cards] == ["graph 1", "graph 2", "graph 3"]
    few.columns["row"] = torch.tensor([7, 9, 12])
    cards = examine(toy_model(), few, names=["", "a", " "]).cards
    assert [(card["row"], card["name"]) for card in cards] == [(7, "row 7"), (9, "a"), (12, "row 12")]


def test_a_small_gallery_shows_some_of_everything() -> None:
    found = examine(toy_model(), toy_splits()["ood_test"], gallery=6)
    assert len(found.cards) == 6
    assert any("6 of 18 graphs" in note for note in found.notes)


def test_the_page_is_complete_and_fetches_nothing(examined: Examined, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report_model(toy_model(**KNOWING), examined, path, title="A model", subject="ood_test")
    text, page = read(path)
    for section in ("verdict", "gallery", "reasons", "scores", "mistakes", "data", "training", "reproduce"):
        assert section in page.ids
        assert f'href="#{section}"' in text
    assert page.fetched == []
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert page.tags.count("script") == 1
    assert text.count('class="card"') == examined.graphs + 4
    for term in (
        "loss: risk",
        "loss: contrast",
        "accuracy: shifted graphs (validation)",
        "plain network (ERM)",
        "Fisher",
        "edge AUROC",
        "Necessity",
    ):
        assert term in text
    assert toy_model(**KNOWING).fingerprint in text
    assert "was trained on" not in text


def test_the_page_runs_its_own_script_and_no_other(examined: Examined, tmp_path: Path) -> None:
    report_model(toy_model(**KNOWING), examined, tmp_path / "r.html", title="A model")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    script = text.partition("<script>")[2].partition("</script>")[0]
    said = b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{said}'; img-src data:" in text


def test_short_names_stand_in_folds_only(examined: Examined, tmp_path: Path) -> None:
    report_model(toy_model(**KNOWING), examined, tmp_path / "r.html", title="A model", subject="ood_test")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    body = text.partition("<main")[2].partition("<script>")[0]
    open_text = re.sub(r"<details.*?</details>|<section id=\"reproduce\".*?</section>", "", body, flags=re.S)
    shown = re.sub(r"<svg.*?</svg>|<[^>]*>", " ", open_text, flags=re.S)
    assert not re.search(r"\b(id|ood)_(val|test)\b|roc_auc|\bx\[|edge_attr", shown)
    assert "<code>ood_test</code>" in body


def test_training_graphs_do_not_count_as_new(tmp_path: Path) -> None:
    splits, model = toy_splits(), toy_model()
    both = GraphStore.concat([splits.train.subset(range(10)), splits["ood_test"].subset(range(8))])
    found = examine(model, both)
    assert (found.seen, found.scored) == (10, 8)
    assert [card["seen"] for card in found.cards] == [True] * 10 + [False] * 8
    assert sum(map(sum, found.pictures["confusion"])) == 8
    report_model(model, found, tmp_path / "r.html", title="both")
    text, page = read(tmp_path / "r.html")
    assert "trained on 10 of the 18 graphs: scores, confusion and reliability here are of the other 8" in text
    assert "these graphs (8)" in text
    assert "f-seen" in page.ids
    alone = examine(model, splits.train.subset(range(5)))
    assert "say nothing about new graphs" in alone.notes[0]


def test_labels_stay_text(tmp_path: Path) -> None:
    model = toy_model()
    before = list(model.classes)
    model.classes = [NASTY, "a&b", "'\"`"]
    try:
        found = examine(model, toy_splits()["ood_test"].subset(range(6)))
        found.errors = [("3", NASTY)]
        found.notes = [NASTY]
        report_model(model, found, tmp_path / "r.html", title=NASTY, subject=NASTY, command=NASTY)
    finally:
        model.classes = before
    text, page = read(tmp_path / "r.html")
    assert page.tags.count("script") == 1
    assert NASTY not in text
    assert "&lt;script&gt;alert" in text


def test_a_method_without_subgraphs_and_a_model_without_report_data(tmp_path: Path) -> None:
    model = toy_model("erm")
    found = examine(model, toy_splits()["ood_test"].subset(range(4)))
    report_model(model, found, tmp_path / "erm.html", title="ERM")
    text = (tmp_path / "erm.html").read_text()
    assert 'id="reasons"' not in text
    assert "highlighted" not in text.partition("<script>")[0]
    assert "gap between confidence and accuracy" in text
    report_data = model.report_data
    try:
        model.report_data = {}
        report_model(model, None, tmp_path / "bare.html", title="bare")
        assert "without a record of its training" in (tmp_path / "bare.html").read_text()
        assert "No graphs were looked at" in (tmp_path / "bare.html").read_text()
        for odd in ({"scores": 3}, {**report_data, "data": {**report_data["data"], "warnings": 7}}):
            model.report_data = odd
            with pytest.raises(CigaError, match="fit the model again"):
                report_model(model, None, tmp_path / "odd.html", title="odd")
            assert not (tmp_path / "odd.html").exists()
    finally:
        model.report_data = report_data


def test_two_seeds_promise_no_interval(tmp_path: Path) -> None:
    report_model(toy_model(**KNOWING), None, tmp_path / "two.html", title="Two")
    text = (tmp_path / "two.html").read_text(encoding="utf-8").partition("<main")[2]
    assert "mean over 2 training runs." in text
    assert "interval" not in text.partition("<details><summary>Settings")[0]


def test_closed_gates_are_named(tmp_path: Path) -> None:
    model = toy_model("erm")
    report_data = model.report_data
    assert report_data["closed_features"] == {}  # it has no gates
    try:
        model.report_data = {**report_data, "closed_features": {"ciga-v2": [0, 2], "erm": []}}
        report_model(model, None, tmp_path / "gates.html", title="Gates")
    finally:
        model.report_data = report_data
    text = (tmp_path / "gates.html").read_text(encoding="utf-8")
    assert (
        "ciga-v2 ignores 2 node features (closed by gates in every training run): "
        "node feature 0, node feature 2." in text
    )
    assert "plain network (ERM) uses every node feature: its gates closed none" in text


def record(method: str, seed: int, value: float) -> dict[str, Any]:
    scores = {"accuracy": value, "ece": 0.1}
    chosen = {"epoch": 3, "ood_val": scores, "ood_test": {**scores, "edge_auroc": 0.7}}
    return {
        "dataset": "spmotif-struc", "method": method, "seed": seed, "protocol": "ood", "metric": "accuracy",
        "data": {"bias": 0.9, "variant": "clean"},
        "settings": {"width": 32, "alpha": NASTY if method != "erm" else 1},
        "selection": "ood-val", "selected": {"ood-val": chosen, "last": chosen}, "seconds": 2.0,
    }  # fmt: skip


def test_the_page_of_a_benchmark(tmp_path: Path) -> None:
    records = [record(m, s, v + s / 100) for m, v in (("erm", 0.5), ("ciga-v2", 0.7)) for s in (1, 2, 3)]
    report_bench(records, tmp_path / "bench.html")
    text, page = read(tmp_path / "bench.html")
    assert page.fetched == []
    assert page.tags.count("script") == 1
    assert "6 runs on 1 dataset" in text
    assert "0.720 [" in text
    assert text.count("<tr") == 1 + 4
    assert NASTY not in text
    assert "<h2>spmotif-struc</h2>" in text  # nothing to tell apart
    other = {**record("erm", 1, 0.6), "data": {"bias": 0.6, "variant": "clean"}}
    report_bench([*records, other], tmp_path / "two.html")
    text = (tmp_path / "two.html").read_text()
    assert "<h2>spmotif-struc bias=0.6</h2>" in text
    assert "<h2>spmotif-struc bias=0.9</h2>" in text
    with pytest.raises(CigaError, match="no finished runs"):
        report_bench([], tmp_path / "none.html")
