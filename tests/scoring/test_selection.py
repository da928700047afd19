"""Which epoch counts, and when training stops."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from ciga.graphs.splits import SPLIT_NAMES
from ciga.methods.erm import ERM
from ciga.nn import Backbone, Spec
from ciga.scoring.selection import SELECTORS, Selector, default_selector
from ciga.training.fitted import EVERY_EPOCH, Fitted
from ciga.training.schedule import Training


def history(*values: float, metric: str = "accuracy", split: str = "ood_val") -> list[dict[str, Any]]:
    return [{"epoch": i, "metrics": {split: {metric: v}}} for i, v in enumerate(values)]


OOD = SELECTORS["ood-val"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.1, 0.5, 0.3), 1),
        ((0.5, 0.5, 0.5), 0),
        ((0.1, 0.7, 0.7, 0.2, 0.7), 1),
        ((0.3,), 0),
        ((math.nan, 0.2, 0.1), 1),
        ((0.2, math.nan, 0.3), 2),
        ((math.nan, math.nan), 0),
        ((-0.5, -0.2), 1),
    ],
)
def test_the_best_epoch_and_the_earlier_of_equals(values: tuple[float, ...], expected: int) -> None:
    assert OOD.pick(history(*values), "accuracy") == expected


@pytest.mark.parametrize("metric", ["log_loss", "ece"])
def test_less_is_better_for_some_metrics(metric: str) -> None:
    assert OOD.pick(history(0.5, 0.2, 0.2, 0.4, metric=metric), metric) == 1


def test_without_the_split_there_is_no_choice() -> None:
    rows = history(0.1, 0.2, split="id_val")
    assert {name: s.pick(rows, "accuracy") for name, s in SELECTORS.items()} == {
        "id-val": 1,
        "ood-val": None,
        "id-val-rest": None,
        "ood-val-rest": None,
        "oracle": None,
        "last": 1,
    }
    assert all(s.pick([], "accuracy") is None for s in SELECTORS.values())


def test_each_rule_looks_at_its_own_split() -> None:
    rows = [
        {"metrics": {"id_val": {"mcc": a}, "ood_val": {"mcc": b}, "ood_test": {"mcc": c}}}
        for a, b, c in [(0.9, 0.1, 0.2), (0.1, 0.8, 0.1), (0.2, 0.2, 0.7), (0.0, 0.0, 0.0)]
    ]
    assert [SELECTORS[n].pick(rows, "mcc") for n in ("id-val", "ood-val", "oracle", "last")] == [0, 1, 2, 3]
    assert set(EVERY_EPOCH) == {"id_val", "ood_val", "ood_test"}


def test_what_the_rest_tells_counts_against_an_epoch() -> None:
    def rows(metric: str, *values: tuple[float, float]) -> list[dict[str, Any]]:
        return [{"metrics": {"ood_val": {metric: own, "rest": rest}}} for own, rest in values]

    rest = SELECTORS["ood-val-rest"]
    assert rest.pick(rows("accuracy", (0.9, 0.8), (0.8, 0.4), (1.0, 0.7), (0.9, 0.5)), "accuracy") == 1
    assert rest.pick(rows("log_loss", (0.1, 0.3), (0.2, 0.9), (0.1, 0.2)), "log_loss") == 1
    assert rest.pick(rows("accuracy", (0.9, math.nan), (0.5, 0.4)), "accuracy") == 1
    assert OOD.pick(rows("accuracy", (0.9, 0.1), (1.0, 0.9)), "accuracy") == 1  # the plain rule does not look
    assert default_selector(["train", "id_val", "ood_val"], rest=True).name == "ood-val-rest"
    assert default_selector(["train", "id_val"], rest=True).name == "id-val-rest"
    assert default_selector(["train"], rest=True).name == "last"


def test_the_oracle_is_never_the_default() -> None:
    others = [n for n in SPLIT_NAMES if n != "train"]
    for present in product([True, False], repeat=len(others)):
        splits = ["train", *[n for n, yes in zip(others, present, strict=True) if yes]]
        chosen = default_selector(splits)
        assert chosen.name != "oracle"
        assert chosen.split in (None, "id_val", "ood_val")
        expected = "ood-val" if "ood_val" in splits else "id-val" if "id_val" in splits else "last"
        assert chosen.name == expected


def stops_after(values: list[float], training: Training, splits: tuple[str, ...]) -> int:
    """How many epochs the loop's rule lets pass."""
    fitted = Fitted(ERM(), Backbone(), Spec(1, 0, 2), splits, training=training)
    for epoch, value in enumerate(values):
        if fitted.should_stop():
            return epoch
        fitted.history.append({"metrics": {"ood_val": {"accuracy": value}}})
    return len(values)


def by_a_counter(values: list[float], warmup: int, patience: int) -> int:
    """Early stopping as one would write it down: a counter that a better score resets."""
    best, counter = -math.inf, 0
    for epoch, value in enumerate(values):
        better = value > best
        best = max(best, value)
        if epoch >= warmup:
            counter = 0 if better else counter + 1
            if counter >= patience:
                return epoch + 1
    return len(values)


@pytest.mark.parametrize(("warmup", "patience"), [(0, 1), (0, 3), (2, 2), (4, 1), (20, 5)])
def test_early_stopping_is_a_counter(warmup: int, patience: int) -> None:
    training = Training(warmup=warmup, patience=patience)
    for values in product([0.1, 0.2, 0.3], repeat=7):
        series = [*values]
        expected = by_a_counter(series, warmup, patience)
        assert stops_after(series, training, ("train", "ood_val")) == expected, series


def test_without_validation_data_it_never_stops() -> None:
    assert stops_after([0.5] * 50, Training(warmup=0, patience=1), ("train", "ood_test")) == 50
    assert Selector("last", None).split is None


def test_only_epochs_that_may_be_chosen_are() -> None:
    rows = history(0.9, 0.8, 0.3, 0.7)
    assert OOD.pick(rows, "accuracy", lambda place: place >= 2) == 3
    assert OOD.pick(rows, "accuracy", lambda place: place >= 9) == 3  # none may: the last counts
    assert OOD.pick(history(math.nan, math.nan), "accuracy", lambda place: place == 1) == 1
    assert SELECTORS["last"].pick(rows, "accuracy", lambda place: place == 0) == 3
