"""Are the differences real? Paired tests, their correction, intervals, ranks and critical differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation (ddof 1; None for a single value) over seeds."""
    return fmean(values), stdev(values) if len(values) > 1 else None


def ranks(values: Mapping[str, float], lower_is_better: bool = False) -> dict[str, float]:
    """1 for the best; equals share the mean of their ranks."""
    from scipy.stats import rankdata

    sign = 1 if lower_is_better else -1
    found = rankdata([sign * v for v in values.values()])
    return {key: float(rank) for key, rank in zip(values, found, strict=True)}


def wilcoxon(differences: Sequence[float]) -> float:
    """Two-sided p-value of the signed-rank test that paired differences are symmetric about 0."""
    from scipy.stats import wilcoxon as test

    if not len(differences) or not np.any(differences):
        return 1.0
    return float(test(differences).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the chance that any of these tests errs is at most the level they are held to."""
    order = np.argsort(p_values, kind="stable")
    out, largest, count = [0.0] * len(p_values), 0.0, len(p_values)
    for step, place in enumerate(order):
        largest = max(largest, min(1.0, (count - step) * p_values[place]))
        out[place] = largest
    return out


def bootstrap(
    groups: Sequence[Sequence[float]], level: float = 0.95, draws: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Interval of the mean over datasets of the mean over seeds; seeds are drawn anew within each dataset."""
    rng = np.random.default_rng(seed)
    means: NDArray[np.float64] = np.zeros(draws)
    for group in groups:
        values = np.asarray(group, dtype=float)
        means += values[rng.integers(0, len(values), (draws, len(values)))].mean(1)
    low, high = np.quantile(means / len(groups), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class Comparison:
    """One method against another, over everything both have been run on."""

    method: str
    against: str
    difference: float  # mean over datasets
    low: float
    high: float  # bootstrap interval, 95 %
    p_pairs: float  # Wilcoxon over (dataset, seed) pairs
    p_datasets: float  # Wilcoxon over datasets (means over seeds)
    pairs: int
    datasets: int


Scores = Mapping[str, Mapping[str, Mapping[int, float]]]  # method -> dataset -> seed -> score


def compare(scores: Scores, against: str, methods: Sequence[str]) -> list[Comparison]:
    """Each method against `against`, paired by dataset and seed; p-values corrected by Holm over methods."""
    rows: list[tuple[str, list[list[float]]]] = []
    for method in methods:
        groups = []
        for dataset, theirs in scores.get(against, {}).items():
            mine = scores.get(method, {}).get(dataset, {})
            shared = sorted(mine.keys() & theirs.keys())
            if shared:
                groups.append([mine[seed] - theirs[seed] for seed in shared])
        if groups and method != against:
            rows.append((method, groups))
    pairs = holm([wilcoxon([d for g in groups for d in g]) for _, groups in rows])
    datasets = holm([wilcoxon([fmean(g) for g in groups]) for _, groups in rows])
    out = []
    for (method, groups), p_pairs, p_datasets in zip(rows, pairs, datasets, strict=True):
        low, high = bootstrap(groups)
        count = sum(map(len, groups))
        centre = fmean(fmean(g) for g in groups)
        out.append(Comparison(method, against, centre, low, high, p_pairs, p_datasets, count, len(groups)))
    return out


@dataclass(frozen=True)
class CriticalDifference:
    """Average ranks over datasets, the Friedman test that all are equal, and Nemenyi's least difference."""

    ranks: dict[str, float]  # best first
    p: float
    difference: float
    datasets: int

    def cliques(self) -> list[tuple[str, ...]]:
        """The largest sets of neighbours that the data cannot tell apart, of at least two."""
        names, found = list(self.ranks), list[tuple[str, ...]]()
        for start, first in enumerate(names):
            members = [n for n in names[start:] if self.ranks[n] - self.ranks[first] <= self.difference]
            if len(members) > 1 and not (found and set(members) <= set(found[-1])):
                found.append(tuple(members))
        return found


def critical_difference(
    means: Mapping[str, Mapping[str, float]], level: float = 0.05
) -> CriticalDifference | None:
    """From method -> dataset -> mean score (more is better); over the datasets that every method has.

    None where nothing can be said: fewer than two datasets, or fewer than three methods.
    """
    from scipy.stats import friedmanchisquare, studentized_range

    methods = list(means)
    shared = [d for d in means[methods[0]] if all(d in m and isfinite(m[d]) for m in means.values())]
    if len(shared) < 2 or len(methods) < 3:
        return None
    by_dataset = [ranks({m: means[m][d] for m in methods}) for d in shared]
    average = {m: fmean(r[m] for r in by_dataset) for m in methods}
    columns: list[Any] = [[means[m][d] for d in shared] for m in methods]
    k, n = len(methods), len(shared)
    quantile = float(studentized_range.ppf(1 - level, k, np.inf)) / sqrt(2)
    return CriticalDifference(
        dict(sorted(average.items(), key=lambda item: item[1])),
        float(friedmanchisquare(*columns).pvalue),
        quantile * sqrt(k * (k + 1) / (6 * n)),
        n,
    )
