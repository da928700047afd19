"""Weisfeiler-Lehman refinement against one written with sets and text."""

from __future__ import annotations

import torch

from ciga.graphs.refinement import refine
from ciga.graphs.topology import Adjacency


def in_words(names: list[int], edges: list[tuple[int, int, int]], steps: int) -> list[list[str]]:
    """The same, slowly: a name is the text of (own name, sorted names of edge and neighbour)."""
    now = [str(name) for name in names]
    found = [now]
    for _ in range(steps):
        around: list[list[str]] = [[] for _ in names]
        for u, v, kind in edges:
            around[u].append(f"{kind}:{now[v]}")
            around[v].append(f"{kind}:{now[u]}")
        now = [f"({own}|{','.join(sorted(some))})" for own, some in zip(now, around, strict=True)]
        found.append(now)
    return found


def same_classes(found: torch.Tensor, slow: list[str]) -> bool:
    """Whether two namings agree on which nodes have one name."""
    mine = found.unique(return_inverse=True)[1]
    theirs = torch.tensor([sorted(set(slow)).index(name) for name in slow])
    return bool(((mine[:, None] == mine) == (theirs[:, None] == theirs)).all())


def test_names_tell_apart_what_the_slow_reference_does() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        pairs = torch.combinations(torch.arange(12))
        edges = pairs[torch.rand(len(pairs), generator=generator) < 0.2]
        names = torch.randint(1, 3, (12,), generator=generator)
        kinds = torch.randint(2, (len(edges),), generator=generator)
        around = Adjacency.of(edges.T, 12)
        for used in (None, kinds):
            told = torch.zeros_like(kinds) if used is None else used
            rows = [(u, v, k) for (u, v), k in zip(edges.tolist(), told.tolist(), strict=True)]
            fast = refine(names, around, 3, None if used is None else used[around.edge] + 1)
            assert fast.shape == (4, 12)
            for step, slow in enumerate(in_words(names.tolist(), rows, 3)):
                assert same_classes(fast[step], slow)


def test_kinds_of_edges_matter_only_if_given() -> None:
    path = Adjacency.of(torch.tensor([[0, 1], [1, 2]]), 3)
    names = torch.ones(3, dtype=torch.long)
    plain = refine(names, path, 1)[1]
    assert plain[0] == plain[2] != plain[1]
    told = refine(names, path, 1, torch.tensor([5, 6])[path.edge])[1]
    assert told.unique().numel() == 3
