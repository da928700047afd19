"""Statistics against values worked out by hand or by other means."""

from __future__ import annotations

import math
import re
from itertools import product
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student

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


def test_floor_is_the_least_p() -> None:
    for pairs in (3, 5, 6, 10):
        assert stats.wilcoxon(list(range(1, pairs + 1))) == pytest.approx(stats.wilcoxon_floor(pairs))


def test_bootstrap_of_a_large_sample_is_the_normal_interval() -> None:
    group = np.random.default_rng(0).normal(1.0, 1.0, 200).tolist()
    centre, error = np.mean(group), np.std(group) / sqrt(200)
    found = stats.hierarchical([group])
    expected = (centre - 1.97 * error, centre + 1.97 * error)
    assert (found["low"], found["high"]) == pytest.approx(expected, abs=0.03)
    assert stats.hierarchical([group]) == found  # no chance in it


def test_interval_is_students_and_needs_three_seeds() -> None:
    values = [0.71, 0.75, 0.74, 0.69]
    found = stats.interval(values)
    low, high = student.interval(0.95, 3, np.mean(values), np.std(values, ddof=1) / 2)
    assert (found["low"], found["high"]) == pytest.approx((low, high))
    for few in ([0.5], [0.5, 0.6], [0.5, 0.6, math.nan]):
        assert math.isnan(stats.interval(few)["low"])
        assert stats.interval(few)["mean"] == pytest.approx(np.mean([v for v in few if v == v]))
    assert math.isnan(stats.interval([])["mean"])
    assert stats.interval([0.9, 1.0, 1.0], (0, 1))["high"] == 1.0


@pytest.mark.parametrize("seeds", [5, 10])
def test_intervals_cover_what_they_promise(seeds: int) -> None:
    """AUDIT M17: the percentile bootstrap over five seeds covers 87.5 %. Normal scores with a known mean."""
    rng = np.random.default_rng(seeds)
    hits = 0
    for scores in rng.normal(0.7, 0.1, (4000, seeds)).tolist():
        found = stats.interval(scores)
        hits += found["low"] <= 0.7 <= found["high"]
    print(f"coverage of the 95 % interval over {seeds} seeds: {hits / 4000:.3f}")
    assert 0.93 <= hits / 4000 <= 0.97


@pytest.mark.parametrize(("datasets", "between"), [(1, 0.0), (2, 0.0), (4, 0.05), (6, 0.05), (6, 0.0)])
def test_hierarchical_intervals_cover_other_datasets_too(datasets: int, between: float) -> None:
    """AUDIT M18: methods that differ by dataset, five seeds each; the truth is the mean over all datasets.

    Where datasets do not differ, drawing both them and seeds counts the seeds' noise twice: too wide.
    """
    rng, times, hits, wrong = np.random.default_rng(datasets), 400, 0, 0
    for _ in range(times):
        means = rng.normal(0.0, between, datasets) if datasets >= stats.LEAST else np.zeros(datasets)
        found = stats.hierarchical(rng.normal(means[:, None], 0.05, (datasets, 5)).tolist(), draws=500)
        hits += found["low"] <= 0 <= found["high"]
        wrong += max(found["better"], found["worse"]) > 0.95
    print(f"{datasets} datasets, spread {between}: coverage {hits / times:.3f}, wrong {wrong / times:.3f}")
    assert hits / times >= 0.92
    assert wrong / times <= 0.08


def test_probabilities_of_practical_equivalence() -> None:
    rng = np.random.default_rng(0)
    clear, none = (rng.normal(mean, 0.002, (6, 5)).tolist() for mean in (0.05, 0.0))
    assert stats.hierarchical(clear)["better"] == 1
    assert stats.hierarchical(none)["equal"] == 1
    assert stats.hierarchical([[-d for d in g] for g in clear])["worse"] == 1
    found = stats.hierarchical(rng.normal(0.01, 0.03, (6, 5)).tolist())
    assert found["better"] + found["equal"] + found["worse"] == pytest.approx(1)
    # The same scores in percent, with the region in percent.
    percent = stats.hierarchical([[100 * d for d in g] for g in clear], equal=1.0)
    assert percent["low"] == pytest.approx(100 * stats.hierarchical(clear)["low"])


