"""Small graphs, commands and comparisons that several tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from ciga.data import Batch, GraphStore

#: A dataset small enough to be built and learnt in a second.
TINY = {"train_per_class": 6, "val_per_class": 2, "test_per_class": 2, "size_shift": "false"}
#: A network and a schedule to go with it.
SHORT = {"layers": 2, "width": 8, "epochs": 2, "batch_size": 9}


def undirected(ends: Sequence[tuple[int, int]]) -> Tensor:
    """Both directions of each edge, [2, 2P]."""
    one_way = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T
    return torch.cat([one_way, one_way.flip(0)], 1)


def random_graph(
    nodes: int, pairs: int, seed: int, *, features: int = 4, edge_features: int = 0, y: int = 0
) -> Data:
    """A graph with `pairs` different undirected edges (fewer if it has no room), both ways, shuffled."""
    rng = torch.Generator().manual_seed(seed)
    possible = torch.combinations(torch.arange(nodes)).T
    chosen = possible[:, torch.randperm(possible.size(1), generator=rng)[:pairs]]
    edges = torch.cat([chosen, chosen.flip(0)], 1)
    edges = edges[:, torch.randperm(edges.size(1), generator=rng)]
    graph = Data(x=torch.randn(nodes, features, generator=rng), edge_index=edges, y=torch.tensor([y]))
    if edge_features:
        graph.edge_attr = torch.randn(edges.size(1), edge_features, generator=rng)
    return graph


def batch_of(graphs: Sequence[Data]) -> Batch:
    return GraphStore.from_pyg(graphs).batch(slice(None))


def mixed_graphs(**options: Any) -> list[Data]:
    """Graphs of several sizes; one has a single edge, one no edge, one a single node."""
    sizes = [(7, 9), (5, 0), (9, 14), (2, 1), (1, 0), (6, 8), (8, 10)]
    return [random_graph(n, p, seed, y=seed % 3, **options) for seed, (n, p) in enumerate(sizes)]


def same_tensors(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def without_time(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history]


def gradient_size(term: Tensor, module: nn.Module) -> float:
    """The largest entry of a term's gradient by the parameters of a module; 0 where there is none."""
    found = torch.autograd.grad(
        term, list(module.parameters()), retain_graph=True, materialize_grads=True, allow_unused=True
    )
    return max(float(g.abs().max()) for g in found)


def ciga(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object, columns: int = 200
) -> tuple[int, str, str]:
    """Run the command line in this process: (exit code, standard output, standard error)."""
    from ciga.cli import main

    monkeypatch.setattr(sys, "argv", ["ciga", *map(str, words)])
    monkeypatch.setenv("COLUMNS", str(columns))
    capsys.readouterr()
    try:
        main()
        code: Any = 0
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def in_own_process(*words: object, **environment: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment for `ciga …` as a process of its own."""
    # A shell that starts tests in the background has them ignore Ctrl-C, and children inherit that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from ciga.cli import main; main()"
    source = str(Path(__file__).parents[1] / "src")
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    return [sys.executable, "-c", code, *map(str, words)], {**os.environ, "PYTHONPATH": path, **environment}


def pairs_of(flag: str, values: dict[str, Any]) -> list[str]:
    """`{"a": 1}` as `["--set", "a=1"]`."""
    return [word for key, value in values.items() for word in (flag, f"{key}={value}")]


def permuted(graph: Data, seed: int) -> tuple[Data, Tensor, Tensor]:
    """The same graph with its nodes renamed and its edges reordered.

    Returns it with the new number of each old node [N], and the old place of each new edge [E].
    """
    rng = torch.Generator().manual_seed(seed)
    place = torch.randperm(graph.num_nodes, generator=rng)
    order = torch.randperm(graph.num_edges, generator=rng)
    other = graph.clone()
    other.x = graph.x[place.argsort()]
    other.edge_index = place[graph.edge_index][:, order]
    if graph.edge_attr is not None:
        other.edge_attr = graph.edge_attr[order]
    return other, place, order
