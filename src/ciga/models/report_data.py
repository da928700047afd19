"""What a fit leaves for the report and the summary: scores, comparisons, curves, as plain values."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ciga.data.check.report import check
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.models.model import Model
from ciga.models.shift import MEASURES
from ciga.models.summary import RESAMPLES, advice, advice_among, compare, ensemble_score, plots, score
from ciga.models.types import ReportData
from ciga.scoring import metrics

#: The plain network that every method has to beat.
YARDSTICK = "erm"
#: The method that mixes several.
AUTO = "auto"


def report_data(
    model: Model,
    splits: Splits,
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    scans: Mapping[str, Mapping[str, Tensor]] | None = None,
) -> ReportData:
    """What the report and the summary show of training: plain values, ready for JSON.

    Args:
        model: with its rivals.
        splits: the data.
        runs: the records of each method.
        scans: what each method says of each part, if it is known already.
    """
    metric, mine = splits.task.metric, AUTO if model.shares else model.method_name
    if scans is None:
        each = {model.method_name: model.only(model.method_name), **model.rivals}
        scans = {name: scan_parts(one, splits) for name, one in each.items()}
    parts = list(scans[model.method_name])
    where = where_judged(splits)
    every = {part: {name: scan[part] for name, scan in scans.items()} for part in parts}
    if model.shares:
        for part, said in every.items():
            mixed = sum((share * said[name] for name, share in model.shares.items()), torch.zeros(()))
            every[part] = {AUTO: mixed, **said}
    # A mixture of one method alone is that method.
    others = [name for name in every[where] if name != mine and model.shares.get(name) != 1]
    y = splits[where].y
    compared = {name: compare(every[where][mine], every[where][name], y, metric) for name in others}
    comparison = compared.get(YARDSTICK)
    seeds = len(model.seeds)
    told: dict[str, Any] = {
        **outline(runs, metric, model.selection),
        "pictures": {part: plots(said[mine].mean(0), splits[part].y) for part, said in every.items()},
        "flagged": {part: _flagged(model, splits[part]) for part in parts},
        "where": where,
        "comparison": comparison,
        "comparisons": compared,
        "ensembles": {
            name: {
                part: ensemble_score(every[part][name], splits[part].y, metric, RESAMPLES * (part == where))
                for part in parts
            }
            for name in sorted(every[where], key=lambda name: name != mine)
        },
        "calibration": {
            name: {part: score(said[name].mean(0), splits[part].y, "ece") for part, said in every.items()}
            for name in every[where]
        },
        "advice": advice_among(
            "the mixture" if model.shares else mine,
            compared,
            seeds,
            where,
            metric,
            model.method.extracts and not model.shares,
        )
        if compared.keys() - {YARDSTICK} or model.shares
        else advice(mine, comparison, seeds, where, metric, model.method.extracts),
        "caveats": {
            name: sentence
            for name, one in {model.method_name: model, **model.rivals}.items()
            if (sentence := one.method.caveat(one.members[0], splits.train))
        },
        "data": check(splits).as_dict(),
        "finished": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }
    if model.shares:
        alone = {part: [_classified(p, splits[part].y) for p in said[AUTO]] for part, said in every.items()}
        mixed_scores = {p: {k: [one[k] for one in some] for k in some[0]} for p, some in alone.items()}
        told["scores"] = {AUTO: {model.selection: {**mixed_scores, "epoch": []}}, **told["scores"]}
        told["rules"] = {AUTO: model.selection, **told["rules"]}
    told["data"]["rejected"] = len(told["data"]["rejected"])  # the rows stay with the data
    plain: ReportData = _plain(told)
    return plain


def where_judged(splits: Splits) -> str:
    """The part on which methods are compared."""
    return next(name for name in ("ood_test", "id_test", "ood_val", "id_val", "train") if name in splits)


def _classified(probability: Tensor, y: Tensor) -> dict[str, float]:
    return metrics.classification(probability.clamp(min=1e-12).log(), y)


def outline(runs: Mapping[str, Sequence[Mapping[str, Any]]], metric: str, selection: str) -> ReportData:
    """Scores and learning curves of each method's runs: the least that report data has."""
    found: ReportData = _plain(
        {
            "metric": metric,
            "selection": selection,
            "rules": {name: some[0].get("selection", selection) for name, some in runs.items()},
            "scores": {name: _scores(records) for name, records in runs.items()},
            "histories": {
                name: [_short(r.get("history", ()), metric) for r in some] for name, some in runs.items()
            },
            "seconds": {name: [r["seconds"] for r in records] for name, records in runs.items()},
            "hashes": {name: [r["hash"] for r in some] for name, some in runs.items() if "hash" in some[0]},
            "closed_features": _closed(runs),
        }
    )
    return found


def scan_parts(model: Model, splits: Splits, parts: Sequence[str] = ()) -> dict[str, Tensor]:
    """Each seed's probabilities [S, n, C] on these parts; else on all but train, or on train alone."""
    parts = parts or [name for name in splits if name != "train"] or ["train"]
    return {
        name: torch.cat([model.predict(b).every for b in splits[name].batches(256, chunk=4)], 1)
        for name in parts
    }


def _flagged(model: Model, store: GraphStore) -> dict[str, float]:
    """How much of the data the gauge flags, in all and by measure; and the median similarity to training."""
    if model.gauge is None:
        return {}
    found = [model.gauge.measure(b, model.embed(b), store) for b in store.batches(256, chunk=4)]
    above = torch.cat([shift.ratio for shift in found]) > 1
    out = {"any": float(above.any(1).double().mean())}
    out |= {name: float(column.double().mean()) for name, column in zip(MEASURES, above.T, strict=False)}
    alike = [shift.nearest.similarity for shift in found if shift.nearest is not None]
    return out | ({"nearest": float(torch.cat(alike).median())} if alike else {})


def _scores(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """selector -> split -> metric -> one value for each seed."""
    out: dict[str, Any] = {}
    for selector in records[0]["selected"]:
        mine = [r["selected"][selector] for r in records]
        out[selector] = {
            split: {metric: [m[split][metric] for m in mine] for metric in mine[0][split]}
            for split in mine[0]
            if split not in ("epoch", "selector")
        }
        chosen = [m["epoch"] for m in mine]
        out[selector]["epoch"] = [e for c in chosen for e in (c if isinstance(c, list) else [c])]
    return out


def _closed(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[int]]:
    """Of the methods with gates: the columns of x behind a closed gate in every run."""
    lists = {name: [r.get("closed_features") for r in some] for name, some in runs.items()}
    return {
        name: sorted(set.intersection(*(set(columns or ()) for columns in found)))
        for name, found in lists.items()
        if None not in found
    }


def _short(history: Sequence[Mapping[str, Any]], metric: str) -> list[dict[str, Any]]:
    """The learning curves: loss terms, and the metric of each split."""
    return [
        {
            "epoch": row["epoch"],
            "terms": row["terms"],
            "metrics": {split: {metric: m[metric]} for split, m in row["metrics"].items()},
        }
        for row in history
    ]


def _plain(value: Any) -> Any:
    """The same with floats of six digits and None for what is not a number: small, and valid JSON."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else value.item()


def rule_of(report_data: ReportData, method: str) -> str:
    """The rule that chose the epochs of a method's runs: a rival may have another one than the model."""
    rule: str = report_data.get("rules", {}).get(method, report_data["selection"])
    return rule
