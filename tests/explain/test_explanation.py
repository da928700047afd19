"""Explanations follow their graph, and PyG's tools work on them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import ciga
from ciga.data import GraphStore
from ciga.errors import UsageError
from ciga.explain.explanation import explain
from tests.helpers import mixed_graphs, permuted
from tests.small_models import toy_model, toy_splits


def test_permuting_the_nodes_permutes_the_explanation() -> None:
    model = toy_model(budget="count", size=5)
    for seed, graph in enumerate(toy_splits()["ood_test"].to_pyg()[:6]):
        other, place, order = permuted(graph, seed)
        one, two = (explain(model, GraphStore.from_pyg([g]))[0] for g in (graph, other))
        torch.testing.assert_close(two.score, one.score[order], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(two.probability, one.probability, rtol=1e-4, atol=1e-5)
        assert torch.equal(two.kept, one.kept[order])
        ends = {frozenset(e) for e in place[one.edge_index[:, one.kept]].T.tolist()}
        assert {frozenset(e) for e in two.edge_index[:, two.kept].T.tolist()} == ends


def test_each_graph_gets_its_own(tmp_path: Path) -> None:
    model = toy_model()
    graphs = mixed_graphs()
    together = explain(model, GraphStore.from_pyg(graphs), batch_size=3)
    assert len(together) == len(graphs)
    for graph, one in zip(graphs, together, strict=True):
        alone = explain(model, GraphStore.from_pyg([graph]))[0]
        assert torch.equal(one.edge_index, graph.edge_index)
        assert torch.equal(one.x, graph.x)
        assert one.label == int(graph.y)
        torch.testing.assert_close(one.score, alone.score, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one.probability, alone.probability, rtol=1e-4, atol=1e-5)


def test_undirected_has_each_edge_once() -> None:
    for one in explain(toy_model(), toy_splits()["ood_test"])[:5]:
        ends, score, kept, truth = one.undirected()
        assert truth is not None
        assert one.truth is not None
        every = zip(
            one.edge_index.T.tolist(), one.score.tolist(), one.kept.tolist(), one.truth.tolist(), strict=True
        )
        by_edge = {tuple(sorted(e)): (s, k, t) for e, s, k, t in every}
        found = zip(ends.T.tolist(), score.tolist(), kept.tolist(), truth.tolist(), strict=True)
        assert {tuple(e): (s, k, t) for e, s, k, t in found} == by_edge
        assert ends.size(1) == len(by_edge)


def test_to_pyg_works_with_pygs_metrics_and_plots(tmp_path: Path) -> None:
    from torch_geometric.explain import Explanation
    from torch_geometric.explain.metric import groundtruth_metrics

    one = explain(toy_model(), toy_splits()["ood_test"])[0]
    other = one.to_pyg()
    assert isinstance(one, ciga.Explanation)
    assert isinstance(other, Explanation)
    assert other.validate()
    assert "edge_mask" in other.available_explanations
    area = groundtruth_metrics(other.edge_mask, other.edge_truth.float(), metrics="auroc")
    assert float(area) == pytest.approx(one.quality()["edge_auroc"], abs=0.02)
    part = other.get_explanation_subgraph()
    assert part.edge_index.size(1) == int((one.score > 0).sum())
    pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'ciga[report]'")
    other.visualize_graph(str(tmp_path / "graph.png"), backend="networkx")
    assert (tmp_path / "graph.png").stat().st_size > 1000


def test_a_method_that_extracts_nothing_says_so() -> None:
    with pytest.raises(UsageError, match="erm does not extract"):
        explain(toy_model("erm"), toy_splits()["ood_test"])


def test_a_notebook_shows_the_graph_and_what_was_predicted() -> None:
    one = explain(toy_model(budget="count", size=5), toy_splits()["ood_test"])[0]
    shown = one._repr_html_()
    assert shown.startswith("<figure><svg")
    assert f"predicted {one.predicted}" in shown
    assert f"5 of {one.undirected()[0].size(1)} edges kept" in shown
    assert "<script" not in shown
    assert "class=" not in shown  # a notebook has no style sheet: every shape carries its look
    assert shown.count('stroke="#0072b2"') == 5
