"""The report: one HTML file that needs nothing else, for a model, a run, or a whole benchmark."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ciga.errors import CigaError
from ciga.explain import svg
from ciga.explain.examine import Examined
from ciga.explain.molecules import draw_fragment
from ciga.explain.render import number, percent, spread, write_page
from ciga.models.model import Model, rule_of
from ciga.models.summary import interval
from ciga.scoring.stats import CONFIDENCE

#: What a reader should know of each part of the data.
PARTS = {
    "train": "training",
    "id_val": "validation, like training",
    "ood_val": "validation, shifted",
    "id_test": "test, like training",
    "ood_test": "test, shifted",
}
SELECTORS = {
    "id-val": "best on validation like training",
    "ood-val": "best on shifted validation",
    "id-val-rest": "best on validation like training, less what the rest tells",
    "ood-val-rest": "best on shifted validation, less what the rest tells",
    "oracle": "best on test (not allowed, a bound)",
    "last": "the last epoch",
}


def report_model(
    model: Model,
    examined: Examined | None,
    path: str | Path,
    *,
    title: str,
    subject: str = "",
    command: str = "",
) -> None:
    """The page of a model: how it was trained, and what it makes of the graphs examined."""
    story = model.story
    try:
        context = {
            "title": title,
            "subject": subject,
            "command": command,
            "model": model,
            "story": story,
            "figures": _figures(model, examined),
            "data": _data(model, story),
            "scores": _scores(story),
            "calibration": _pictures(model, story, examined),
            "curves": _curves(story),
            "examined": examined,
            "fragments": _fragments(model, examined),
            "settings": sorted(model.settings.items()),
        }
        write_page(path, "report.html", context)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CigaError(f"The model's story.json cannot be read ({error!r}): fit the model again.") from error


def report_bench(records: Iterable[Mapping[str, Any]], path: str | Path, title: str = "Benchmark") -> None:
    """The page of a whole benchmark: every dataset, method and selector, with intervals over seeds."""
    records = list(records)
    if not records:
        raise CigaError("There are no finished runs to report on.")
    telling = _telling(records)
    groups: dict[tuple[str, str], dict[tuple[str, str], list[Mapping[str, Any]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in records:
        own = {k: v for k, v in record["data"].items() if k in telling[record["dataset"]]}
        protocol = "" if record["protocol"] == "ood" else f" ({record['protocol']})"
        name = f"{record['dataset']}{protocol} {_pairs(own)}".strip()
        settings = json.dumps(record["settings"], sort_keys=True)
        groups[name, _pairs(record["data"])][record["method"], settings].append(record)
    datasets = [_bench_dataset(*key, group) for key, group in sorted(groups.items())]
    runs = sum(row["seeds"] for dataset in datasets for row in dataset["rows"])
    write_page(
        path, "bench.html", {"title": title, "datasets": datasets, "runs": runs, "selectors": SELECTORS}
    )


# ---------------------------------------------------------------- pieces of a model's page


def _figures(model: Model, examined: Examined | None) -> list[dict[str, str]]:
    """The few numbers that stand at the top."""
    out = []
    story = model.story
    where, metric = story.get("where"), model.metric
    for method, selected in story.get("scores", {}).items():
        values = selected.get(rule_of(story, method), {}).get(where, {}).get(metric)
        if values:
            out.append(
                {"name": f"{method}: {metric} on {where}", "value": spread(interval(_known(values), metric))}
            )
    if examined is not None:
        if examined.scores:
            some = "" if examined.scored == examined.graphs else f"{examined.scored:,} of "
            name = f"{metric} on {some}these graphs"
            out.append({"name": name, "value": number(examined.scores[metric])})
        if examined.flagged is not None:
            out.append({"name": "flagged as unlike training", "value": percent(examined.flagged)})
        if examined.fidelity:
            gap, error = examined.fidelity["above_random"], examined.fidelity["above_random_error"]
            out.append(
                {
                    "name": "kept part over random parts",
                    "value": f"{gap:+.3f} ± {error:.3f}".replace("nan", "–"),
                }
            )
        if examined.quality:
            out.append({"name": "edge AUROC", "value": number(examined.quality["edge_auroc"])})
    return out


def _data(model: Model, story: Mapping[str, Any]) -> dict[str, Any]:
    found = story.get("data")
    if not found:
        return {}
    rows = []
    for part, stats in found["splits"].items():
        counts = stats["class_counts"]
        total = sum(counts.values()) or 1
        flagged = story["flagged"].get(part, {})
        rows.append(
            {
                "part": part,
                "what": PARTS.get(part, ""),
                "graphs": stats["graphs"],
                "nodes": stats["nodes_mean"],
                "edges": stats["edges_mean"],
                "classes": [(model.names[int(c)], n / total) for c, n in counts.items()],
                "flagged": flagged,
            }
        )
    shifts = []
    for part, tests in found["shifts"].items():
        for entry in [tests["nodes"], tests["edges"], tests["degree"], *tests["features"]["largest"][:3]]:
            shifts.append({"part": part, **entry})
    shifts.sort(key=lambda e: -float(e["effect"]))
    return {"rows": rows, "shifts": shifts[:12], "warnings": found["warnings"], "notes": found["notes"]}


def _scores(story: Mapping[str, Any]) -> dict[str, Any]:
    """Per split, selector and method: the metric, calibration and edge scores, with intervals over seeds."""
    metric = story.get("metric", "accuracy")
    rows, dots = [], []
    for place, (method, selected) in enumerate(story.get("scores", {}).items()):
        for selector, splits in selected.items():
            chosen = selector == rule_of(story, method)
            for split, values in splits.items():
                if split == "epoch":
                    continue
                found = {name: interval(_known(v), name) for name, v in values.items()}
                rows.append(
                    {
                        "method": method,
                        "selector": selector,
                        "about": SELECTORS.get(selector, ""),
                        "split": split,
                        "chosen": chosen,
                        "metric": spread(found[metric]),
                        "ece": spread(found["ece"]),
                        "auroc": spread(found["edge_auroc"]) if "edge_auroc" in found else "",
                        "epoch": ", ".join(str(e + 1) for e in splits["epoch"]),
                    }
                )
                if chosen:
                    f = found[metric]
                    dots.append((f"{split} {method}", place, f["mean"], f["low"], f["high"]))
    dots.sort(key=lambda d: list(PARTS).index(d[0].split()[0]))
    chart = svg.whiskers(dots, f"{metric} of each method on each part, with intervals over seeds")
    seeds = max((len(s) for v in story.get("seconds", {}).values() for s in [v]), default=0)
    return {
        "rows": rows,
        "chart": chart,
        "metric": metric,
        "rules": ", ".join(dict.fromkeys(rule_of(story, method) for method in story.get("scores", {}))),
        "seeds": seeds,
        "edges": any(r["auroc"] for r in rows),
        "methods": list(story.get("scores", {})),
        "confidence": CONFIDENCE,
    }


def _pictures(model: Model, story: Mapping[str, Any], examined: Examined | None) -> list[dict[str, Any]]:
    """Confusion table and reliability plot of each part, and of the graphs examined."""
    found = dict(story.get("pictures", {}))
    if examined is not None and examined.pictures:
        found = {"these graphs": examined.pictures, **found}
    out = []
    for part, picture in found.items():
        table = [[int(n) for n in row] for row in picture["confusion"]]
        shares = [[n / (sum(row) or 1) for n in row] for row in table]
        out.append(
            {
                "part": part,
                "graphs": picture["graphs"],
                "names": model.names,
                "cells": [
                    [{"n": n, "share": s} for n, s in zip(row, line, strict=True)]
                    for row, line in zip(table, shares, strict=True)
                ],
                "reliability": svg.reliability(picture["reliability"], f"reliability on {part}"),
            }
        )
    return out


def _curves(story: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every loss term and every part's metric against the epoch: mean over seeds, band from least to most."""
    charts: dict[str, list[svg.Series]] = {}
    metric = story.get("metric", "")
    for method, histories in story.get("histories", {}).items():
        columns: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for history in histories:
            for row in history:
                values = {f"loss: {k}": v for k, v in row["terms"].items()}
                values |= {f"{metric}: {split}": m[metric] for split, m in row["metrics"].items()}
                for name, value in values.items():
                    if value is not None:
                        columns[name][row["epoch"] + 1].append(value)
        for name, by_epoch in columns.items():
            points = [(float(x), sum(ys) / len(ys)) for x, ys in sorted(by_epoch.items())]
            band = [(float(x), min(ys), max(ys)) for x, ys in sorted(by_epoch.items()) if len(ys) > 1]
            charts.setdefault(name, []).append(svg.Series(method, points, band))
    order = sorted(charts, key=lambda n: (not n.startswith("loss"), n))
    return [
        {"name": n, "svg": svg.curves(charts[n], f"{n} against epoch"), "lines": [s.name for s in charts[n]]}
        for n in order
        if any(len(s.points) > 1 for s in charts[n])
    ]


