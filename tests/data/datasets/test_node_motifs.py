"""Nodes of one large graph: ego-graphs against PyG's, truth against shapes, the shift against its bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.utils import k_hop_subgraph

from ciga.data import load
from ciga.data.datasets import ego, node_motifs
from ciga.data.datasets.motifs import MOTIFS

SMALL = {"train_per_class": 60, "val_per_class": 10, "test_per_class": 10}


def test_every_ego_graph_is_cut_out_of_one_connected_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[dict[str, torch.Tensor], Any]] = []

    def spy(graph: dict[str, torch.Tensor], centres: Any, *rest: Any) -> Any:
        seen.append((graph, centres))
        return ego.ego_graphs(graph, centres, *rest)

    monkeypatch.setattr(node_motifs, "ego_graphs", spy)
    splits = load("node-motifs", hops=3, **SMALL)
    assert len(seen) == len(list(splits)), "one large graph per part"
    whole, centres = seen[0]
    nodes = whole["x"].size(0)
    everywhere, *_ = k_hop_subgraph(0, nodes, whole["edge_index"], num_nodes=nodes)
    assert len(everywhere) == nodes, "it is connected"
    for graph, centre in zip(splits.train.to_pyg(), centres.tolist(), strict=True):
        assert whole["motif"][centre] >= 0, "the centre is a node of a motif"
        members, edges, _, _ = k_hop_subgraph(centre, 3, whole["edge_index"], num_nodes=nodes)
        assert (graph.num_nodes, graph.num_edges) == (len(members), edges.size(1))
        own = whole["motif"] == whole["motif"][centre]
        assert int(graph.edge_truth.sum()) == int(own[edges].all(0).sum())


@pytest.mark.parametrize("variant", ["clean", "paper"])
def test_the_truth_is_the_centres_whole_motif(variant: str) -> None:
    splits = load("node-motifs", hops=2, variant=variant, **SMALL)
    ways = 2 if variant == "clean" else 1
    for part in splits:
        for graph in splits[part].to_pyg():
            shape = list(MOTIFS.values())[int(graph.y)]
            assert int(graph.edge_truth.sum()) == ways * shape.edges.shape[1]
            ends = graph.edge_index[:, graph.edge_truth].unique()
            assert len(ends) == shape.nodes
            assert 0 in ends, "the centre comes first, and is in its motif"


def test_the_base_agrees_with_the_motif_in_training_only() -> None:
    splits = load("node-motifs", bias=0.9, train_per_class=300, val_per_class=300, test_per_class=300)

    def agreement(part: str) -> float:
        columns = splits[part].columns
        return float((columns["motif"] == columns["base"]).float().mean())  # type: ignore[union-attr]

    assert all(agreement(part) > 0.85 for part in ("train", "id_val", "id_test"))
    assert all(abs(agreement(part) - 1 / 3) < 0.08 for part in ("ood_val", "ood_test"))
    assert splits["ood_test"].num_nodes.float().mean() > 1.2 * splits.train.num_nodes.float().mean()


def test_the_same_seed_gives_the_same_nodes_and_another_one_others() -> None:
    one, again, other = (load("node-motifs", seed=s, **SMALL).fingerprint() for s in (0, 0, 1))
    assert one == again != other


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_a_line_joins_all_pieces_base_to_base(pieces: int) -> None:
    store = load("spmotif-struc", train_per_class=5, val_per_class=1, test_per_class=1).train[:pieces]
    first = store.node_ptr[1:] - 5
    joined = node_motifs.NodeMotifs()._joined(store, first, np.random.default_rng(0))
    assert joined.size(1) == store.edge_index.size(1) + 2 * (pieces - 1)
    piece = torch.arange(pieces).repeat_interleave(store.num_nodes)
    across = joined[:, piece[joined[0]] != piece[joined[1]]]
    assert across.size(1) == 2 * (pieces - 1)
    assert bool((across < first[piece[across]]).all()), "no motif has another neighbour"
    assert len(joined.T.unique(dim=0)) == joined.size(1), "no edge twice"
