"""The TU size splits: the paper's counts exactly, from the raw text files."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from ciga.data import load
from ciga.data.dataset import make
from ciga.data.datasets.paper_stats import STATS
from ciga.data.datasets.tu import TU
from ciga.data.reading.text_graphs import read_numbers, store_of
from ciga.errors import CigaError, UsageError

NAMES = ("nci1", "nci109", "proteins", "dd")


def raw(name: str) -> Path:
    dataset = make(name)
    assert isinstance(dataset, TU)
    if dataset.missing_files():
        pytest.skip(f"the TU files of {name} are not in CIGA_DATA")
    return Path(os.environ["CIGA_DATA"]) / "TU" / dataset.original / "raw"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
def test_counts_and_members_are_those_of_the_paper(name: str) -> None:
    folder = raw(name)
    splits = load(name)
    paper = STATS[name]
    assert {part: splits[part].num_graphs for part in splits} == paper.graphs
    assert (splits.task.metric, splits.task.classes) == ("mcc", 2)
    assert float(splits.notes["all.nodes_mean"]) == paper.nodes_mean
    assert float(splits.notes["all.edges_mean"]) == paper.edges_mean
    assert splits.train.num_features == {"nci1": 37, "nci109": 38, "proteins": 3, "dd": 89}[name]
    rows = {part: set(splits[part].columns["original_index"].tolist()) for part in splits}
    small = rows["train"] | rows["id_val"]
    assert not rows["train"] & rows["id_val"]
    original = make(name).original
    lists = folder.parents[1] / "size_split"
    if lists.is_dir():
        assert small == set(np.loadtxt(lists / f"{original}_small_idx.txt", dtype=int).tolist())
        assert rows["ood_test"] == set(np.loadtxt(lists / f"{original}_test_idx.txt", dtype=int).tolist())
    # the paper cuts its percentages off after two digits
    y = torch.cat([splits["train"].y, splits["id_val"].y])
    for shares, labels in (
        (paper.class_shares["small"], y),
        (paper.class_shares["ood_test"], splits["ood_test"].y),
    ):
        for label, share in enumerate(shares):
            assert 100 * float((labels == label).double().mean()) == pytest.approx(share, abs=0.0101)


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
def test_the_largest_training_graphs_may_be_held_out(name: str) -> None:
    raw(name)
    plain, held_out = load(name), load(name, ood_val=0.5)
    for part in ("id_val", "ood_test"):
        assert torch.equal(plain[part].columns["original_index"], held_out[part].columns["original_index"])
    rows = {part: set(held_out[part].columns["original_index"].tolist()) for part in ("train", "ood_val")}
    assert not rows["train"] & rows["ood_val"]
    assert rows["train"] | rows["ood_val"] == set(plain.train.columns["original_index"].tolist())
    assert held_out.train.num_nodes.max() < held_out["ood_val"].num_nodes.min()
    assert 0.4 < len(rows["ood_val"]) / plain.train.num_graphs <= 0.5
    with pytest.raises(UsageError, match="larger share"):
        load(name, ood_val=1e-6)


@pytest.mark.data
def test_graphs_and_labels_are_those_pyg_reads() -> None:
    from torch_geometric.data.separate import separate
    from torch_geometric.io import read_tu_data

    whole, slices, sizes = read_tu_data(str(raw("proteins")), "PROTEINS")
    # PROTEINS also has one real-valued attribute a node, which the paper leaves out
    whole.x = whole.x[:, sizes["num_node_attributes"] :]
    splits = load("proteins")
    for part in splits:
        index = splits[part].columns["original_index"].tolist()
        for mine, original in zip(splits[part].to_pyg()[:60], index[:60], strict=True):
            graph = separate(type(whole), whole, original, slices, decrement=False)
            assert torch.equal(mine.x, graph.x)
            assert torch.equal(mine.edge_index, graph.edge_index)
            assert int(mine.y) == int(graph.y)


@pytest.mark.data
def test_the_seed_chooses_the_validation_graphs_and_nothing_else() -> None:
    raw("proteins")
    one, same, two = (load("proteins", split_seed=seed) for seed in (0, 0, 1))
    assert one.fingerprint() == same.fingerprint()
    assert one["id_val"].fingerprint() != two["id_val"].fingerprint()
    assert one["ood_test"].fingerprint() == two["ood_test"].fingerprint()


@pytest.mark.data
@pytest.mark.parametrize("damage", ["cut", "altered"])
def test_damaged_files_are_detected(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = raw("proteins")
    copy = tmp_path / "TU" / "PROTEINS" / "raw"
    copy.mkdir(parents=True)
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    edges = copy / "PROTEINS_A.txt"
    lines = edges.read_text().splitlines()
    if damage == "cut":
        edges.write_text("\n".join(lines[: len(lines) // 2]))
    else:
        edges.write_text("\n".join(["1,3", *lines[1:]]))
    with pytest.raises(CigaError, match="as published"):
        load("proteins")
    # the order of the lines and blanks after commas are no damage
    edges.write_text("\n".join(line.replace(",", ", ") for line in reversed(lines)))
    assert load("proteins")["ood_test"].num_graphs == 112


@pytest.mark.data
def test_an_archive_beside_the_folder_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = raw("proteins")
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    place = tmp_path / "TU" / "PROTEINS"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / "PROTEINS.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"PROTEINS/{file.name}")
    assert len(make("proteins").missing_files()) == 4
    assert load("proteins").train.num_graphs == 511
    assert make("proteins").missing_files() == []
    shutil.rmtree(place / "raw")
    (place / "PROTEINS.zip").write_bytes(b"no zip")
    with pytest.raises(CigaError, match="cannot be unpacked"):
        load("proteins")


def test_text_files_with_mistakes_say_the_line(tmp_path: Path) -> None:
    file = tmp_path / "edges.txt"
    file.write_text("1,2\n3,x\n")
    with pytest.raises(CigaError, match="line 2"):
        read_numbers(file, 2)
    file.write_text("1,2\n3\n")
    with pytest.raises(CigaError, match="line 2"):
        read_numbers(file, 2)
    file.write_text("")
    with pytest.raises(CigaError, match="empty"):
        read_numbers(file)
    file.write_text("1 2\n")
    with pytest.raises(CigaError, match="2 columns instead of 1"):
        read_numbers(file, separator=None)


def test_edges_are_sorted_and_checked(tmp_path: Path) -> None:
    graph, y, x = np.array([0, 0, 1, 1]), np.array([1, 0]), torch.eye(4)
    store = store_of(np.array([[1, 0], [0, 1], [0, 1], [1, 1], [2, 3]]), graph, x, y, tmp_path)
    assert store.edge_index.tolist() == [[0, 1, 0], [1, 0, 1]], "self-loops and repeats are dropped"
    assert store.edge_ptr.tolist() == [0, 2, 3]
    with pytest.raises(CigaError, match=r"Edge 1 .* joins two graphs"):
        store_of(np.array([[1, 2]]), graph, x, y, tmp_path)
    with pytest.raises(CigaError, match=r"Edge 2 .* there are 4 nodes"):
        store_of(np.array([[0, 1], [1, 4]]), graph, x, y, tmp_path)
    with pytest.raises(CigaError, match="in order"):
        store_of(np.array([[0, 1]]), np.array([0, 1, 0, 1]), x, y, tmp_path)
    with pytest.raises(CigaError, match="disagree"):
        store_of(np.array([[0, 1]]), graph, torch.eye(3), y, tmp_path)
