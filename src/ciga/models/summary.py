"""The summary of a training: intervals over seeds, the comparison with ERM, and one piece of advice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ciga.scoring import metrics, stats
from ciga.scoring.stats import LEAST, Interval, Verdict

#: Bootstrap samples of the test graphs.
RESAMPLES = 400
BINS = 10
RANGES = dict.fromkeys((*metrics.METRICS, "edge_auroc", "precision_at_k"), (0.0, 1.0))
RANGES |= {"mcc": (-1.0, 1.0), "log_loss": (0.0, math.inf)}


def interval(values: Sequence[float], metric: str | None = None) -> Interval:
    """Mean over seeds with Student's t interval, which ends where the metric's range does."""
    return stats.interval(values, RANGES.get(metric or "", (-math.inf, math.inf)))


def compare(mine: Tensor, theirs: Tensor, y: Tensor, metric: str, seed: int = 0) -> Verdict:
    """Difference of two methods' mean scores, judged over seeds *and* graphs; positive is better.

    Seeds alone would leave out the luck of a small test set. Both methods are scored on the same graphs in
    every sample, so what is common to both cancels. Seeds are few, graphs are many: only what comes of the
    seeds is widened to Student's t.

    Args:
        mine: class probabilities [S, n, C] of each seed.
        theirs: the same of the other method [S', n, C].
        y: true classes [n].
        metric: the score to compare.
        seed: of the bootstrap.
    """
    sign = -1.0 if metric in metrics.LOWER_IS_BETTER else 1.0

    def scores(probability: Tensor, rows: Tensor | slice) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([_metric(p[rows], y[rows], metric) for p in probability])

    every = [scores(p, slice(None)) for p in (mine, theirs)]
    centre = sign * float(every[0].mean() - every[1].mean())

    def graphs(rng: np.random.Generator) -> float:
        rows = torch.from_numpy(rng.integers(len(y), size=len(y)))
        return sign * float(scores(mine, rows).mean() - scores(theirs, rows).mean())

    def seeds(rng: np.random.Generator) -> Any:
        drawn = [s[rng.integers(len(s), size=(RESAMPLES, len(s)))].mean(1) for s in every]
        return sign * (drawn[0] - drawn[1])

    fewest, freedom = min(map(len, every)), sum(map(len, every)) - 2
    luck = stats.widened(centre, stats.bootstrap(seeds, seed=seed), fewest, freedom) - centre
    return stats.judge(centre, stats.bootstrap(graphs, RESAMPLES, seed) + luck)


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


def advice(
    method: str, comparison: Verdict | None, seeds: int, where: str, metric: str, extracts: bool = True
) -> str:
    """One plain sentence on whether the method is worth it on this data.

    Args:
        method: its name.
        comparison: what `compare` found against ERM; None if there was nothing to compare.
        seeds: the number of seeds of each.
        where: the part of the data that was scored.
        metric: the score.
        extracts: does the method show subgraphs?
    """
    if comparison is None:
        return (
            f"{method} was not compared with ERM here: its scores do not say whether another method would do."
        )
    if math.isnan(comparison["difference"]):
        return f"{metric} is not defined on {where}, so nothing can be said about {method} against ERM."
    gap = f"{comparison['difference']:+.3f} {metric}"
    if seeds < LEAST:
        count = "one seed does" if seeds == 1 else f"{seeds} seeds do"
        return (
            f"{method} differs from ERM by {gap} on {where}, but {count} not show how much of that is luck: "
            f"fit with --seeds {LEAST} or more before choosing."
        )
    if math.isnan(comparison["low"]):
        return f"{metric} is not defined on {where}, so nothing can be said about {method} against ERM."
    bounds = f"95 % interval {comparison['low']:+.3f} to {comparison['high']:+.3f}"
    if comparison["low"] > 0:
        return f"{method} beats ERM on {where} beyond noise ({gap}, {bounds}): use it."
    if comparison["high"] < 0:
        return (
            f"ERM is better than {method} on {where} beyond noise ({gap}, {bounds}): use --method erm here."
        )
    why = "take it for its subgraphs if they help you, not for its score."
    if not extracts:
        why = "ERM is simpler, so use --method erm, or --method ciga-v2 to see subgraphs."
    return f"{method} does not beat ERM on {where} beyond noise ({gap}, {bounds}): {why}"
