"""Stores put together by hand, and the obvious loop over graphs that says what they must hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

from ciga.graphs.store import GraphStore

by_property = settings(max_examples=60, deadline=None)


@st.composite
def plain_graphs(draw: Any, least: int = 1, **fixed: Any) -> list[dict[str, Any]]:
    """A few graphs as plain dictionaries: with no node, one node, no edge, no feature, loops, multi-edges."""
    width = fixed.get("width", draw(st.integers(0, 3)))
    attr = fixed.get("attr", draw(st.sampled_from([None, 1, 2])))
    with_env = fixed.get("env", draw(st.booleans()))
    with_truth = fixed.get("truth", draw(st.booleans()))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    out = []
    for _ in range(draw(st.integers(least, 6))):
        nodes = draw(st.integers(0, 5))
        end = st.integers(0, max(nodes - 1, 0))
        edges = draw(st.lists(st.tuples(end, end), max_size=8 if nodes else 0))
        out.append(
            {
                "x": rng.standard_normal((nodes, width)).astype(np.float32),
                "edges": edges,
                "attr": None if attr is None else rng.standard_normal((len(edges), attr)).astype(np.float32),
                "truth": rng.integers(0, 2, len(edges)).astype(bool) if with_truth else None,
                "y": draw(st.integers(0, 3)),
                "env": draw(st.integers(0, 2)) if with_env else None,
                "text": draw(st.text(max_size=5)),
                "number": float(rng.standard_normal()),
            }
        )
    return out


def packed(graphs: list[dict[str, Any]]) -> GraphStore:
    """The store of these graphs, put together by hand."""

    def rows(key: str, dtype: torch.dtype) -> torch.Tensor | None:
        if graphs[0][key] is None:
            return None
        return torch.from_numpy(np.concatenate([g[key] for g in graphs])).to(dtype)

    edges = [e for g in graphs for e in g["edges"]]
    x = rows("x", torch.float32)
    assert x is not None
    return GraphStore(
        x,
        torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T,
        torch.tensor(np.cumsum([0] + [len(g["x"]) for g in graphs])),
        torch.tensor(np.cumsum([0] + [len(g["edges"]) for g in graphs])),
        torch.tensor([g["y"] for g in graphs]),
        edge_attr=rows("attr", torch.float32),
        edge_truth=rows("truth", torch.bool),
        env=None if graphs[0]["env"] is None else torch.tensor([g["env"] for g in graphs]),
        columns={
            "name.of": [g["text"] for g in graphs],
            "number": torch.tensor([g["number"] for g in graphs], dtype=torch.float64),
        },
    )


def assert_batch(batch: Any, graphs: list[dict[str, Any]], rows: list[int]) -> None:
    """`batch` is the graphs at `rows`, one after the other, by a plain loop."""
    node, edge, pairs, seen = 0, 0, 0, {}
    for place, row in enumerate(rows):
        graph = graphs[row]
        size = len(graph["x"])
        np.testing.assert_array_equal(batch.x[node : node + size].numpy(), graph["x"])
        assert batch.batch[node : node + size].tolist() == [place] * size
        for i, (u, v) in enumerate(graph["edges"]):
            assert batch.edge_index[:, edge].tolist() == [u + node, v + node]
            assert int(batch.edge_batch[edge]) == place
            if graph["attr"] is not None:
                np.testing.assert_array_equal(batch.edge_attr[edge].numpy(), graph["attr"][i])
            if graph["truth"] is not None:
                assert bool(batch.edge_truth[edge]) == graph["truth"][i]
            # u->v, v->u and every repetition share one number, which nothing else has
            pair = int(batch.pair[edge])
            key = (place, min(u, v), max(u, v))
            assert seen.setdefault(pair, key) == key
            assert int(batch.pair_batch[pair]) == place
            edge += 1
        pairs += len({(min(e), max(e)) for e in graph["edges"]})
        assert int(batch.y[place]) == graph["y"]
        if graph["env"] is not None:
            assert int(batch.env[place]) == graph["env"]
        node += size
    assert (batch.num_nodes, batch.num_edges, batch.num_graphs) == (node, edge, len(rows))
    assert batch.num_pairs == pairs == len(seen)
    assert batch.index.tolist() == rows
    if graphs[0]["attr"] is None:
        assert batch.edge_attr is None
    if graphs[0]["truth"] is None:
        assert batch.edge_truth is None
    if graphs[0]["env"] is None:
        assert batch.env is None


def assert_store(store: GraphStore, graphs: list[dict[str, Any]], columns: bool = True) -> None:
    """`store` holds exactly these graphs."""
    assert len(store) == store.num_graphs == len(graphs)
    assert_batch(store.batch(slice(None)), graphs, list(range(len(graphs))))
    if columns:
        assert store.columns["name.of"] == [g["text"] for g in graphs]
        assert store.columns["number"].tolist() == [g["number"] for g in graphs]


def example() -> GraphStore:
    rng = np.random.default_rng(0)
    graphs = [
        {"x": rng.standard_normal((n, 2)).astype(np.float32), "edges": [(i, (i + 1) % n) for i in range(n)],
         "attr": rng.standard_normal((n, 1)).astype(np.float32), "truth": rng.integers(0, 2, n).astype(bool),
         "y": n % 2, "env": n % 3, "text": "Größe 𝔊 " + "x" * n, "number": n / 7}
        for n in range(1, 6)
    ]  # fmt: skip
    return packed(graphs)


def packed_again(store: GraphStore) -> str:
    """The fingerprint computed anew, not remembered."""
    return store.with_env(store.env).fingerprint()
