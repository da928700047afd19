"""The sections of a model's report, from the record of its training: plain values for the template."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from ciga.explain import svg
from ciga.explain.examine import Examined
from ciga.explain.molecules import draw_fragment
from ciga.explain.render import known, spread
from ciga.explain.words import PARTS, SELECTORS, Words, method_name, metric_name
from ciga.models.model import Model
from ciga.models.report_data import rule_of
from ciga.models.summary import interval
from ciga.models.types import ReportData
from ciga.scoring.stats import CONFIDENCE, LEAST

#: Rows of the table of shifts, and pieces of each class that are shown without a click.
SHIFTS, PIECES = 12, 4


def data_section(model: Model, report_data: ReportData, words: Words) -> dict[str, Any]:
    """The parts of the data, the largest differences from training, and warnings."""
    found = report_data.get("data")
    if not found:
        return {}
    # A bond is stored as two directed edges.
    both = 2 if words.named else 1
    rows = []
    for part, stats in found["splits"].items():
        counts = stats["class_counts"]
        total = sum(counts.values()) or 1
        rows.append(
            {
                "part": part,
                "name": words.part(part),
                "graphs": stats["graphs"],
                "nodes": stats["nodes_mean"],
                "edges": stats["edges_mean"] / both,
                "classes": [(model.names[int(c)], n / total) for c, n in counts.items()],
                "flagged": report_data["flagged"].get(part, {}),
            }
        )
    shifts = []
    for part, tests in found["shifts"].items():
        for entry in [tests["nodes"], tests["edges"], tests["degree"], *tests["features"]["largest"][:3]]:
            scale = both if entry["what"] == "edges" else 1
            means = {key: entry[key] / scale for key in ("train_mean", "mean")}
            name = {"name": words.part(part), "feature": words.feature(entry["what"])}
            shifts.append({**entry, **means, **name, "part": part})
    shifts.sort(key=lambda e: -float(e["effect"]))
    warnings = [words.sentence(warning) for warning in found["warnings"]]
    closed = [words.closed(method_name(m), c) for m, c in report_data.get("closed_features", {}).items()]
    return {"rows": rows, "shifts": shifts[:SHIFTS], "warnings": warnings, "closed": closed}


def score_section(report_data: ReportData, words: Words) -> dict[str, Any]:
    """Per part, rule and method: the metric, calibration and edge scores, with intervals over seeds."""
    metric = report_data.get("metric", "accuracy")
    rows, dots = [], []
    for place, (method, selected) in enumerate(report_data.get("scores", {}).items()):
        for selector, splits in selected.items():
            chosen = selector == rule_of(report_data, method)
            for split, values in splits.items():
                if split == "epoch":
                    continue
                found = {name: interval(known(v), name) for name, v in values.items()}
                rows.append(
                    {
                        "method": method_name(method),
                        "selector": selector,
                        "about": SELECTORS.get(selector, selector),
                        "split": split,
                        "name": words.part(split),
                        "chosen": chosen,
                        "metric": spread(found[metric]),
                        "ece": spread(found["ece"]),
                        "auroc": spread(found["edge_auroc"]) if "edge_auroc" in found else "",
                        "epoch": ", ".join(str(e + 1) for e in splits["epoch"]),
                    }
                )
                if chosen:
                    f = found[metric]
                    dots.append((split, (method_name(method), place, f["mean"], f["low"], f["high"])))
    chart = []
    for part in (part for part in PARTS if any(split == part for split, _ in dots)):
        chart.append((words.part(part), svg.HEADING, math.nan, math.nan, math.nan))
        chart += [dot for split, dot in dots if split == part]
    seeds = max((len(seconds) for seconds in report_data.get("seconds", {}).values()), default=0)
    over = ", with intervals over training runs" if seeds >= LEAST else ""
    label = f"{metric_name(metric)} of each method on each part{over}"
    rules = dict.fromkeys(rule_of(report_data, method) for method in report_data.get("scores", {}))
    return {
        "rows": rows,
        "chart": svg.whiskers(chart, label),
        "metric": metric_name(metric),
        "rules": ", ".join(SELECTORS.get(rule, rule) for rule in rules),
        "seeds": seeds,
        "edges": any(row["auroc"] for row in rows),
        "methods": [method_name(method) for method in report_data.get("scores", {})],
        "confidence": CONFIDENCE,
        "least": LEAST,
    }


def mistakes_section(
    model: Model, report_data: ReportData, examined: Examined | None, words: Words
) -> list[dict[str, Any]]:
    """Confusion table and reliability plot of each part, and of the graphs examined.

    Args:
        model: The model.
        report_data: Its report data.
        examined: What it made of some graphs; None where there are none.
        words: What graphs and parts are called.
    """
    found = {words.part(part): picture for part, picture in report_data.get("pictures", {}).items()}
    if examined is not None and examined.pictures:
        found = {f"these {words.many}": examined.pictures, **found}
    out = []
    for part, picture in found.items():
        table = [[int(n) for n in row] for row in picture["confusion"]]
        out.append(
            {
                "part": part,
                "graphs": picture["graphs"],
                "cells": [[{"n": n, "share": n / (sum(row) or 1)} for n in row] for row in table],
                "reliability": svg.reliability(picture["reliability"], f"reliability on {part}"),
            }
        )
    return out


def curve_section(report_data: ReportData, words: Words) -> list[dict[str, Any]]:
    """Every loss term and every part's metric against the epoch: mean over seeds, band from least to most."""
    charts: dict[tuple[bool, str], list[svg.Series]] = {}
    metric = report_data.get("metric", "")
    for method, histories in report_data.get("histories", {}).items():
        columns: dict[tuple[bool, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for history in histories:
            for row in history:
                values = {(False, f"loss: {term}"): value for term, value in row["terms"].items()}
                for split, found in row["metrics"].items():
                    values[True, f"{metric_name(metric)}: {words.part(split)}"] = found[metric]
                for name, value in values.items():
                    if value is not None:
                        columns[name][row["epoch"] + 1].append(value)
        for name, by_epoch in columns.items():
            points = [(float(x), sum(ys) / len(ys)) for x, ys in sorted(by_epoch.items())]
            band = [(float(x), min(ys), max(ys)) for x, ys in sorted(by_epoch.items()) if len(ys) > 1]
            charts.setdefault(name, []).append(svg.Series(method_name(method), points, band))
    return [
        {"name": name, "svg": svg.curves(lines, f"{name} against epoch"), "lines": [s.name for s in lines]}
        for (_, name), lines in sorted(charts.items())
        if any(len(s.points) > 1 for s in lines)
    ]


def piece_section(model: Model, examined: Examined | None) -> list[dict[str, Any]]:
    """The pieces kept more often in one class than elsewhere, drawn; the surest of each class are marked."""
    rows: list[dict[str, Any]] = []
    for row in [] if examined is None else examined.fragments:
        picture = draw_fragment(row["name"]) if row["kind"] == "smiles" else svg.draw_motif(row["edges"])
        name = model.names[row["class"]]
        first = sum(other["class"] == name for other in rows) < PIECES
        rows.append({**row, "class": name, "svg": picture, "first": first})
    return rows
