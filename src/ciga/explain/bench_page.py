"""The page of a whole benchmark: every dataset and method with intervals over seeds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ciga.errors import CigaError
from ciga.explain import svg
from ciga.explain.render import known, spread, write_page
from ciga.explain.words import SELECTORS
from ciga.models.summary import interval
from ciga.scoring.stats import LEAST


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
    context = {"title": title, "datasets": datasets, "runs": runs, "selectors": SELECTORS, "least": LEAST}
    write_page(path, "bench.html", context)


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
                p: interval(known([r["selected"][selector][p][metric] for r in records]), metric)
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
                "edges": spread(interval(known(edges), "edge_auroc"))
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


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in sorted(values.items()))
