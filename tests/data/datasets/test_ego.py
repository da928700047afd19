"""Ego-graphs against PyG's own k-hop subgraphs, and what a file of one large graph must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch_geometric.data import Data
from torch_geometric.utils import barabasi_albert_graph, k_hop_subgraph

from ciga.data import load
from ciga.data.datasets import ego
from ciga.errors import CigaError, UsageError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))


def large(nodes: int = 80) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "x": torch.arange(nodes, dtype=torch.float)[:, None],
        "edge_index": barabasi_albert_graph(nodes, 2),
        "y": torch.arange(nodes) % 3,
    }


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_nodes_and_edges_are_those_of_pyg(hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ego, "CHUNK", 7)
    graph = large()
    store, cut = ego.ego_graphs(graph, np.arange(80), hops, 10_000, mark_centre=True)
    assert cut == 0
    for centre, mine in enumerate(store.to_pyg()):
        names = mine.x[:, 0].long()
        nodes, edges, _, _ = k_hop_subgraph(centre, hops, graph["edge_index"], num_nodes=80)
        assert sorted(names.tolist()) == nodes.tolist()
        found = set(map(tuple, names[mine.edge_index].T.tolist()))
        assert found == set(map(tuple, edges.T.tolist()))
        assert mine.edge_index.size(1) == len(found)
        assert int(names[0]) == centre, "the centre comes first"
        assert mine.x[:, 1].tolist() == [1.0] + [0.0] * (len(nodes) - 1)
        assert int(mine.y) == centre % 3


def test_large_neighbourhoods_keep_the_nearest() -> None:
    # 0 - 1 - 2 - 3 - 4 in a line
    line = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    graph = {"x": torch.arange(5.0)[:, None], "edge_index": line, "y": torch.zeros(5, dtype=torch.long)}
    store, cut = ego.ego_graphs(graph, np.array([0, 2]), 3, 3, mark_centre=False)
    assert cut == 2
    assert [g.x.flatten().tolist() for g in store.to_pyg()] == [[0, 1, 2], [2, 1, 3]]
    assert store.to_pyg()[0].edge_index.tolist() == [[0, 1], [1, 2]], "directed edges stay directed"
    assert store.columns["degree"].tolist() == [1, 2]


def test_lone_nodes_and_self_loops() -> None:
    graph = {
        "x": torch.ones(3, 1),
        "edge_index": torch.tensor([[0, 1], [0, 1]]),
        "y": torch.tensor([0, 1, 0]),
    }
    store, _ = ego.ego_graphs(graph, np.arange(3), 2, 10, mark_centre=True)
    assert store.num_nodes.tolist() == [1, 1, 1]
    assert store.num_edges.tolist() == [0, 0, 0]


def test_karate_is_split_by_degree() -> None:
    splits = load("ego")
    degree = {part: splits[part].columns["degree"] for part in splits}
    assert sum(len(d) for d in degree.values()) == 34
    assert int(degree["train"].max()) < int(degree["ood_val"].min())
    assert int(degree["ood_val"].max()) < int(degree["ood_test"].min())
    assert splits.task.classes == 4
    assert load("ego").fingerprint() == splits.fingerprint()
    assert load("ego", split="random", seed=1).train.num_graphs == 20
    sizes = load("ego", split="size", descending=True)
    assert int(sizes.train.num_nodes.min()) > int(sizes["ood_test"].num_nodes.max())


@pytest.mark.parametrize("form", ["npz", "safetensors", "pt"])
def test_files(form: str, tmp_path: Path) -> None:
    graph = {**large(), "env": torch.arange(80) % 2}
    graph["y"][5] = -1
    path = tmp_path / f"graph.{form}"
    if form == "npz":
        np.savez(path, **{k: v.numpy() for k, v in graph.items()})
    elif form == "safetensors":
        save_file({k: v.contiguous() for k, v in graph.items()}, path)
    else:
        torch.save(Data(**graph), path)
    splits = load("ego", path=str(path), hops=1)
    nodes = [n for part in splits for n in splits[part].columns["node"].tolist()]
    assert sorted(nodes) == [n for n in range(80) if n != 5], "unlabelled nodes have no ego-graph"
    assert splits.train.env is not None
    assert splits.train.env.tolist() == (splits.train.columns["node"] % 2).tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": None}, "has no 'y'"),
        ({"edge_index": torch.tensor([[0], [80]])}, "edge to node 80, but only 80 nodes"),
        ({"x": torch.full((80, 1), float("nan"))}, "node 0 has NaN"),
        ({"x": torch.ones(79, 1)}, "must be"),
        ({"y": torch.full((80,), -1)}, "no labelled node"),
    ],
)
def test_mistakes_in_the_file(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    graph = {k: v for k, v in {**large(), **change}.items() if v is not None}
    np.savez(tmp_path / "graph.npz", **{k: v.numpy() for k, v in graph.items()})
    with pytest.raises(CigaError, match=words):
        load("ego", path=str(tmp_path / "graph.npz"))


def test_wrong_paths(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        load("ego", path="nowhere.npz")
    (tmp_path / "graph.txt").write_text("1 2")
    with pytest.raises(UsageError, match=r"\.npz, \.safetensors or \.pt"):
        load("ego", path=str(tmp_path / "graph.txt"))
    (tmp_path / "graph.npz").write_text("no zip")
    with pytest.raises(CigaError, match="damaged"):
        load("ego", path=str(tmp_path / "graph.npz"))
