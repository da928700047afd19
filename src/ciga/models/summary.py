"""What came out of training, in numbers to weigh: intervals, a fair comparison, one piece of advice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ciga.scoring import metrics

#: Two-sided confidence of every interval.
CONFIDENCE = 0.95
RESAMPLES = 400
BINS = 10
RANGES = dict.fromkeys((*metrics.METRICS, "edge_auroc", "precision_at_k"), (0.0, 1.0))
RANGES |= {"mcc": (-1.0, 1.0), "log_loss": (0.0, math.inf)}


def interval(values: Sequence[float], metric: str | None = None) -> dict[str, float]:
    """Mean over seeds and Student's t interval around it; the bounds are NaN for fewer than two seeds.

    With the metric's name, an interval ends where the metric's range does.
    """
    from scipy.stats import t

    known = np.array([v for v in values if not math.isnan(v)], dtype=float)
    if not len(known):
        return {"mean": math.nan, "low": math.nan, "high": math.nan, "std": math.nan, "n": 0}
    mean, n = float(known.mean()), len(known)
    if n < 2:
        return {"mean": mean, "low": math.nan, "high": math.nan, "std": math.nan, "n": n}
    std = float(known.std(ddof=1))
    half = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * std / math.sqrt(n)
    least, most = RANGES.get(metric or "", (-math.inf, math.inf))
    low, high = max(mean - half, least), min(mean + half, most)
    return {"mean": mean, "low": low, "high": high, "std": std, "n": n}


def compare(mine: Tensor, theirs: Tensor, y: Tensor, metric: str, seed: int = 0) -> dict[str, float]:
    """Difference of two methods' mean scores, with a bootstrap interval over seeds *and* graphs.

    Seeds alone would leave out the luck of a small test set. Both methods are scored on the same graphs in
    every resample, so what is common to both cancels.

    Args:
        mine, theirs: class probabilities [S, n, C] of each seed.
    """
    rng = np.random.default_rng(seed)
    low_is_good = metric in metrics.LOWER_IS_BETTER

    def score(probability: Tensor, seeds: Sequence[int], rows: Tensor) -> float:
        every = [_metric(probability[s, rows], y[rows], metric) for s in seeds]
        return float(np.mean(every))

    all_rows = torch.arange(len(y))
    difference = score(mine, range(len(mine)), all_rows) - score(theirs, range(len(theirs)), all_rows)
    draws = []
    for _ in range(RESAMPLES):
        rows = torch.from_numpy(rng.integers(len(y), size=len(y)))
        picks = [rng.integers(len(p), size=len(p)).tolist() for p in (mine, theirs)]
        draws.append(score(mine, picks[0], rows) - score(theirs, picks[1], rows))
    draws = [d for d in draws if not math.isnan(d)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws, [tail, 1 - tail]) if draws else (math.nan, math.nan)
    sign = -1 if low_is_good else 1
    bounds = sorted((sign * float(low), sign * float(high)))
    return {"difference": sign * difference, "low": bounds[0], "high": bounds[1]}


def _metric(probability: Tensor, y: Tensor, name: str) -> float:
    if name == "accuracy":
        return float((probability.argmax(1) == y).double().mean())
    if name == "roc_auc":
        return metrics.roc_auc(probability.double(), y)
    if name == "mcc":
        return metrics.mcc(metrics.confusion(probability.argmax(1), y, probability.size(1)))
    if name == "log_loss":
        return float(-probability.gather(1, y[:, None]).clamp(min=1e-12).log().mean())
    return metrics.classification(probability.double().clamp(min=1e-12).log(), y)[name]


def plots(probability: Tensor, y: Tensor) -> dict[str, Any]:
    """Confusion table [true, predicted] and reliability bins of predictions [n, C]."""
    confidence, predicted = probability.max(1)
    place = (confidence * BINS).long().clamp(max=BINS - 1)
    right = (predicted == y).double()
    count = torch.bincount(place, minlength=BINS)
    sums = [
        torch.zeros(BINS, dtype=torch.double).index_add_(0, place, v.double()) for v in (confidence, right)
    ]
    bins = [
        {"count": n, "confidence": c / n, "accuracy": a / n}
        for n, c, a in zip(count.tolist(), *(s.tolist() for s in sums), strict=True)
        if n
    ]
    table = metrics.confusion(predicted, y, probability.size(1)).long().tolist()
    return {"confusion": table, "reliability": bins, "graphs": len(y)}


def advice(method: str, comparison: dict[str, float] | None, seeds: int, where: str, metric: str) -> str:
    """One plain sentence on whether the method is worth it on this data."""
    if comparison is None:
        return (
            f"{method} was not compared with ERM here: its scores do not say whether another method would do."
        )
    if math.isnan(comparison["low"]):
        return f"{metric} is not defined on {where}, so nothing can be said about {method} against ERM."
    gap = f"{comparison['difference']:+.3f} {metric}"
    bounds = f"95 % interval {comparison['low']:+.3f} to {comparison['high']:+.3f}"
    if seeds < 2:
        return (
            f"{method} differs from ERM by {gap} on {where} ({bounds}), but one seed does not show how much "
            "of that is luck: fit with --seeds 3 or more before choosing."
        )
    if comparison["low"] > 0:
        return f"{method} beats ERM on {where} beyond noise ({gap}, {bounds}): use it."
    if comparison["high"] < 0:
        return (
            f"ERM is better than {method} on {where} beyond noise ({gap}, {bounds}): use --method erm here."
        )
    return (
        f"{method} does not beat ERM on {where} beyond noise ({gap}, {bounds}): take it for its subgraphs if "
        "they help you, not for its score."
    )
