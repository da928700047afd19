"""All statistics of the library: intervals, comparisons, corrected tests and ranks.

Tables, figures, the advice of `ciga fit` and the data check use these functions. Scores are repeated over
seeds, and seeds over datasets. Below `LEAST` seeds nothing has an interval, a rank or a winner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

#: Two-sided confidence of every interval.
CONFIDENCE = 0.95
#: Fewer seeds (or datasets) than this say nothing about how much they vary.
LEAST = 3
#: One point: two scores that differ by less are equal for all practical purposes.
EQUAL = 0.01
#: Bootstrap samples of a comparison.
DRAWS = 4000

Floats = NDArray[np.float64]


#: mean, low, high, std and n (the number of seeds); low and high are NaN where there are too few seeds.
Interval = dict[str, float]


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation (ddof 1; None for a single value) over seeds."""
    return fmean(values), stdev(values) if len(values) > 1 else None


@cache
def _student(freedom: int, level: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's t."""
    from scipy.stats import t

    return float(t.ppf((1 + level) / 2, freedom))


def interval(
    values: Sequence[float],
    bounds: tuple[float, float] = (-math.inf, math.inf),
    level: float = CONFIDENCE,
    overlap: float = 0.0,
) -> Interval:
    """Mean over seeds with Student's t interval; no interval below `LEAST` seeds. NaN values are left out.

    Args:
        values: One for each seed (or split).
        bounds: The ends of the metric's range: an interval does not leave it.
        level: The confidence.
        overlap: Test rows over training rows, for values over splits of one table: they share rows, and the
            variance of their mean is that much larger (Nadeau and Bengio, 2003).
    """
    known = [v for v in values if not math.isnan(v)]
    n = len(known)
    if not n:
        return {"mean": math.nan, "low": math.nan, "high": math.nan, "std": math.nan, "n": 0}
    mean, std = spread(known)
    if n < LEAST or std is None:
        return {
            "mean": mean,
            "low": math.nan,
            "high": math.nan,
            "std": math.nan if std is None else std,
            "n": n,
        }
    half = _student(n - 1, level) * std * math.sqrt(1 / n + overlap)
    low, high = max(mean - half, bounds[0]), min(mean + half, bounds[1])
    return {"mean": mean, "low": low, "high": high, "std": std, "n": n}


# ---------------------------------------------------------------- differences


class Verdict(TypedDict):
    """A difference with its interval, and how likely it is to be better, equal or worse by a margin."""

    difference: float
    low: float
    high: float
    better: float
    equal: float
    worse: float


def judge(difference: float, draws: Floats, equal: float = EQUAL) -> Verdict:
    """An interval and three probabilities from `draws` of a difference; all NaN where there is none.

    Differences up to `equal` count as none: the region of practical equivalence. Positive is better.
    """
    known = draws[~np.isnan(draws)]
    if not len(known) or math.isnan(difference):
        known = np.array([math.nan])
        better = worse = math.nan
    else:
        better, worse = float((known > equal).mean()), float((known < -equal).mean())
    low, high = (float(q) for q in np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    same = 1 - better - worse
    return {
        "difference": difference,
        "low": low,
        "high": high,
        "better": better,
        "equal": same,
        "worse": worse,
    }


def widened(centre: float, draws: Floats, units: int, freedom: int | None = None) -> Floats:
    """Bootstrap draws as wide as Student's t would have them; NaN below `LEAST` units.

    Drawn from n units, they have (n - 1)/n of the variance and the tails of a normal: a "95 %" interval of
    five units covers 87 %.

    Args:
        centre: The value that the draws scatter around.
        draws: Of the bootstrap.
        units: The number of units drawn from.
        freedom: The degrees of freedom of the spread, if they are not `units` - 1.
    """
    if units < LEAST:
        return np.full(len(draws), math.nan)
    normal = 1.959963984540054  # its quantile at 95 %, two-sided
    factor = math.sqrt(units / (units - 1)) * _student(units - 1 if freedom is None else freedom) / normal
    return centre + factor * (draws - centre)


def bootstrap(draw: Callable[[np.random.Generator], float | Floats], times: int = 1, seed: int = 0) -> Floats:
    """The results of `times` calls of `draw`: each is one sample of a statistic, or an array of them."""
    rng = np.random.default_rng(seed)
    return np.concatenate([np.atleast_1d(np.asarray(draw(rng), dtype=float)) for _ in range(times)])


def hierarchical(
    groups: Sequence[Sequence[float]], equal: float = EQUAL, draws: int = DRAWS, overlap: float = 0.0
) -> Verdict:
    """The mean over datasets of paired differences, judged by drawing datasets anew, then seeds within each.

    Drawing datasets asks whether the difference would hold on other datasets of this kind. Fewer than `LEAST`
    datasets cannot answer that: then they are fixed, only seeds are drawn, and the verdict is about these
    datasets alone.

    Args:
        groups: for each dataset the differences over seeds.
        equal: the region of practical equivalence, in the units of the scores.
        draws: bootstrap samples.
        overlap: test rows over training rows, where the groups are splits of one table (see `interval`).
    """
    count, sizes = len(groups), np.array([len(g) for g in groups])
    longest = int(sizes.max())
    table: Floats = np.zeros((count, longest))
    for row, group in zip(table, groups, strict=True):
        row[: len(group)] = group

    def draw(rng: np.random.Generator) -> Floats:
        shape = (draws, count)
        fixed = np.broadcast_to(np.arange(count), shape)
        chosen = rng.integers(0, count, shape) if count >= LEAST else fixed
        n = sizes[chosen]
        seeds = (rng.random((*shape, longest)) * n[..., None]).astype(int)
        found = table[chosen[..., None], seeds] * (np.arange(longest) < n[..., None])
        return np.asarray((found.sum(-1) / n).mean(-1))

    centre = fmean(fmean(g) for g in groups)
    sample = bootstrap(draw)
    if count >= LEAST:
        wide = widened(centre, sample, count)
        return judge(centre, centre + math.sqrt(1 + count * overlap) * (wide - centre), equal)
    return judge(centre, widened(centre, sample, int(sizes.min()), int((sizes - 1).sum())), equal)


@dataclass(frozen=True)
class Comparison:
    """One method against another, over everything that both have been run on."""

    method: str
    against: str
    verdict: Verdict
    p: float  # signed-rank test over datasets (over seeds below LEAST datasets), corrected by Holm
    floor: float  # the least that p could have been with these numbers of datasets (or seeds) and tests
    pairs: int
    datasets: int


Scores = Mapping[str, Mapping[str, Mapping[int, float]]]  # method -> dataset -> seed -> score


def compare(scores: Scores, pairs: Sequence[tuple[str, str]], equal: float = EQUAL) -> list[Comparison]:
    """Each (method, other), paired by dataset and seed; p-values are corrected by Holm over all of `pairs`.

    Datasets on which the two share fewer than `LEAST` seeds do not count; without any, neither does the pair.
    """
    found: list[tuple[str, str, list[list[float]]]] = []
    for method, other in pairs:
        groups = []
        for dataset, theirs in scores.get(other, {}).items():
            mine = scores.get(method, {}).get(dataset, {})
            shared = sorted(mine.keys() & theirs.keys())
            if len(shared) >= LEAST:
                groups.append([mine[seed] - theirs[seed] for seed in shared])
        if groups and method != other:
            found.append((method, other, groups))
    units = [[fmean(g) for g in gs] if len(gs) >= LEAST else [d for g in gs for d in g] for *_, gs in found]
    corrected = holm([wilcoxon(u) for u in units])
    least = holm([wilcoxon_floor(len(u)) for u in units])
    return [
        Comparison(
            method,
            other,
            hierarchical(groups, equal),
            p,
            floor,
            sum(map(len, groups)),
            len(groups),
        )
        for (method, other, groups), p, floor in zip(found, corrected, least, strict=True)
    ]


# ---------------------------------------------------------------- tests and ranks


def wilcoxon(differences: Sequence[float]) -> float:
    """Two-sided p-value of the signed-rank test that paired differences are symmetric about 0."""
    from scipy.stats import wilcoxon as test

    if not len(differences) or not np.any(differences):
        return 1.0
    return float(test(differences).pvalue)


def wilcoxon_floor(pairs: int) -> float:
    """The least p-value that so few pairs allow: all differences have one sign."""
    return min(1.0, 2.0 ** (1 - pairs))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the chance that any of these tests errs is at most the level they are held to."""
    order = np.argsort(p_values, kind="stable")
    out, largest, count = [0.0] * len(p_values), 0.0, len(p_values)
    for step, place in enumerate(order):
        largest = max(largest, min(1.0, (count - step) * p_values[place]))
        out[place] = largest
    return out


def ranks(values: Mapping[str, float], lower_is_better: bool = False) -> dict[str, float]:
    """1 for the best; equals share the mean of their ranks."""
    from scipy.stats import rankdata

    sign = 1 if lower_is_better else -1
    found = rankdata([sign * v for v in values.values()])
    return {key: float(rank) for key, rank in zip(values, found, strict=True)}


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
    if len(methods) < 3:
        return None
    shared = [d for d in means[methods[0]] if all(d in m and math.isfinite(m[d]) for m in means.values())]
    if len(shared) < 2:
        return None
    by_dataset = [ranks({m: means[m][d] for m in methods}) for d in shared]
    average = {m: fmean(r[m] for r in by_dataset) for m in methods}
    columns: list[Any] = [[means[m][d] for d in shared] for m in methods]
    k, n = len(methods), len(shared)
    quantile = float(studentized_range.ppf(1 - level, k, np.inf)) / math.sqrt(2)
    return CriticalDifference(
        dict(sorted(average.items(), key=lambda item: item[1])),
        float(friedmanchisquare(*columns).pvalue),
        quantile * math.sqrt(k * (k + 1) / (6 * n)),
        n,
    )
