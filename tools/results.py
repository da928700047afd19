"""Write the tables of docs/results*.md anew from the committed records: python tools/results.py

A table stands between `<!-- records: FILE -->` and `<!-- end -->`; it has a row for each configuration in
FILE, over the seeds that are there. What all rows have in common is not repeated in them; `rest` is what
G_s told on validation graphs, where that was asked. Between
`<!-- paper: NAME PRESET COLUMNS -->` and `<!-- end -->` stands a table of the paper with ours in it, as
`ciga table NAME --preset PRESET --datasets COLUMNS --runs-dir results --format md` writes it. After
`<!-- subgraphs: FILE SEEDS -->` stand the methods that extract a subgraph, as far as FILE has them on all
its datasets with all of SEEDS; after `<!-- changes: FILE BASE -->` the configurations of FILE, each by what
differs from BASE's of the same method and data, on the seeds that both have; after `<!-- search: FILE -->`
the settings that were tried for each method, best first, by the scores on held-out `ood_val` alone, as far as
they were run on all datasets and seeds of FILE; after `<!-- guide: FILE -->` how well those scores foretold
the test's; after `<!-- thresholds: FILE ... -->` the scores of each method beside one that does not depend on
where the line between two classes is drawn; after `<!-- spent -->` what all records together took.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy.stats import spearmanr

from ciga.bench.grid import Records, Variation
from ciga.bench.paper import exhibit
from ciga.bench.render import render
from ciga.bench.tables import fill
from ciga.cli.bench_options import parse_seeds
from ciga.methods.base import methods
from ciga.runs.records import read_lines
from ciga.runs.settings import resolve

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("results*.md"))
BLOCK = re.compile(r"(<!-- records: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
EXHIBIT = re.compile(r"(<!-- paper: (\S+) (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
SUBGRAPHS = re.compile(r"(<!-- subgraphs: (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
CHANGES = re.compile(r"(<!-- changes: (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
SEARCH = re.compile(r"(<!-- search: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
GUIDE = re.compile(r"(<!-- guide: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
THRESHOLDS = re.compile(r"(<!-- thresholds: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
SPENT = re.compile(r"(<!-- spent -->\n).*?(<!-- end -->)", re.DOTALL)
#: What belongs to a data seed or a run, not to a configuration.
APART = ("seed",)


def data_of(record: dict[str, Any]) -> dict[str, Any]:
    """The options of a record's dataset."""
    return {k: v for k, v in record["data"].items() if k not in APART}


def options_of(record: dict[str, Any]) -> dict[str, Any]:
    """Dataset, its options, protocol, method and settings of a record."""
    data = data_of(record)
    settings = {k if k not in data else f"{k} (setting)": v for k, v in record["settings"].items()}
    return {"dataset": record["dataset"], "protocol": record["protocol"], **data, **settings}


def spread(values: list[float]) -> str:
    """Mean and, of more than one seed, standard deviation (ddof 1)."""
    return f"{mean(values):.3f}" + (f" ({stdev(values):.3f})" if len(values) > 1 else "")


