from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ciga.data.reading import split_rules
from ciga.data.reading.split_rules import (
    Parts,
    by_column,
    by_degree,
    by_group,
    by_order,
    by_random,
    by_size,
    hold_out,
)
from ciga.errors import CigaError, UsageError

SHARES = (0.8, 0.1, 0.1)


def assert_partition(parts: Parts, count: int) -> None:
    together = np.concatenate(list(parts.values()))
    assert sorted(together.tolist()) == list(range(count))
    assert all(len(rows) for rows in parts.values())


def test_random_has_exact_sizes_and_follows_the_seed() -> None:
    parts = by_random(200, SHARES, seed=3)
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 160, "id_val": 20, "id_test": 20}
    assert_partition(parts, 200)
    same, other = by_random(200, SHARES, seed=3), by_random(200, SHARES, seed=4)
    assert all((parts[name] == same[name]).all() for name in parts)
    assert any((parts[name] != other[name]).any() for name in parts)


def test_random_spreads_classes_in_proportion() -> None:
    labels = ["a"] * 150 + ["b"] * 40 + ["c"] * 10
    parts = by_random(200, SHARES, seed=0, labels=labels)
    assert_partition(parts, 200)
    for name, share in zip(("train", "id_val", "id_test"), SHARES, strict=True):
        found = [labels[i] for i in parts[name]]
        assert [found.count(c) for c in "abc"] == [round(150 * share), round(40 * share), round(10 * share)]


def test_a_rare_class_stays_in_training() -> None:
    parts = by_random(50, SHARES, seed=1, labels=["x"] + ["y"] * 49)
    assert 0 in parts["train"]


def test_order_keeps_equal_values_together() -> None:
    values = [1] * 50 + [2] * 35 + [3] * 5 + [4] * 10
    parts = by_order(values, SHARES)
    assert {name: sorted({values[i] for i in rows}) for name, rows in parts.items()} == {
        "train": [1, 2],
        "ood_val": [3],
        "ood_test": [4],
    }
    back = by_order(values, SHARES, descending=True)
    assert max(values[i] for i in back["ood_test"]) < min(values[i] for i in back["ood_val"])
    assert max(values[i] for i in back["ood_val"]) < min(values[i] for i in back["train"])


def test_order_of_text_is_that_of_iso_dates() -> None:
    dates = ["2021-03-01", "2019-12-31", "2020-06-15", "2022-01-01"]
    assert by_order(dates, (0.5, 0.25, 0.25))["train"].tolist() == [1, 2]


def test_size_and_degree() -> None:
    nodes, edges = torch.tensor([2, 9, 4, 6]), torch.tensor([2, 9, 16, 12])
    assert by_size(nodes, (0.5, 0.25, 0.25))["ood_test"].tolist() == [1]
    parts = by_degree(nodes, edges, (0.5, 0.25, 0.25))
    assert parts["train"].tolist() == [0, 1]
    assert parts["ood_test"].tolist() == [2]


def test_degree_of_a_graph_without_edges() -> None:
    assert by_degree(torch.tensor([1, 3]), torch.tensor([0, 4]), (0.5, 0, 0.5))["train"].tolist() == [0]


def test_groups_stay_whole_and_frequent_ones_train() -> None:
    groups = ["b"] * 3 + ["a"] * 80 + ["c"] * 7 + ["d"] * 10
    parts = by_group(groups, SHARES)
    assert {name: sorted({groups[i] for i in rows}) for name, rows in parts.items()} == {
        "train": ["a"],
        "ood_val": ["d"],
        "ood_test": ["b", "c"],
    }


