"""Fragments: the right pieces, counted once a graph, with the enrichment a textbook gives."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import fisher_exact

from ciga.explain.explanation import Explanation
from ciga.explain.fragments import Fragment, enriched, graph_fragments, molecule_fragments
from tests.helpers import undirected

pytest.importorskip("rdkit", reason="RDKit is missing: pip install 'ciga[chem]'")


def explained(
    edges: list[tuple[int, int]], keep: list[tuple[int, int]], label: int, nodes: int
) -> Explanation:
    index = undirected(edges)
    wanted = {frozenset(e) for e in keep}
    kept = torch.tensor([frozenset(e) in wanted for e in index.T.tolist()])
    return Explanation(index, kept.float(), kept, torch.zeros(nodes, 1), None, torch.eye(2)[label])


def molecule(smiles: str, keep_ring: bool, label: int) -> tuple[str, Explanation]:
    from rdkit import Chem

    mol = Chem.MolFromSmiles(smiles)
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
    keep = [e for e, b in zip(bonds, mol.GetBonds(), strict=True) if b.IsInRing() == keep_ring]
    return smiles, explained(bonds, keep, label, mol.GetNumAtoms())


def test_molecules_fall_into_pieces_that_recur() -> None:
    jobs = [
        molecule("c1ccccc1C(=O)NCC", True, 1),
        molecule("CCNC(=O)c1ccccc1", True, 1),
        molecule("OCCc1ccccc1", False, 0),
    ]
    found = {f.name: f for f in molecule_fragments(*zip(*jobs, strict=True))}
    ring = found["*c1ccccc1"]
    assert (ring.found, ring.kept) == (3, 2)
    assert ring.by_class == Counter({1: 2})
    assert all("." not in name for name in found)
    assert sum(f.kept for f in found.values()) >= 3


def test_pieces_keep_their_attachment_points() -> None:
    found = {f.name for f in molecule_fragments(*zip(molecule("CCCSc1ccccc1", True, 1), strict=True))}
    assert "*S*" in found  # not S, which is hydrogen sulphide
    assert found >= {"*c1ccccc1"}
    mirrored = [molecule(s, True, 1) for s in ("C[C@H](N)C(=O)Nc1ccccc1", "C[C@@H](N)C(=O)Nc1ccccc1")]
    assert all(f.found == 2 for f in molecule_fragments(*zip(*mirrored, strict=True)))
    whole = molecule("c1ccccc1", True, 1)
    assert [f.name for f in molecule_fragments(*zip(whole, strict=True))] == ["c1ccccc1"]


def test_equal_components_are_one_fragment() -> None:
    house = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)]
    moved = [(u + 3, v + 3) for u, v in house]
    tail = [(0, 1), (1, 2), (2, 3)]
    found = graph_fragments(
        [
            explained([*house, (4, 5), (5, 6)], house, 0, 7),
            explained([*tail, *moved], moved, 0, 8),
            explained([*tail, *moved], tail, 1, 8),
            explained(house, [], 1, 5),
        ]
    )
    assert [(f.name, f.kept, dict(f.by_class)) for f in found] == [
        ("5 nodes, 6 edges", 2, {0: 2}), ("4 nodes, 3 edges", 1, {1: 1}),
    ]  # fmt: skip
    assert len(found[0].edges) == 6


def test_the_same_size_is_not_the_same_shape() -> None:
    star, path = [(0, 1), (0, 2), (0, 3)], [(0, 1), (1, 2), (2, 3)]
    assert len(graph_fragments([explained(star, star, 0, 4), explained(path, path, 0, 4)])) == 2


def test_enrichment_and_p() -> None:
    fragment = Fragment("x", "smiles", found=30, kept=22, by_class=Counter({0: 18, 1: 4}))
    totals = Counter({0: 20, 1: 40})
    assert fragment.enrichment(0, totals) == pytest.approx((18.5 / 21) / (4.5 / 41))
    p = fisher_exact([[18, 2], [4, 36]], alternative="greater").pvalue
    assert fragment.p_value(0, totals) == pytest.approx(p)
    rare = Fragment("y", "smiles", found=2, kept=2, by_class=Counter({0: 2}))
    rows = enriched([fragment, rare], torch.tensor([0] * 20 + [1] * 40), 2)
    assert [(r["name"], r["class"]) for r in rows] == [("x", 0)]
    assert rows[0]["p"] == pytest.approx(min(1, 2 * p))  # two tests: this piece in each class
    assert (rows[0]["kept"], rows[0]["of"], rows[0]["elsewhere"]) == (18, 20, 4)
