"""The same fit on several splits of one table: does the comparison hold on another cut?

A small table is cut into training and test rows by chance, and the winner often depends on the cut.
`--repeats 5` draws the split five times, trains everything on each, and judges what is shipped over splits
and seeds. The model that is saved is that of the first split, the one the user asked for.

Splits of one table share rows, so their scores are not independent. The spread over splits is widened by the
ratio of test to training rows, as Nadeau and Bengio (2003) derived for repeated hold-out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from ciga.data.dataset import make
from ciga.errors import UsageError
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.models.model import Model
from ciga.models.report_data import AUTO, rule_of, where_judged
from ciga.models.summary import advice_among
from ciga.models.types import RepeatedFits, ReportData
from ciga.scoring import metrics, stats


def split_options(dataset: str, data: Mapping[str, Any], repeats: int) -> list[dict[str, Any]]:
    """The dataset's options for each repeat: they differ in the seed of the split.

    A split without chance (by size, time or a column) has the same test rows every time, and is refused.
    """
    if repeats < 1:
        raise UsageError(f"--repeats {repeats}: it must be 1 or more.")
    if repeats == 1:
        return [dict(data)]
    first = make(dataset, data)
    if not hasattr(first, "seed"):
        raise UsageError(
            f"{dataset} has no seed of its split, so it cannot be repeated: leave --repeats out."
        )
    found = [{**data, "seed": int(first.seed) + i} for i in range(repeats)]
    # Not the whole split: training rows that are held out at random (id_val) differ in any case.
    tested = {_tested(make(dataset, chosen).build()).fingerprint() for chosen in found[:2]}
    if len(tested) < 2:
        rule = str(data.get("split", "") or getattr(first, "split", "")) or "given"
        raise UsageError(
            f"The {rule} split is the same every time: leave --repeats out, or choose a split with chance "
            "in it (--split cluster, similarity, random or group:COLUMN)."
        )
    return found


def _tested(splits: Splits) -> GraphStore:
    """The rows on which methods are judged."""
    return splits[where_judged(splits)]


def fit_repeatedly(
    one: Callable[[Mapping[str, Any]], Model], dataset: str, data: Mapping[str, Any], repeats: int
) -> Model:
    """The model of the first split, whose report data tell what all splits say.

    Args:
        one: Fits on a split that is given by the dataset's options.
        dataset: Its name.
        data: Its options; the seed in them is that of the first split.
        repeats: The number of splits.
    """
    chosen = split_options(dataset, data, repeats)
    model = one(chosen[0])
    if repeats == 1:
        return model
    told = [model.report_data]
    shares = [_overlap(model)]
    for more in chosen[1:]:
        other = one(more)
        told.append(other.report_data)
        shares.append(_overlap(other))
    parts = model.method.extracts and not model.shares
    found = summarise(told, model.metric, len(model.seeds), fmean(shares), parts)
    model.report_data["repeats"] = found
    model.report_data["advice"] = found["advice"]
    return model


def summarise(
    told: Sequence[ReportData], metric: str, seeds: int, overlap: float, extracts: bool = False
) -> RepeatedFits:
    """Scores of every method over splits, and the comparisons of what is shipped with each.

    What is compared is `auto`, or the method that answers on the first split.

    Args:
        told: The report data of each split.
        metric: The score.
        seeds: The number of networks of each method.
        overlap: Test rows over training rows, on average.
        extracts: Is what is shipped a single method that shows subgraphs?
    """
    where = told[0]["where"]
    names = [name for name in told[0]["ensembles"] if all(name in t["ensembles"] for t in told)]
    shipped = names[0]
    sign = -1.0 if metric in metrics.LOWER_IS_BETTER else 1.0
    together = {name: [_number(t["ensembles"][name][where]["mean"]) for t in told] for name in names}
    comparisons = {}
    for name in names[1:]:
        groups = []
        for at, data in enumerate(told):
            gap = sign * (together[shipped][at] - together[name][at])
            if not math.isnan(gap):
                groups.append([gap + noise for noise in _noise(data, shipped, name, where, metric)])
        if groups:
            comparisons[name] = stats.hierarchical(groups, overlap=overlap)
    return {
        "splits": len(told),
        "where": where,
        "shipped": shipped,
        "overlap": overlap,
        "scores": together,
        "intervals": {name: stats.interval(values, overlap=overlap) for name, values in together.items()},
        "comparisons": comparisons,
        "advice": advice_among(
            "the mixture" if shipped == AUTO else shipped,
            comparisons,
            min(len(told), seeds),
            f"{where} of {len(told)} splits",
            metric,
            extracts,
        ),
    }


def _noise(data: ReportData, mine: str, theirs: str, where: str, metric: str) -> list[float]:
    """How single seeds' differences scatter around their mean: averaged, 1/S of that variance is left."""

    def singles(name: str) -> list[float]:
        return [_number(v) for v in data["scores"][name][rule_of(data, name)][where][metric]]

    gaps = [a - b for a, b in zip(singles(mine), singles(theirs), strict=False)]
    known = [g for g in gaps if not math.isnan(g)] or [0.0]
    centre = fmean(known)
    return [g - centre for g in known]


def _overlap(model: Model) -> float:
    """Test rows over training rows of the split a model was fitted on."""
    rows = {part: found["graphs"] for part, found in model.report_data["pictures"].items()}
    tested = rows.get(model.report_data["where"], 0)
    trained = model.report_data["data"]["splits"]["train"]["graphs"]
    return tested / max(trained, 1)


def _number(value: float | None) -> float:
    """A number from plain data, where None stands for what is not one."""
    return math.nan if value is None else float(value)