def table(file: Path) -> str:
    """One Markdown table of all configurations in a list of records."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    records = list(read_lines(file))
    every = [options_of(r) for r in records]
    names = sorted({k for o in every for k in o}, key=lambda k: (k != "dataset", k != "bias", k))
    # A method has options that others do not: only what differs among those who have it is shown.
    shown = [k for k in names if len({repr(o[k]) for o in every if k in o}) > 1]
    for record, options in zip(records, every, strict=True):
        words = [f"{k}={options[k]}" for k in shown if k in options and k != "dataset"]
        groups[f"{options['dataset']} | {record['method']} | {' '.join(words)}"].append(record)
    lines = [
        "| dataset | method | options | seeds | validation | rest | test | per seed | edge AUROC |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, group in sorted(groups.items()):
        group.sort(key=lambda r: r["seed"])
        chosen = [(r["selected"][r["selection"]], r["metric"]) for r in group]
        test = [s["ood_test"][metric] for s, metric in chosen]
        validation = [s["ood_val"][metric] for s, metric in chosen if "ood_val" in s]
        rest = [v["rest"] for s, _ in chosen if "rest" in (v := s.get("ood_val", s.get("id_val", {})))]
        auroc = [s["ood_test"]["edge_auroc"] for s, _ in chosen if "edge_auroc" in s["ood_test"]]
        seeds = ",".join(str(r["seed"]) for r in group)
        each = " ".join(f"{t:.3f}" for t in test)
        lines.append(
            f"| {name} | {seeds} | {spread(validation) if validation else '–'} "
            f"| {spread(rest) if rest else '–'} | **{spread(test)}** "
            f"| {each} | {spread(auroc) if auroc else '–'} |"
        )
    return "\n".join(lines) + "\n"


def subgraphs(file: Path, seeds: str) -> str:
    """Answers and edges of the extracting methods, by each rule, over all datasets and the same seeds."""
    found: dict[tuple[str, str], dict[Any, tuple[float, float]]] = defaultdict(dict)
    columns = set()
    for r in read_lines(file):
        column = (r["dataset"], repr(sorted(data_of(r).items())))
        columns.add(column)
        for rule in ("ood-val", "ood-val-rest"):
            score = r["selected"].get(rule, {}).get("ood_test", {})
            if "edge_auroc" in score:
                found[r["method"], rule][column, r["seed"]] = (score[r["metric"]], score["edge_auroc"])
    wanted = [(c, s) for c in sorted(columns) for s in parse_seeds(seeds)]
    lines = [
        f"| seeds {seeds} | epoch by | test | edge AUROC | above 0.9 | least |",
        "|---|---|---|---|---|---|",
    ]
    for (method, rule), scores in sorted(found.items()):
        if all(w in scores for w in wanted):
            test, auroc = zip(*(scores[w] for w in wanted), strict=True)
            good = f"{sum(a > 0.9 for a in auroc)} of {len(auroc)}"
            lines.append(
                f"| {method} | {rule} | {mean(test):.3f} | {mean(auroc):.3f} | {good} | {min(auroc):.2f} |"
            )
    return "\n".join(lines) + "\n"


@cache
def defaults(method: str) -> dict[str, Any]:
    """What a record made before an option was there stands for."""
    return resolve(method, preset="none").flat() if method in methods else {}


def changes(file: Path, base: Path) -> str:
    """One change at a time: scores on the seeds that the changed and the unchanged method both have."""

    def run(record: dict[str, Any]) -> tuple[Any, ...]:
        data = repr(sorted(data_of(record).items()))
        return record["dataset"], data, record["protocol"], record["method"], record["seed"]

    def scores(record: dict[str, Any]) -> tuple[float, ...]:
        chosen, metric = record["selected"][record["selection"]], record["metric"]
        tested, valid = chosen["ood_test"], chosen["ood_val"]
        return valid[metric], valid["rest"], tested[metric], tested["edge_auroc"]

    known = {run(r): r for r in read_lines(base)}
    found: dict[tuple[str, str], list[tuple[int, tuple[float, ...], tuple[float, ...]]]] = defaultdict(list)
    for r in read_lines(file):
        whole = known.get(run(r))
        if whole is None:
            continue
        now, before = ({**defaults(r["method"]), **which["settings"]} for which in (r, whole))
        differ = [k for k in sorted({*now, *before}) if now.get(k) != before.get(k)]
        change = " ".join(f"{k}={now[k]}" if k in now else f"no {k}" for k in differ)
        found[r["method"], change].append((r["seed"], scores(r), scores(whole)))
    lines = [
        "| method | change | runs | seeds | validation | rest | test | unchanged | edge AUROC | unchanged |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (method, change), pairs in sorted(found.items()):
        seeds, after, unchanged = zip(*sorted(pairs), strict=True)
        valid, rest, test, auroc = (spread(list(v)) for v in zip(*after, strict=True))
        _, _, test_of, auroc_of = (spread(list(v)) for v in zip(*unchanged, strict=True))
        which = ",".join(map(str, sorted(set(seeds))))
        lines.append(
            f"| {method} | {change} | {len(pairs)} | {which} | {valid} | {rest} | **{test}** | {test_of} "
            f"| {auroc} | {auroc_of} |"
        )
    return "\n".join(lines) + "\n"


def trials(file: Path) -> tuple[list[str], dict[tuple[str, str], dict[Any, dict[str, Any]]]]:
    """The datasets of a search, and its whole trials: (method, settings) -> (dataset, seed) -> record."""
    records = list(read_lines(file))
    places = {(r["dataset"], r["seed"]) for r in records}
    datasets = list(dict.fromkeys(r["dataset"] for r in records))
    values: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for r in records:
        for key, value in r["settings"].items():
            values[r["method"], r["dataset"], key].add(repr(value))
    # What differs between runs on one dataset was searched; what differs between datasets may be a preset's.
    searched = {(method, key) for (method, _, key), found in values.items() if len(found) > 1}
    tried: dict[tuple[str, str], dict[Any, dict[str, Any]]] = defaultdict(dict)
    for r in records:
        options = " ".join(f"{k}={v}" for k, v in r["settings"].items() if (r["method"], k) in searched)
        tried[r["method"], options][r["dataset"], r["seed"]] = r
    return datasets, {name: runs for name, runs in tried.items() if runs.keys() == places}


def search(file: Path) -> str:
    """What was tried for each method, best first, by validation scores; never by test scores."""
    datasets, tried = trials(file)
    lines = [
        f"| method | settings | {' | '.join(datasets)} | mean by `ood-val` | mean by `id-val` |",
        "|---|---|" + "---|" * (len(datasets) + 2),
    ]
    rows = []
    for (method, options), runs in tried.items():
        held_out = {k: r["selected"]["ood-val"]["ood_val"][r["metric"]] for k, r in runs.items()}
        each = [mean(v for (d, _), v in held_out.items() if d == dataset) for dataset in datasets]
        both = [
            mean(held_out.values()),
            mean(r["selected"]["id-val"]["ood_val"][r["metric"]] for r in runs.values()),
        ]
        cells = " | ".join(f"{v:.3f}" for v in [*each, *both])
        rows.append((method, -both[0], f"| {method} | {options or '–'} | {cells} |"))
    return "\n".join([*lines, *(line for _, _, line in sorted(rows))]) + "\n"


def guide(file: Path) -> str:
    """One sentence: did the trials that were better on held-out graphs do better on test graphs?"""
    tried = trials(file)[1].values()
    scores = [
        [
            mean(r["selected"]["ood-val"][part][r["metric"]] for r in runs.values())
            for part in ("ood_val", "ood_test")
        ]
        for runs in tried
    ]
    found = float(spearmanr(*zip(*scores, strict=True)).statistic)
    return (
        f"Over the {len(scores)} settings of this search the rank correlation of the mean score on held-out "
        f"graphs with that on test graphs (same runs, same epochs) is {found:.2f}.\n"
    )


def thresholds(*files: Path) -> str:
    """Scores that depend on where the line between the classes is drawn, and one that does not."""
    lines = [
        "| method | records | score | ROC AUC | score, epoch chosen on test graphs: a bound |",
        "|---|---|---|---|---|",
    ]
    rows = []
    for file in files:
        found: dict[str, dict[str, list[tuple[float, ...]]]] = defaultdict(lambda: defaultdict(list))
        for r in read_lines(file):
            if r["protocol"] == "ood":
                chosen, best = (r["selected"][rule]["ood_test"] for rule in (r["selection"], "oracle"))
                scores = (chosen[r["metric"]], chosen["roc_auc"], best[r["metric"]])
                found[r["method"]][r["dataset"]].append(scores)
        complete = max(map(len, found.values()))
        for method, datasets in found.items():
            if len(datasets) == complete:  # a mean over other datasets is another mean
                means = [[mean(v) for v in zip(*runs, strict=True)] for runs in datasets.values()]
                score, auc, bound = (mean(v) for v in zip(*means, strict=True))
                cells = f"{score:.3f} | {auc:.3f} | {bound:.3f}"
                rows.append((-score, f"| {method} | `{file.stem}` | {cells} |"))
    return "\n".join([*lines, *(line for _, line in sorted(rows))]) + "\n"


def paper_table(name: str, preset: str, columns: str) -> str:
    """A table of the paper from all committed records."""
    shown, records = exhibit(name), Records([ROOT / "results"])
    result = fill(shown, records, Variation(preset=preset), datasets=columns.split(","))
    return render(result, "md")


def spent() -> str:
    """Runs and core-hours of each list of records."""
    lines, total = ["| records | runs | core-hours |", "|---|---|---|"], [0, 0.0]
    for file in sorted((ROOT / "results").glob("*.jsonl")):
        seconds = [r["seconds"] * r["threads"] for r in read_lines(file)]
        lines.append(f"| `results/{file.name}` | {len(seconds)} | {sum(seconds) / 3600:.1f} |")
        total = [total[0] + len(seconds), total[1] + sum(seconds) / 3600]
    return "\n".join([*lines, f"| all | {total[0]} | {total[1]:.1f} |"]) + "\n"


def filled(page: str) -> str:
    """The page with every table made anew."""
    page = BLOCK.sub(lambda m: m[1] + "\n" + table(ROOT / m[2]) + "\n" + m[3], page)
    page = SUBGRAPHS.sub(lambda m: m[1] + "\n" + subgraphs(ROOT / m[2], m[3]) + "\n" + m[4], page)
    page = CHANGES.sub(lambda m: m[1] + "\n" + changes(ROOT / m[2], ROOT / m[3]) + "\n" + m[4], page)
    page = SEARCH.sub(lambda m: m[1] + "\n" + search(ROOT / m[2]) + "\n" + m[3], page)
    page = GUIDE.sub(lambda m: m[1] + "\n" + guide(ROOT / m[2]) + "\n" + m[3], page)
    page = THRESHOLDS.sub(
        lambda m: m[1] + "\n" + thresholds(*(ROOT / name for name in m[2].split())) + "\n" + m[3], page
    )
    page = SPENT.sub(lambda m: m[1] + "\n" + spent() + "\n" + m[2], page)
    return EXHIBIT.sub(lambda m: m[1] + "\n" + paper_table(m[2], m[3], m[4]).strip() + "\n\n" + m[5], page)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text()))
