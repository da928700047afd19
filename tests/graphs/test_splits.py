"""Named parts of a dataset: what is refused, what is equal, what leaks, what shuffling keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from ciga.errors import CigaError
from ciga.graphs.splits import SPLIT_NAMES, Splits, Task
from ciga.graphs.store import GraphStore


def store(*seeds, features=2, y=None, attr=False):
    """One small random graph for each seed: equal seeds, equal graphs."""
    graphs = []
    for seed in seeds:
        rng = torch.Generator().manual_seed(seed)
        graph = Data(
            x=torch.randn(3, features, generator=rng),
            edge_index=torch.randint(3, (2, 4), generator=rng),
            y=seed % 2 if y is None else y,
        )
        if attr:
            graph.edge_attr = torch.ones(4, 1)
        graphs.append(graph)
    return GraphStore.from_pyg(graphs)


@pytest.fixture
def splits():
    parts = {"ood_test": store(7, 8, 9), "train": store(1, 2, 3, 4), "id_val": store(5, 6)}
    return Splits(parts, Task(2, class_names=("even", "odd")), {"source": "here"})


def test_parts_by_name_in_a_fixed_order(splits):
    assert list(splits) == ["train", "id_val", "ood_test"]
    assert [n for n in SPLIT_NAMES if n in splits] == list(splits)
    assert "ood_val" not in splits
    assert splits["train"] is splits.train
    assert len(splits["ood_test"]) == 3


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"train": store(1), "test": store(2)}, "cannot be called 'test'"),
        ({"id_val": store(1)}, "needs a part called 'train'"),
        ({"train": store(1), "id_val": store(2).subset([])}, "'id_val' has no graphs"),
        ({"train": store(1), "ood_val": store(2, y=2)}, "'ood_val' has labels outside 0…1"),
        ({"train": store(1, y=-1)}, "'train' has labels outside"),
        ({"train": store(1), "ood_test": store(2, features=3)}, "3 num features, 'train' has 2"),
        ({"train": store(1), "ood_test": store(2, attr=True)}, "1 edge features, 'train' has 0"),
    ],
)
def test_what_does_not_fit_is_refused(parts, words):
    with pytest.raises(CigaError, match=words):
        Splits(parts, Task(2))


def test_fingerprint_is_of_the_content(splits):
    same = Splits({n: splits[n].subset(slice(None)) for n in reversed(list(splits))}, splits.task)
    assert same.fingerprint() == splits.fingerprint()
    renamed = Splits(
        {"train": splits.train, "id_val": splits["id_val"], "id_test": splits["ood_test"]}, splits.task
    )
    fewer = Splits({"train": splits.train, "id_val": splits["id_val"]}, splits.task)
    reordered = Splits({**splits.parts, "id_val": splits["id_val"].subset([1, 0])}, splits.task)
    assert len({s.fingerprint() for s in (splits, renamed, fewer, reordered)}) == 4


def test_leakage_counts_equal_graphs_whatever_their_label():
    parts = {
        "train": store(1, 2, 3),
        "id_val": store(4, 5),
        "ood_val": store(2, 9, 2),
        "ood_test": store(3, 1, y=0),
    }
    assert Splits(parts, Task(2)).leakage() == {"id_val": 0, "ood_val": 2, "ood_test": 2}


def test_leakage_tells_apart_graphs_without_features():
    def bare(nodes, edges):
        return GraphStore.from_pyg([Data(edge_index=torch.tensor(edges).T, num_nodes=nodes, y=0)])

    parts = {
        "train": bare(3, [(0, 1)]),
        "id_val": bare(4, [(0, 1)]),
        "ood_val": bare(3, [(0, 2)]),
        "ood_test": bare(3, [(0, 1)]),
    }
    assert Splits(parts, Task(2)).leakage() == {"id_val": 0, "ood_val": 0, "ood_test": 1}


def test_shuffled_deals_the_same_graphs_out_again(splits):
    mixed = splits.shuffled(0)
    assert {n: len(mixed[n]) for n in mixed} == {"train": 4, "id_val": 2, "ood_test": 3}

    def every(some):
        return Counter(
            part.subset([i]).fingerprint() for part in some.parts.values() for i in range(len(part))
        )

    assert every(mixed) == every(splits)
    assert set(every(mixed).values()) == {1}
    assert splits.shuffled(0).fingerprint() == mixed.fingerprint()
    assert len({splits.shuffled(seed).fingerprint() for seed in range(4)}) == 4
    assert mixed.notes == {"source": "here", "protocol": "iid"}
    assert mixed.task == splits.task


def test_the_oracle_pools_the_papers_three_parts_and_no_more(splits):
    """Where there are both an `id_val` and an `ood_val`, the paper has but the latter; so with the tests."""
    part = splits.train
    parts = {n: part.subset(range(i + 1)) for i, n in enumerate(("id_val", "ood_val", "id_test"))}
    full = Splits({"train": part, **parts, "ood_test": part.subset([0])}, splits.task)
    mixed = full.shuffled(0)
    assert {n: len(mixed[n]) for n in mixed} == {"train": 4, "ood_val": 2, "ood_test": 1}
    # With in-distribution validation alone, that is the paper's (TU), and test graphs of either kind count.
    assert set(Splits({"train": part, "id_val": part, "id_test": part}, splits.task).shuffled(0)) == {
        "train",
        "id_val",
        "id_test",
    }


def test_helper_models_see_in_distribution_data_only(splits):
    part = splits.train
    alone = Splits({"train": part, "ood_val": part, "ood_test": part}, splits.task).in_distribution(1)
    assert {n: len(alone[n]) for n in alone} == {"train": 3, "id_val": 1}  # a tenth is held out
    held = {alone[n].subset([i]).fingerprint() for n in alone for i in range(len(alone[n]))}
    assert held == {part.subset([i]).fingerprint() for i in range(len(part))}
    assert list(splits.in_distribution(1)) == ["train", "id_val"]
    assert splits.in_distribution(1)["id_val"] is splits["id_val"]
    one = part.subset([0])
    assert list(Splits({"train": one, "ood_val": part}, splits.task).in_distribution(1)) == ["train"]


def test_a_notebook_shows_a_table_and_names_cannot_break_it(toy: Splits) -> None:
    evil = replace(toy.task, class_names=("<script>", "b", "c"), metric="<b>")
    shown = replace(toy, task=evil)._repr_html_()
    assert "<td>train</td><td>60</td>" in shown
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "<b>" not in shown