def _fragments(model: Model, examined: Examined | None) -> list[dict[str, Any]]:
    rows = []
    for row in [] if examined is None else examined.fragments:
        picture = draw_fragment(row["name"]) if row["kind"] == "smiles" else svg.draw_motif(row["edges"])
        rows.append({**row, "class": model.names[row["class"]], "svg": picture})
    return rows


# ---------------------------------------------------------------- pieces of a benchmark's page


def _telling(records: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    """For each dataset, the options in which its runs differ: these tell the headings apart."""
    seen: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for record in records:
        for key, value in record["data"].items():
            seen[record["dataset"]][key].add(repr(value))
    return {name: {k for k, values in found.items() if len(values) > 1} for name, found in seen.items()}


def _bench_dataset(
    name: str, data: str, group: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    first = next(iter(group.values()))[0]
    metric = first["metric"]
    rows, dots = [], []
    everyone = [json.loads(settings) for _, settings in group]
    common = {k: v for k, v in everyone[0].items() if all(s.get(k) == v for s in everyone)}
    for place, ((method, settings), records) in enumerate(sorted(group.items())):
        own = {k: v for k, v in json.loads(settings).items() if k not in common}
        scores: dict[str, dict[str, Any]] = {}
        for selector in records[0]["selected"]:
            parts = [p for p in records[0]["selected"][selector] if p != "epoch"]
            scores[selector] = {
                p: interval(_known([r["selected"][selector][p][metric] for r in records]), metric)
                for p in parts
            }
        rule = records[0]["selection"]
        test = next((p for p in ("ood_test", "id_test", "ood_val", "id_val") if p in scores[rule]), "train")
        best = scores[rule][test]
        dots.append((method, place % 6, best["mean"], best["low"], best["high"]))
        edges = [r["selected"][rule][test].get("edge_auroc") for r in records]
        rows.append(
            {
                "method": method,
                "settings": _pairs(own),
                "count": len(own),
                "seeds": len(records),
                "selection": rule,
                "scores": {s: {p: spread(v) for p, v in parts.items()} for s, parts in scores.items()},
                "value": best["mean"],
                "edges": spread(interval(_known(edges), "edge_auroc"))
                if any(e is not None for e in edges)
                else "",
                "seconds": sum(r["seconds"] for r in records) / len(records),
            }
        )
    parts = list(rows[0]["scores"][rows[0]["selection"]])
    chart = svg.whiskers(dots, f"{metric} of each method on {test}")
    return {
        "name": name,
        "data": data,
        "metric": metric,
        "rows": rows,
        "parts": parts,
        "chart": chart,
        "where": test,
        "common": _pairs(common),
    }


# ---------------------------------------------------------------- small things


def _known(values: Iterable[Any]) -> list[float]:
    return [math.nan if v is None else float(v) for v in values]


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in sorted(values.items()))
