"""Pictures: not blank, the same every time, and the kept edges are the ones that are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ciga.explain.draw import KEPT, REST, TRUE, draw_graph, gallery
from ciga.explain.layout import stress_layout
from tests.helpers import random_graph

pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is missing: pip install 'ciga[report]'")


def item(seed: int = 0, truth: bool = True) -> dict[str, Any]:
    graph = random_graph(8, 10, seed)
    marks = torch.arange(graph.num_edges) < 6
    return {
        "edge_index": graph.edge_index,
        "nodes": 8,
        "kept": marks,
        "truth": ~marks if truth else None,
        "caption": f"graph {seed}",
    }


def lines(axes: Any, colour: str) -> set[frozenset[tuple[float, float]]]:
    """The drawn lines of one colour, each as its two ends."""
    return {
        frozenset((round(float(x), 6), round(float(y), 6)) for x, y in line.get_xydata())
        for line in axes.lines
        if line.get_color() == colour
    }


def expected(edges: Tensor, at: np.ndarray) -> set[frozenset[tuple[float, float]]]:
    points = [tuple(round(float(c), 6) for c in p) for p in at]
    return {frozenset((points[u], points[v])) for u, v in edges.T.tolist()}


def test_kept_true_and_other_edges_are_where_they_belong() -> None:
    graph = item()
    figure, axes = pyplot.subplots()
    draw_graph(axes, graph["edge_index"], graph["nodes"], graph["kept"], graph["truth"])
    at = stress_layout(graph["edge_index"], graph["nodes"])
    assert lines(axes, KEPT) == expected(graph["edge_index"][:, graph["kept"]], at)
    assert lines(axes, TRUE) == expected(graph["edge_index"][:, graph["truth"]], at)
    assert lines(axes, REST) == expected(graph["edge_index"], at)
    pyplot.close(figure)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_gallery_is_written_and_not_blank(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / f"picture.{suffix}"
    gallery([("one", [item(0), item(1, truth=False)]), ("two", [item(2)])], path, "A title")
    if suffix == "png":
        image = pyplot.imread(path)
        assert image.shape[0] > 200
        assert image[..., :3].std() > 0.02
    else:
        text = path.read_text()
        assert text.startswith("<?xml")
        assert KEPT.lower() in text.lower()
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert not pyplot.get_fignums()
