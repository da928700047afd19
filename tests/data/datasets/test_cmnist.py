"""Coloured superpixels: the colours' probabilities, the paper's averages, and images made by hand."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("skimage")

from ciga.data import load
from ciga.data.dataset import make
from ciga.data.datasets import cmnist
from ciga.data.datasets.cmnist import IMAGES, TRAIN, read_idx, superpixel_graphs
from ciga.data.datasets.superpixels import REACH, superpixels
from ciga.errors import CigaError, UsageError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))


def dataset(**options: Any) -> cmnist.CMNISTSuperpixels:
    made = make("cmnist-sp", options)
    assert isinstance(made, cmnist.CMNISTSuperpixels)
    return made


def needs_files() -> None:
    if dataset().missing_files():
        pytest.skip("the MNIST files are not in CIGA_DATA")


@pytest.mark.data
def test_averages_shares_and_labels(tmp_path: Path) -> None:
    needs_files()
    splits = load("cmnist-sp", images=600)
    assert {part: splits[part].num_graphs for part in splits} == {
        "train": 400,
        "ood_val": 50,
        "ood_test": 150,
    }
    assert "600 of 60000" in splits.notes["partial"]
    nodes = sum(splits[part].x.size(0) for part in splits) / 600
    edges = sum(splits[part].edge_index.size(1) for part in splits) / 600
    assert nodes == pytest.approx(56.90, rel=0.02)
    assert edges == pytest.approx(373.85, rel=0.03)
    train, test = splits.train, splits["ood_test"]
    assert train.env is not None
    assert train.env.bincount().tolist() == [200, 200]
    colour = train.columns["colour"]
    assert isinstance(colour, torch.Tensor)
    assert float((colour == train.y).double().mean()) == pytest.approx(0.85, abs=0.05)
    assert float((test.columns["colour"] == test.y).double().mean()) == pytest.approx(0.1, abs=0.05)
    # every node of a red image is red, of a green one green
    by_node = colour.repeat_interleave(train.num_nodes)
    assert float(train.x[by_node == 1, 1].abs().max()) == 0.0
    assert float(train.x[by_node == 0, 0].abs().max()) == 0.0
    labels = read_idx(
        Path(cmnist.raw_file("MNIST/raw/train-labels-idx1-ubyte.gz", source="")),
        cmnist.FILES["train-labels-idx1-ubyte.gz"],
        (IMAGES,),
    )
    for part in splits:
        image = splits[part].columns["image"]
        assert splits[part].columns["digit"].tolist() == labels[image].tolist()
        assert bool((image < TRAIN).all()) == (part == "train")
    images = {part: set(splits[part].columns["image"].tolist()) for part in splits}
    assert not images["ood_val"] & images["ood_test"]
    again = load("cmnist-sp", images=600)
    assert again.fingerprint() == splits.fingerprint()
    # fewer images are a part of more
    fewer = load("cmnist-sp", images=24)["train"]
    assert torch.equal(fewer.batch([0, 1]).x, train.batch([0, 1]).x)


def test_what_is_drawn_has_the_right_probabilities() -> None:
    digits = np.arange(IMAGES) % 10
    drawn = dataset()._draw(digits)
    assert (drawn["y"] != (digits >= 5)).mean() == pytest.approx(0.25, abs=0.01)
    for env, flip in enumerate((0.2, 0.1, 0.9)):
        there = drawn["env"] == env
        assert there.sum() == 20_000
        assert (drawn["colour"] != drawn["y"])[there].mean() == pytest.approx(flip, abs=0.01)
    assert not np.array_equal(dataset(seed=1)._draw(digits)["y"], drawn["y"])
    rows = dataset()._rows()
    assert {part: len(index) for part, index in rows.items()} == {
        "train": 40_000,
        "ood_val": 5_000,
        "ood_test": 15_000,
    }
    assert len(np.unique(np.concatenate(list(rows.values())))) == IMAGES
    three = dataset(train_flip=(0.1, 0.2, 0.3))._draw(digits)
    assert np.unique(three["env"]).tolist() == [0, 1, 2, 3]


def test_strengths_are_checked() -> None:
    with pytest.raises(UsageError, match="train_flip"):
        dataset(train_flip=(0.2, 1.5)).build()
    with pytest.raises(UsageError, match="images=3 is too small"):
        dataset(images=3)


def test_an_empty_image_is_a_grid_of_equal_superpixels() -> None:
    nodes, edges = superpixels((np.zeros((28, 28), np.uint8), 0))
    assert 4 <= len(nodes) <= 75
    assert nodes[:, :2].max() == 0
    distance = np.linalg.norm(28 * (nodes[edges[0], 2:] - nodes[edges[1], 2:]), axis=1)
    assert distance.max() < REACH
    assert pytest.approx(6.36, abs=0.01) == REACH
    pairs = set(zip(*edges.tolist(), strict=True))
    assert all((v, u) in pairs and u != v for u, v in pairs)
    gap = np.linalg.norm(28 * (nodes[:, None, 2:] - nodes[None, :, 2:]), axis=2)
    assert len(pairs) == int((gap < REACH).sum()) - len(nodes), "every pair within reach is joined"


def test_superpixels_cover_the_image() -> None:
    image = np.zeros((28, 28), np.uint8)
    image[5:20, 12:16] = 255
    nodes, _ = superpixels((image, 1))
    assert nodes[:, 0].max() == pytest.approx(1.0, abs=0.05), "red where the stroke is"
    assert nodes[:, 1].max() == 0
    bright = nodes[nodes[:, 0] > 0.5]
    assert ((bright[:, 2] * 28 > 4) & (bright[:, 2] * 28 < 20)).all()
    assert ((bright[:, 3] * 28 > 11) & (bright[:, 3] * 28 < 16)).all()


def test_graphs_are_packed_in_order() -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 28, 28)).astype(np.uint8)
    x, edge_index, node_ptr, edge_ptr = superpixel_graphs(images, np.array([0, 1, 0]), workers=1)
    for i in range(3):
        nodes, edges = superpixels((images[i], [0, 1, 0][i]))
        assert np.array_equal(x[node_ptr[i] : node_ptr[i + 1]].numpy(), nodes)
        assert np.array_equal(edge_index[:, edge_ptr[i] : edge_ptr[i + 1]].numpy(), edges)


def test_idx_files_are_checked(tmp_path: Path) -> None:
    content = bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(content))
    digest = hashlib.sha256(content).hexdigest()
    assert read_idx(path, digest, (3,)).tolist() == [7, 8, 9]
    with pytest.raises(CigaError, match="published"):
        read_idx(path, "0" * 64, (3,))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CigaError, match="cut short"):
        read_idx(path, digest, (3,))
    path.write_bytes(b"no gzip")
    with pytest.raises(CigaError, match="cut short"):
        read_idx(path, digest, (3,))


def test_without_files_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    assert dataset().missing_files() == [f"MNIST/raw/{name}" for name in cmnist.FILES]
