"""Batches of the packed store against PyG's DataLoader and against a loop over graphs."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch_geometric.loader import DataLoader

from benchmarks.data import SPMOTIF
from benchmarks.epochs import cut
from benchmarks.timing import Ratio, Section, take_turns
from ciga.data import GraphStore


def loop_batch(store: GraphStore, rows: list[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, edge_index, batch and y of some graphs, one graph after the other."""
    x, edges, graph, at = [], [], [], 0
    for place, row in enumerate(rows):
        n0, n1 = int(store.node_ptr[row]), int(store.node_ptr[row + 1])
        e0, e1 = int(store.edge_ptr[row]), int(store.edge_ptr[row + 1])
        x.append(store.x[n0:n1])
        edges.append(store.edge_index[:, e0:e1].long() + at)
        graph.append(torch.full((n1 - n0,), place))
        at += n1 - n0
    return torch.cat(x), torch.cat(edges, 1), torch.cat(graph), store.y[rows]


def measure(repeat: int, quick: bool) -> Section:
    size = SPMOTIF.batch_size
    pieces = cut(SPMOTIF.load(quick).train, size)

    def ours(part: GraphStore) -> int:
        return sum(b.num_graphs for b in part.batches(size, torch.randperm(part.num_graphs)))

    def pyg(loader: DataLoader) -> int:
        return sum(b.num_graphs for b in loader)

    def loop(part: GraphStore) -> int:
        order = torch.randperm(part.num_graphs)
        return sum(loop_batch(part, rows.tolist())[3].numel() for rows in order.split(size))

    loaders = [DataLoader(part.to_pyg(), batch_size=size, shuffle=True) for part in pieces]
    found = take_turns(
        {
            "ours": [partial(ours, part) for part in pieces],
            "pyg": [partial(pyg, loader) for loader in loaders],
            "loop": [partial(loop, part) for part in pieces],
        },
        repeat,
    )
    section = Section()
    section.note("batches", found)
    for name, meaning, aim in (
        ("pyg", "an epoch of batches: PyG's DataLoader / ours", ">= 10"),
        ("loop", "an epoch of batches: a plain Python loop over graphs / ours", ""),
    ):
        key = f"batches_{name}_over_ours"
        section.ratios.append(Ratio.of(key, found[name].cpu, found["ours"].cpu, meaning, aim))
    return section
