"""The summary of a training: scores with intervals, the comparison of what is shipped, and one advice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ciga.scoring import metrics, stats
from ciga.scoring.stats import LEAST, Interval, Verdict

#: Bootstrap samples of the test graphs.
RESAMPLES = 400
BINS = 10
#: Where to go from a method that does not win.
MIX = "--method auto mixes several methods."
NEXT = f"ERM is saved, too (--member erm); {MIX}"
RANGES = dict.fromkeys((*metrics.METRICS, "edge_auroc", "precision_at_k"), (0.0, 1.0))
RANGES |= {"mcc": (-1.0, 1.0), "log_loss": (0.0, math.inf)}


def interval(values: Sequence[float], metric: str | None = None) -> Interval:
    """Mean over seeds with Student's t interval, which ends where the metric's range does."""
    return stats.interval(values, RANGES.get(metric or "", (-math.inf, math.inf)))


def ensemble_score(every: Tensor, y: Tensor, metric: str, resamples: int = RESAMPLES) -> Interval:
    """The score of the mean of all seeds' probabilities [S, n, C], with a bootstrap interval over graphs.

    Args:
        every: The probabilities of each seed [S, n, C].
        y: The true classes [n].
        metric: The name of the score.
        resamples: The number of bootstrap draws; 0 for no interval.
    """
    mean = every.mean(0)
    if not resamples:
        return {"mean": score(mean, y, metric), "low": math.nan, "high": math.nan, "n": float(len(every))}

    def graphs(rng: np.random.Generator) -> float:
        rows = torch.from_numpy(rng.integers(len(y), size=len(y)))
        return score(mean[rows], y[rows], metric)

    value = score(mean, y, metric)
    found = stats.judge(value, stats.bootstrap(graphs, resamples))
    return {"mean": value, "low": found["low"], "high": found["high"], "n": float(len(every))}


def compare(mine: Tensor, theirs: Tensor, y: Tensor, metric: str, seed: int = 0) -> Verdict:
    """Difference of two ensembles' scores, judged over seeds *and* graphs; positive is better.

    An ensemble is the mean of its seeds' probabilities: that is what a model answers with. Seeds alone would
    leave out the luck of a small test set. Both are scored on the same graphs in every sample, so what is
    common to both cancels. Seeds are few, graphs are many: only what comes of the seeds is widened to
    Student's t.

    Args:
        mine: class probabilities [S, n, C] of each seed.
        theirs: the same of the other method [S', n, C].
        y: true classes [n].
        metric: the score to compare.
        seed: of the bootstrap.
    """
    sign = -1.0 if metric in metrics.LOWER_IS_BETTER else 1.0
    both, means = (mine, theirs), (mine.mean(0), theirs.mean(0))

    def gap(one: float, other: float) -> float:
        return sign * (one - other)

    def graphs(rng: np.random.Generator) -> float:
        rows = torch.from_numpy(rng.integers(len(y), size=len(y)))
        return gap(*(score(mean[rows], y[rows], metric) for mean in means))

    known: dict[tuple[int, ...], float] = {}  # few seeds make few ensembles: each is scored once

    def drawn(which: int, rng: np.random.Generator) -> float:
        size = len(both[which])
        chosen = tuple(sorted(rng.integers(size, size=size).tolist()))
        if (which, *chosen) not in known:
            known[which, *chosen] = score(both[which][list(chosen)].mean(0), y, metric)
        return known[which, *chosen]

    def seeds(rng: np.random.Generator) -> float:
        return gap(drawn(0, rng), drawn(1, rng))

    centre = gap(*(score(mean, y, metric) for mean in means))
    fewest, freedom = min(map(len, both)), sum(map(len, both)) - 2
    # Ensembles drawn with repetition have fewer different members and score less: only their spread counts.
    luck = stats.bootstrap(seeds, RESAMPLES, seed)
    luck = stats.widened(0.0, luck - luck.mean(), fewest, freedom)
    return stats.judge(centre, stats.bootstrap(graphs, RESAMPLES, seed) + luck)


def score(probability: Tensor, y: Tensor, name: str) -> float:
    """A metric of class probabilities [n, C] against true classes [n]."""
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
            f"ERM is better than {method} on {where} beyond noise ({gap}, {bounds}): use it "
            f"(--member erm). {NEXT}"
        )
    why = "take it for its subgraphs if they help you, not for its score. "
    if not extracts:
        why = "ERM is simpler. "
    return f"{method} does not beat ERM on {where} beyond noise ({gap}, {bounds}): {why}{NEXT}"


def beyond(rivals: int) -> float:
    """From which probability on the best of several rivals is better beyond noise (Bonferroni's rule)."""
    return 1 - (1 - stats.CONFIDENCE) / 2 / rivals


def advice_among(
    shipped: str,
    comparisons: Mapping[str, Verdict],
    seeds: int,
    where: str,
    metric: str,
    extracts: bool = False,
) -> str:
    """One plain sentence on whether to use what is shipped or another method that was trained beside it.

    Another one is only recommended if it is better by more than `stats.EQUAL` beyond noise, and noise allows
    for the number of methods that were tried.

    Args:
        shipped: what answers: a method, or "the mixture".
        comparisons: of what is shipped with each of the methods.
        seeds: the number of seeds of each.
        where: the part of the data that was scored.
        metric: the score.
        extracts: is it a single method that shows subgraphs?
    """
    if not comparisons:
        return f"Nothing was trained beside {shipped}: its scores do not say whether another method would do."
    known = {name: v for name, v in comparisons.items() if not math.isnan(v["difference"])}
    title = shipped[:1].upper() + shipped[1:] if " " in shipped else shipped
    if not known:
        return (
            f"{metric} is not defined on {where} (its rows may all be of one class), so nothing can be said "
            f"about {shipped}: try another split."
        )
    rival, best = min(known.items(), key=lambda item: item[1]["difference"])
    gap = f"{best['difference']:+.3f} {metric}"
    if seeds < LEAST or math.isnan(best["low"]):
        return (
            f"{title} differs from {rival}, the best of the others on {where}, by {gap}: fit with "
            f"--seeds {LEAST} or more to see how much of that is luck."
        )
    gap = f"{gap}, 95 % interval {best['low']:+.3f} to {best['high']:+.3f}"
    if best["worse"] >= beyond(len(known)):
        return f"{rival} is better than {shipped} on {where} beyond noise ({gap}): use --member {rival}."
    beaten = [name for name, v in known.items() if v["low"] > 0]
    if len(beaten) == len(known):
        return f"{title} beats {', '.join(known)} on {where} beyond noise (by the least {gap}): use it."
    also = f" It beats {', '.join(beaten)} beyond noise." if beaten else ""
    use = f"use {shipped}.{also}"
    if extracts:
        use = f"take {shipped} for its subgraphs if they help you, not for its score.{also} {MIX}"
    return f"{title} and {rival} are equal within noise on {where} ({gap}): {use}"


def choice(
    names: Sequence[str], scores: dict[str, float], rows: int, metric: str, shares: dict[str, float]
) -> str:
    """One line: what the answer is made of, and why.

    Args:
        names: of all methods that were trained, the chosen one first.
        scores: of each method's ensemble on the validation rows.
        rows: the number of validation rows.
        metric: the score.
        shares: of the methods in the answer; none: the first one answers alone.
    """
    told = ", ".join(f"{name} {scores[name]:.3f}" for name in sorted(scores, key=lambda n: -scores[n]))
    if shares:
        order = sorted(shares.items(), key=lambda item: -item[1])
        parts = ", ".join(f"{name} {100 * share:.0f} %" for name, share in order)
        if not rows:
            return f"The answer is made of {parts}: equal shares, because there are no validation rows."
        return (
            f"The answer is made of {parts}: the shares under which the labels of {rows:,} validation rows "
            f"are likeliest ({metric} there: {told})."
        )
    if not rows:
        return f"The answer is that of {names[0]}, which was named first: there are no validation rows."
    return f"The answer is that of {names[0]}, the best on {rows:,} validation rows ({metric} there: {told})."