def test_compare_pairs_by_dataset_and_seed() -> None:
    scores = {
        "erm": {"x": {1: 0.5, 2: 0.6, 3: 0.7, 4: 0.1}, "y": {1: 0.2, 2: 0.2, 3: 0.2}, "z": {1: 0.1, 2: 0.1}},
        "ours": {"x": {1: 0.6, 2: 0.8, 3: 0.7}, "y": {3: 0.1, 2: 0.1, 1: 0.1}, "z": {1: 0.9, 2: 0.9}},
        "same": {"x": {1: 0.5, 2: 0.6, 3: 0.7}},
    }
    pairs = [("erm", "erm"), ("ours", "erm"), ("same", "erm"), ("absent", "erm")]
    ours, same = stats.compare(scores, pairs)
    assert (ours.method, ours.against, ours.pairs, ours.datasets) == ("ours", "erm", 6, 2)  # z: too few seeds
    assert ours.verdict["difference"] == pytest.approx((0.1 - 0.1) / 2)
    assert ours.floor == pytest.approx(2 * 2 / 2**6)
    assert same.verdict["difference"] == 0
    assert same.p == 1.0
    # From three datasets on, datasets are tested: six of them and ten tests cannot get below 0.31.
    many = {
        m: {str(d): dict.fromkeys((1, 2, 3), v + d) for d in range(6)} for m, v in (("a", 0.0), ("b", 1.0))
    }
    found = stats.compare(many, [("b", "a")] * 10)
    assert found[0].p == pytest.approx(found[0].floor) == pytest.approx(10 / 32)


def test_seeds_are_paired() -> None:
    """A hard seed is hard for both: what is common to both cancels, in the interval as in the mean."""
    hard = {1: 0.0, 2: 0.3, 3: -0.2, 4: 0.1}
    scores = {
        m: {d: {s: v + more for s, v in hard.items()} for d in "xy"} for m, more in (("a", 0.0), ("b", 0.05))
    }
    scores["b"] = {d: dict(reversed(found.items())) for d, found in scores["b"].items()}  # in any order
    (found,) = stats.compare(scores, [("b", "a")])
    assert found.verdict["low"] == pytest.approx(0.05)
    assert found.verdict["high"] == pytest.approx(0.05)


def test_a_dataset_with_more_seeds_weighs_no_more() -> None:
    found = stats.hierarchical([[0.2] * 3, [0.0] * 12])
    assert [found[key] for key in ("difference", "low", "high")] == pytest.approx([0.1] * 3)


def test_two_datasets_have_the_freedom_of_all_their_seeds() -> None:
    """Fixed datasets of five seeds each: a spread known with 2 x 4 degrees of freedom."""
    group = [-2.0, -1.0, 0.0, 1.0, 2.0]
    found = stats.hierarchical([group, group])
    half = student.ppf(0.975, 8) * np.std(group, ddof=1) / sqrt(2 * 5)
    assert (found["high"] - found["low"]) / 2 == pytest.approx(half, rel=0.06)


def test_one_point_is_no_difference() -> None:
    for difference, said in ((0.0099, "equal"), (0.0101, "better"), (-0.0099, "equal"), (-0.0101, "worse")):
        assert stats.judge(difference, np.full(50, difference))[said] == 1


def test_no_p_value_is_below_its_floor_and_each_floor_is_reached() -> None:
    """Holm multiplies the smallest p most: what a pair on few datasets can reach depends on the others."""
    shared = {"erm": 8, "few": 3, "some": 5, "many": 8}
    scores = {
        m: {str(d): dict.fromkeys((1, 2, 3), (m != "erm") * (1.0 + 0.1 * d)) for d in range(n)}
        for m, n in shared.items()
    }
    found = stats.compare(scores, [(m, "erm") for m in ("few", "some", "many")])
    # All differences have one sign: 1 x 0.25, 2 x 0.0625, 3 x 0.0078.
    assert [c.floor for c in found] == pytest.approx([1 / 4, 2 / 16, 3 / 128])
    assert [c.p for c in found] == pytest.approx([c.floor for c in found])


def test_there_is_one_correction_and_one_bootstrap() -> None:
    """AUDIT C11: others use these functions instead of their own."""
    source = Path(stats.__file__).parents[1]
    own = re.compile(r"multipletests|len\(\w+\) - (rank|step|place)\b|np\.quantile\(draws")
    found = [f for f in source.rglob("*.py") if own.search(f.read_text()) and f != Path(stats.__file__)]
    assert found == []


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
    assert stats.critical_difference({}) is None  # a study of ours has no numbers of the paper's
