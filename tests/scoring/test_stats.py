"""Statistics against values worked out by hand or by other means."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest

from ciga.scoring import stats


def test_spread_and_ranks() -> None:
    assert stats.spread([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert stats.spread([4.0]) == (4.0, None)
    assert stats.ranks({"a": 0.9, "b": 0.5, "c": 0.5, "d": 0.1}) == {"a": 1, "b": 2.5, "c": 2.5, "d": 4}
    assert stats.ranks({"a": 8.0, "b": 300.0}, lower_is_better=True) == {"a": 1, "b": 2}


def exact_wilcoxon(differences: list[float]) -> float:
    """By counting all sign patterns."""
    size = np.abs(differences)
    rank = size.argsort().argsort() + 1
    seen = sum(r for r, d in zip(rank, differences, strict=True) if d > 0)
    patterns = product((0, 1), repeat=len(rank))
    sums = [sum(r for r, s in zip(rank, signs, strict=True) if s) for signs in patterns]
    centre = sum(rank) / 2
    return float(np.mean([abs(s - centre) >= abs(seen - centre) for s in sums]))


def test_wilcoxon() -> None:
    differences = [1.0, -2.0, 3.0, 4.0, 5.0, 6.5]
    assert stats.wilcoxon(differences) == pytest.approx(exact_wilcoxon(differences))
    assert stats.wilcoxon([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 32)
    assert stats.wilcoxon([0.0, 0.0]) == 1.0
    assert stats.wilcoxon([]) == 1.0


def test_holm() -> None:
    # 3 x 0.01; max(0.03, 2 x 0.02); max(0.04, 0.03)
    assert stats.holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    assert stats.holm([0.9, 0.8]) == [1.0, 1.0]
    assert stats.holm([]) == []


def test_bootstrap() -> None:
    assert stats.bootstrap([[0.5, 0.5], [0.1, 0.1]]) == pytest.approx((0.3, 0.3))
    rng = np.random.default_rng(0)
    group = rng.normal(1.0, 1.0, 200).tolist()
    low, high = stats.bootstrap([group])
    centre, error = np.mean(group), np.std(group) / sqrt(200)
    assert (low, high) == pytest.approx((centre - 1.96 * error, centre + 1.96 * error), abs=0.03)
    assert stats.bootstrap([group]) == (low, high)


def test_compare_pairs_by_dataset_and_seed() -> None:
    scores = {
        "erm": {"x": {1: 0.5, 2: 0.6, 3: 0.7}, "y": {1: 0.2}},
        "ours": {"x": {1: 0.6, 2: 0.8}, "y": {1: 0.1}, "z": {1: 0.9}},
        "same": {"x": {1: 0.5, 2: 0.6, 3: 0.7}},
    }
    ours, same = stats.compare(scores, "erm", ["erm", "ours", "same", "absent"])
    assert (ours.method, ours.pairs, ours.datasets) == ("ours", 3, 2)
    assert ours.difference == pytest.approx((0.15 - 0.1) / 2)
    assert same.difference == 0
    assert same.p_pairs == 1.0


def test_critical_difference_of_a_known_example() -> None:
    """Demšar (2006), section 3.2.2: four classifiers on 14 data sets have CD 1.25 at 5 % (q = 2.569)."""
    rng = np.random.default_rng(1)
    means = {m: {str(d): rng.random() + 0.3 * (m == "a") for d in range(14)} for m in "abcd"}
    found = stats.critical_difference(means)
    assert found is not None
    assert found.difference == pytest.approx(2.569 * sqrt(4 * 5 / (6 * 14)), abs=2e-3)
    assert sum(found.ranks.values()) == pytest.approx(4 * 2.5)
    assert list(found.ranks.values()) == sorted(found.ranks.values())


def test_cliques() -> None:
    cd = stats.CriticalDifference({"a": 1.0, "b": 1.8, "c": 2.9, "d": 4.3}, 0.01, 1.2, 10)
    assert cd.cliques() == [("a", "b"), ("b", "c")]
    assert stats.CriticalDifference({"a": 1.0, "b": 3.0}, 0.01, 1.2, 10).cliques() == []


def test_too_little_for_a_diagram() -> None:
    assert stats.critical_difference({"a": {"x": 1.0}, "b": {"x": 2.0}, "c": {"x": 3.0}}) is None
    assert stats.critical_difference({"a": {"x": 1.0, "y": 1.0}, "b": {"x": 2.0, "y": 3.0}}) is None
