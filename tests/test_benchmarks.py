"""The benchmark suite runs on a few graphs and its report is whole; no test here asserts a time."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks import epochs
from benchmarks.__main__ import LATEST, PICTURE, SECTIONS, main, worse
from benchmarks.page import PAGE, met, page
from benchmarks.peers import PyGNetwork, bare_logits
from benchmarks.scale import generate
from benchmarks.store import loop_batch
from benchmarks.timing import Ratio, take_turns
from benchmarks.versus import WRITTEN
from ciga.data import GraphStore
from ciga.methods.base import methods
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import GraphNetwork
from tests.helpers import random_graph

NAMED = {
    "batches_pyg_over_ours",
    "epoch_ciga_v2_over_erm",
    "epoch_erm_over_bare_loop",
    "import_ciga_over_torch",
}


def test_the_committed_figures_are_whole() -> None:
    report = json.loads(LATEST.read_text())
    every_method = {f"epoch_{name.replace('-', '_')}_over_erm" for name in methods}
    assert report["ratios"].keys() >= NAMED | every_method
    assert report["spread"].keys() == report["meaning"].keys() == report["ratios"].keys()
    assert all(value > 0 for value in report["ratios"].values())
    assert not report["quick"]
    assert report["repeat"] >= 3
    assert report["machine"]["cores"] >= 1
    assert [row["graphs"] for row in report["extra"]["scale"]] == [1_000, 10_000, 100_000, 1_000_000]
    assert PICTURE.exists()


def test_the_page_shows_the_committed_figures() -> None:
    """If not: python -m benchmarks.page"""
    text = PAGE.read_text()
    assert page(text, json.loads(LATEST.read_text()), json.loads(WRITTEN.read_text())) == text


def test_an_aim_is_met_or_not() -> None:
    assert [met(2.0, aim) for aim in ("<= 2", "< 2", ">= 2", "")] == ["yes", "**no**", "yes", ""]


def test_a_quick_run_writes_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    main(["--quick", "--repeat", "1", "--only", "store", "--output", str(file)])
    report = json.loads(file.read_text())
    assert report["ratios"].keys() == {"batches_pyg_over_ours", "batches_loop_over_ours"}
    assert report["quick"]
    assert "batches_pyg_over_ours" in capsys.readouterr().out


def test_a_partial_run_keeps_the_other_figures(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    main(["--quick", "--repeat", "1", "--only", "store", "--output", str(file)])
    old = json.loads(file.read_text())
    old["ratios"]["something_else"] = 3.0
    file.write_text(json.dumps(old))
    main(["--quick", "--repeat", "1", "--only", "store", "--output", str(file)])
    assert json.loads(file.read_text())["ratios"]["something_else"] == 3.0


def test_an_unknown_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--only", "stores"])
    assert stop.value.code == 2
    assert ", ".join(SECTIONS) in capsys.readouterr().err


def test_worse_knows_which_way_is_worse() -> None:
    before = {"batches_pyg_over_ours": 20.0, "epoch_ciga_v2_over_erm": 2.0, "gone": 1.0}
    assert worse({"batches_pyg_over_ours": 18.0, "epoch_ciga_v2_over_erm": 2.3, "new": 9.0}, before) == []
    found = worse({"batches_pyg_over_ours": 10.0, "epoch_ciga_v2_over_erm": 3.0}, before)
    assert [sentence.split()[0] for sentence in found] == ["batches_pyg_over_ours", "epoch_ciga_v2_over_erm"]
    assert worse({"batches_pyg_over_ours": 40.0, "epoch_ciga_v2_over_erm": 1.0}, before) == []


def test_a_ratio_is_the_median_over_pieces_and_rounds() -> None:
    over, under = [[2.0, 9.0, 4.0], [8.0, 8.0, 8.0], [3.0, 3.0, 0.0]], [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    ratio = Ratio.of("a_over_b", over, under, "a / b")
    assert (ratio.value, ratio.spread) == (4.0, (1.0, 4.0))


def test_jobs_take_turns_piece_by_piece() -> None:
    calls: list[str] = []
    jobs = {name: [partial(calls.append, f"{name}{piece}") for piece in (0, 1)] for name in "ab"}
    found = take_turns(jobs, 2)
    assert calls == ["a0", "b0", *["a0", "b0", "a1", "b1"] * 2]
    for times in found.values():
        assert [len(pieces) for pieces in times.cpu] == [len(pieces) for pieces in times.wall] == [2, 2]


def test_pieces_hold_every_graph_once() -> None:
    store = GraphStore.from_pyg([random_graph(n, 5, n) for n in range(3, 20)])
    pieces = epochs.cut(store, 2)
    assert torch.cat([piece.num_nodes for piece in pieces]).tolist() == store.num_nodes.tolist()
    assert [piece.num_graphs for piece in pieces] == [6, 6, 5]


@pytest.mark.parametrize("edge_features", [0, 3])
@pytest.mark.parametrize(("conv", "readout"), [("gcn-ogb", "mean"), ("gin", "sum")])
def test_the_peers_are_the_same_network(conv: str, readout: str, edge_features: int) -> None:
    backbone = Backbone(conv=conv, readout=readout, layers=2, width=8)
    graphs = [random_graph(7, 9, seed, edge_features=edge_features) for seed in range(3)]
    store = GraphStore.from_pyg(graphs)
    torch.manual_seed(0)
    network = GraphNetwork(Spec(4, edge_features, 3), backbone).eval()
    batch = store.batch(slice(None))
    expected = network(batch)
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    torch.testing.assert_close(bare_logits(state, backbone, batch, train=False), expected)
    torch.testing.assert_close(PyGNetwork(network)(batch), expected)


def test_the_loop_makes_the_same_batch() -> None:
    store = GraphStore.from_pyg([random_graph(n, 5, n) for n in (5, 6, 7)])
    batch = store.batch([2, 0])
    for found, expected in zip(
        loop_batch(store, [2, 0]), (batch.x, batch.edge_index, batch.batch, batch.y), strict=True
    ):
        assert torch.equal(found, expected)


def test_the_generated_rings_are_graphs_both_ways() -> None:
    store = GraphStore(**generate(50))
    assert store.num_edges.tolist() == (2 * store.num_nodes + 2).tolist()
    assert (store.pair_ptr.diff() * 2 == store.num_edges).all()
    assert set(store.y.tolist()) == {0, 1}
