"""Similarity of molecules, block by block, against RDKit and against slow, obvious loops."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit")

from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from ciga.data.reading import similarity, split_rules
from ciga.data.reading.similarity import Nearest, clusters, components, fingerprints, nearest
from ciga.errors import CigaError

TAILS = ["", "C", "CC", "OC", "NC", "FC", "ClC", "BrC", "CCC", "OCC", "N#CC", "OC(=O)C"]
CORES = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCCC1", "c1ccoc1", "c1ccsc1", "C1CCNCC1", "c1ccc2ccccc2c1"]
SMILES = [tail + core for core in CORES for tail in TAILS]


def by_rdkit() -> np.ndarray:
    """All similarities, [n, n], as RDKit computes them."""
    make = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = [make.GetFingerprint(Chem.MolFromSmiles(s)) for s in SMILES]
    return np.array([DataStructs.BulkTanimotoSimilarity(b, bits) for b in bits])


@pytest.fixture(params=[(1024, 8192), (7, 13), (96, 5)], ids=["one block", "many blocks", "odd blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "ROWS", request.param[0])
    monkeypatch.setattr(similarity, "COLUMNS", request.param[1])


def test_the_nearest_molecule_is_rdkits(blocks: None) -> None:
    every = by_rdkit()
    train, test = np.arange(0, len(SMILES), 2), np.arange(1, len(SMILES), 2)
    found = Nearest.of([SMILES[i] for i in train])([SMILES[i] for i in test])
    expected = every[np.ix_(test, train)]
    assert np.allclose(found.similarity, expected.max(1), atol=1e-6)
    assert found.place.tolist() == expected.argmax(1).tolist()


def test_what_is_no_molecule_is_like_nothing() -> None:
    bits = fingerprints(["CCO", "not a molecule", "CCO"])
    found = nearest(bits[1:], bits[:1])
    assert found.similarity.tolist() == [0.0, 1.0]


def test_clusters_are_butinas(blocks: None) -> None:
    every, least = by_rdkit(), 0.4
    near = every >= least - 1e-9
    expected, number = np.full(len(SMILES), -1), 0
    for centre in np.argsort(-near.sum(1), kind="stable"):
        if expected[centre] < 0:
            expected[near[centre] & (expected < 0)] = number
            number += 1
    assert clusters(fingerprints(SMILES), least).tolist() == expected.tolist()


def test_components_are_connected_and_apart(blocks: None) -> None:
    import networkx as nx

    every, least = by_rdkit(), 0.5
    graph = nx.from_numpy_array(every >= least)
    expected = {frozenset(c) for c in nx.connected_components(graph)}
    label = components(fingerprints(SMILES), least)
    assert {frozenset(np.flatnonzero(label == c).tolist()) for c in set(label.tolist())} == expected


def test_a_similarity_split_keeps_its_distance() -> None:
    every = by_rdkit()
    for least in (0.45, 0.6):
        parts = split_rules.by_similarity(SMILES, (0.6, 0.2, 0.2), least, 0)
        assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(SMILES)))
        for one in parts:
            for other in parts:
                if one != other:
                    assert every[np.ix_(parts[one], parts[other])].max() < least
    with pytest.raises(CigaError, match=r"connected by similarities of 0\.05 or more.*tanimoto=0\.15"):
        split_rules.by_similarity(SMILES, (0.8, 0.1, 0.1), 0.05, 0)


def test_a_cluster_stays_whole() -> None:
    group = clusters(fingerprints(SMILES), 0.4)
    parts = split_rules.by_cluster(SMILES, (0.6, 0.2, 0.2), 0.4, 3)
    owners = [set(group[rows].tolist()) for rows in parts.values()]
    assert sum(map(len, owners)) == len(set().union(*owners)) == len(set(group.tolist()))
    again = split_rules.by_cluster(SMILES, (0.6, 0.2, 0.2), 0.4, 3)
    assert {k: v.tolist() for k, v in again.items()} == {k: v.tolist() for k, v in parts.items()}


def test_no_block_is_larger_than_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 molecules no array of more than a block is made: a full matrix would have 1.6 GB."""
    import tracemalloc

    bits = np.random.default_rng(0).integers(0, 256, (20_000, 256), dtype=np.uint8)
    monkeypatch.setattr(similarity, "ROWS", 128)
    monkeypatch.setattr(similarity, "COLUMNS", 1024)
    tracemalloc.start()
    found = nearest(bits[:300], bits)
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()
    assert found.similarity.tolist() == [1.0] * 300


@pytest.mark.parametrize(
    ("median", "word"), [(0.8, "easy"), (0.6, "middling"), (0.4, "a hard"), (0.2, "very hard")]
)
def test_one_sentence_says_how_hard_a_split_is(median: float, word: str) -> None:
    text = similarity.described({"median": median, "low": 0.1, "high": 0.9}, "ood_test")
    assert word in text
    assert f"median {median:.2f}, 10 % below 0.10, 90 % below 0.90" in text


@pytest.mark.data
def test_bace_is_harder_by_cluster_than_at_random() -> None:
    path = Path(os.environ.get("CIGA_DATA", "no-such-folder")) / "molecules/BACE.csv.gz"
    if not path.is_file():
        pytest.skip("BACE.csv.gz is not in CIGA_DATA")
    with gzip.open(path, "rt") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    bits, shares = fingerprints(smiles), (0.8, 0.1, 0.1)

    def median(parts: split_rules.Parts) -> float:
        test = parts.get("ood_test", parts.get("id_test"))
        return similarity.spread(nearest(bits[test], bits[parts["train"]]).similarity)["median"]

    chance = median(split_rules.by_random(len(smiles), shares, 0))
    cluster = median(split_rules.by_cluster(smiles, shares, 0.4, 0))
    apart = median(split_rules.by_similarity(smiles, shares, 0.4, 0))
    assert chance > cluster > apart
    assert apart < 0.4