def test_groups_of_equal_size_are_dealt_by_the_seed_not_by_the_row() -> None:
    groups = [f"g{i}" for i in range(30)]
    picks = {tuple(by_group(groups, SHARES, seed)["ood_test"]) for seed in range(5)}
    assert len(picks) > 1
    moved = by_group(groups[::-1], SHARES, seed=2)["ood_test"]
    assert {groups[::-1][i] for i in moved} == {
        groups[i] for i in by_group(groups, SHARES, seed=2)["ood_test"]
    }


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=60),
    st.sampled_from([SHARES, (0.5, 0.5, 0), (0.34, 0.33, 0.33), (1, 0, 0), (0.98, 0.01, 0.01)]),
)
def test_any_cut_is_a_partition_without_a_value_on_both_sides(
    values: list[int], shares: tuple[float, ...]
) -> None:
    wanted = sum(s > 0 for s in shares)
    if len(set(values)) < wanted:
        with pytest.raises(CigaError, match="take another split rule"):
            by_order(values, shares)
        return
    parts = by_order(values, shares)
    assert len(parts) == wanted
    assert_partition(parts, len(values))
    seen = [{values[i] for i in rows} for rows in parts.values()]
    assert sum(map(len, seen)) == len(set().union(*seen))


def test_three_rows_make_three_parts() -> None:
    assert {name: len(rows) for name, rows in by_random(3, SHARES, 0).items()} == {
        "train": 1,
        "id_val": 1,
        "id_test": 1,
    }


@pytest.mark.parametrize(
    ("count", "says"),
    [(0, "There are no rows"), (1, "There is only one row"), (2, "There are only two rows")],
)
def test_too_few_rows(count: int, says: str) -> None:
    with pytest.raises(CigaError, match=f"{says}, and a split into three parts needs at least three: take"):
        by_random(count, SHARES, 0)


def test_one_scaffold_or_piece_of_many_is_spoken_of_in_the_singular() -> None:
    for what, says in (("scaffold", "one scaffold"), ("group of connected molecules", "one group of conn")):
        with pytest.raises(
            CigaError, match=f"There is only {says}.*, and a split into two parts needs at le"
        ):
            by_group(["a"] * 5, (0.8, 0, 0.2), what=what)


@pytest.mark.parametrize(
    "shares", [(0.8, 0.2), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1), (0, 0.5, 0.5), (float("nan"), 0, 1)]
)
def test_bad_fractions(shares: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="fractions"):
        by_random(10, shares, 0)


def test_column_names_the_split() -> None:
    parts, bad = by_column(["Train", "valid", "TEST", "iid-val", "ood_val", "maybe", "", "training"])
    assert {name: rows.tolist() for name, rows in parts.items()} == {
        "train": [0, 7],
        "ood_val": [1, 4],
        "ood_test": [2],
        "id_val": [3],
    }
    assert bad == [5, 6]


def test_hold_out_takes_from_train_only() -> None:
    parts = by_order(list(range(100)), SHARES)
    more = hold_out(parts, 0.25, seed=1, labels=["a", "b"] * 50)
    assert len(more["id_val"]) == 20
    assert sorted([*more["train"], *more["id_val"]]) == sorted(parts["train"])
    assert sum(i % 2 for i in more["id_val"]) == 10
    assert hold_out(parts, 0, seed=1) is parts
    with pytest.raises(UsageError, match="id_val"):
        hold_out(by_random(10, SHARES, 0), 0.5, 0)
    with pytest.raises(UsageError, match="id_val"):
        hold_out(parts, 1.5, 0)


def test_scaffolds_stay_whole() -> None:
    pytest.importorskip("rdkit")
    smiles = [
        "Cc1ccccc1",
        "CCc1ccccc1",
        "Oc1ccccc1",
        "CC1CCCCC1",
        "OC1CCCCC1",
        "c1ccncc1C",
        "CCO",
        "CCCC",
        "CN",
    ]
    parts = split_rules.by_scaffold(smiles, (0.6, 0.2, 0.2))
    assert_partition(parts, len(smiles))
    kinds = ["benzene"] * 3 + ["cyclohexane"] * 2 + ["pyridine"] + ["none"] * 3
    assert {name: {kinds[i] for i in rows} for name, rows in parts.items()} == {
        "train": {"benzene", "none"},
        "ood_val": {"cyclohexane"},
        "ood_test": {"pyridine"},
    }
