"""Write the tables of the results pages from the committed records: python tools/results.py

A table stands between a comment that names it and `<!-- end -->`:

| comment | table |
|---|---|
| `<!-- paper: NAME PRESET COLUMNS -->` | a table of the paper and ours, as `ciga table --all` writes it |
| `<!-- scores: NAME PRESET COLUMNS -->` | the same without the comparisons between its rows |
| `<!-- search: FILE -->` | the settings tried for each method, best first, by scores on held-out graphs |
| `<!-- guide: FILE -->` | how well those scores predicted the test scores |
| `<!-- thresholds: FILE ... -->` | scores beside one that does not depend on a threshold |
| `<!-- corrected: NAME OLD NEW -->` | test scores of a table's rows before and after they were corrected |
| `<!-- molecules: FILE -->` | every tool on tables of molecules (`benchmarks.molecules`) |
| `<!-- extraction: FILE -->` | what picking a part gained over ERM on those tables |
| `<!-- gauge: FILE -->` | how well each measure of shift told those tables' test rows from others |
| `<!-- commands: FILE -->` | how long the three commands took (`benchmarks.commands`) |
| `<!-- tries: FILE -->` | what `benchmarks.search_molecules` tried, best first |
| `<!-- gains: FILE -->` | the same over many tables: what each try gained over the preset |
| `<!-- epochs: FILE -->` | the rules for the epoch that it compared |
| `<!-- shares: FILE -->` | ways to choose the shares of a mixture (`benchmarks.shares`) |
| `<!-- study: NAME RULES ROWS WORD SEEDS -->` | accuracy and subgraph of rows, of columns with WORD |
| `<!-- spent -->` | runs and core-hours of all records |
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy.stats import spearmanr

from ciga.bench.exhibit import PaperTable
from ciga.bench.grid import Variation
from ciga.bench.paper import exhibit
from ciga.bench.render import render
from ciga.bench.tables import DEFAULT, Entry, fill
from ciga.cli.bench_options import parse_seeds
from ciga.runs.records import Records, lists_of_records, read_lines

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "docs/results.md", "docs/practitioner.md", "results/NOTEBOOK.md"))
]
#: What a search calls the settings that it starts from.
PRESET = "nothing"
#: A table, between the comment that names it (and what it is made from) and the end.
TABLE = re.compile(r"(<!-- (\w+)(?:: (.+?))? -->\n).*?(<!-- end -->)", re.DOTALL)


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
                rows.append((-score, f"| {method} | `{file.name.split('.')[0]}` | {cells} |"))
    return "\n".join([*lines, *(line for _, line in sorted(rows))]) + "\n"


def paper_table(name: str, preset: str, columns: str) -> str:
    """A table of the paper from all committed records, with every recorded row.

    Leaving rows out would also shrink the number of comparisons that p is corrected for.
    """
    shown, records = exhibit(name), Records([ROOT / "results"])
    result = fill(shown, records, Variation(preset=preset), datasets=columns.split(","))
    return render(result, "md")


def scores(name: str, preset: str, columns: str) -> str:
    """A table of the paper as `paper_table` gives it, without the comparisons between its rows."""
    return paper_table(name, preset, columns).split("### Paired comparisons")[0].strip() + "\n"


def molecules(file: Path) -> str:
    """ROC AUC of every tool on each table and split, from the records of `benchmarks.molecules`."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    tools = list(dict.fromkeys(line["tool"] for line in lines))
    places = dict.fromkeys((line["table"], line["split"]) for line in lines)
    out = [
        f"| table, split | networks | similarity | {' | '.join(tools)} |",
        "|---|---:|---:|" + "---:|" * len(tools),
    ]
    for place in places:
        mine = {line["tool"]: line for line in lines if (line["table"], line["split"]) == place}
        best = max(line["roc_auc"]["mean"] for line in mine.values())
        near = next((line["nearest"] for line in mine.values() if line.get("nearest")), None)
        cells = [_auc(mine[tool]["roc_auc"], best) if tool in mine else "–" for tool in tools]
        mark = " *" if any(line.get("older") for line in mine.values()) else ""
        seeds = _seeds({tool: line["seeds"] for tool, line in mine.items()})
        about = f"{seeds} | {'–' if near is None else f'{near:.2f}'}"
        out.append(f"| {_place(*place)}{mark} | {about} | {' | '.join(cells)} |")
    versions = sorted({v for line in lines if (v := line["versions"].get("chemprop"))})
    about = f" chemprop is version {', '.join(versions)} with its defaults." if versions else ""
    older = {line["older"] for line in lines if line.get("older")}
    about += "".join(f" Rows with * are from before {what}." for what in sorted(older))
    return "\n".join(out) + f'\n\n"Networks": how many each tool averages, or forests.{about}\n'


def _place(table: str, split: str) -> str:
    """A table and its split in few words: DrugOOD's tables are called after the splits they come with."""
    return f"{table}, {split}" if split != "own" else "EC50, {}".format(table.rpartition("-")[2])


def _seeds(of: dict[str, int]) -> str:
    """How many networks the tools of a row have: the usual number, and who has another one."""
    usual = Counter(of.values()).most_common(1)[0][0]
    others = "".join(f"; {tool} {n}" for tool, n in of.items() if n != usual)
    return f"{usual}{others}"


def _auc(found: dict[str, float], best: float) -> str:
    text = f"{found['mean']:.3f}"
    text = f"**{text}**" if found["mean"] == best else text
    return f"{text} ({found['low']:.2f}–{found['high']:.2f})"


def extraction(file: Path) -> str:
    """Of each table and split: the mixture against the best single tool, and parts against ERM."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    judged = [line["tool"] for line in lines if line.get("against_erm") and line["tool"] != "forest"]
    tools = list(dict.fromkeys(judged))
    head = ["table, split", "single ERMs", "auto - best other", *(f"{tool} - erm" for tool in tools)]
    out = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for place in dict.fromkeys((line["table"], line["split"]) for line in lines):
        mine = {line["tool"]: line for line in lines if (line["table"], line["split"]) == place}
        if not {"auto", "erm"} <= mine.keys():
            continue
        others = {tool: line["roc_auc"]["mean"] for tool, line in mine.items() if tool != "auto"}
        best = max(others, key=lambda tool: others[tool])
        single = mine["erm"]["single"]
        ahead = mine["auto"]["roc_auc"]["mean"] - others[best]
        cells = [f"{min(single):.2f}–{max(single):.2f}", f"{ahead:+.3f} ({best})"]
        for tool in tools:
            found = mine[tool]["against_erm"] if tool in mine else None
            cells.append("–" if found is None else _gap(found))
        out.append(f"| {_place(*place)} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n\nBold: the interval (95 %, over seeds and test rows) leaves out 0.\n"


def _gap(found: dict[str, float]) -> str:
    text = f"{found['difference']:+.3f} ({found['low']:+.2f} to {found['high']:+.2f})"
    return f"**{text}**" if found["low"] > 0 or found["high"] < 0 else text


def gauge(file: Path) -> str:
    """Of each table and split: flagged rows, the loss in score, and the AUROC of "is a test row"."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    shown = [line for line in lines if line.get("told_apart")]
    measures = list(dict.fromkeys(name for line in shown for name in line["told_apart"]))
    head = ["table, split", "flagged", "loss in ROC AUC", *(f"by {name}" for name in measures)]
    out = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for line in shown:
        loss = line["id_val"] - line["roc_auc"]["mean"]
        cells = [f"{100 * line['flagged']:.0f} %", f"{loss:.2f}"]
        cells += [f"{line['told_apart'][name]:.2f}" for name in measures]
        out.append(f"| {_place(line['table'], line['split'])} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def commands(file: Path) -> str:
    """The commands and the seconds they keep a core busy, whatever else runs beside them."""
    found = json.loads(file.read_text())
    out = ["| command | core seconds |", "|---|---:|"]
    out += [f"| `{line['command']}` | {line['processor']:,.0f} |" for line in found["commands"]]
    return (
        "\n".join(out)
        + f"\n\nMeasured with {found['rows']:,} molecules; `fit` shares its runs among the cores there are.\n"
    )


def tries(file: Path) -> str:
    """Settings of networks for molecules, best first by the mean of both scores; a line has all tables."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    places = list(dict.fromkeys(f"{line['table']} {line['split']}" for line in lines))
    out = [
        f"| method | changed | seeds | {' | '.join(places)} | mean |",
        "|---|---|---:|" + "---:|" * (len(places) + 1),
    ]
    by: dict[tuple[str, str, int], dict[str, Any]] = defaultdict(dict)
    for line in lines:
        values = {**line["try"], "averaging": line["averaging"]} if line.get("averaging") else line["try"]
        changed = " ".join(f"{key}={value}" for key, value in values.items())
        by[line["method"], changed, line["seeds"]][f"{line['table']} {line['split']}"] = line
    rows = []
    for (method, changed, seeds), found in by.items():
        cells = [
            f"{found[p]['ood_val']:.3f}, {found[p]['id_val']:.3f}" if p in found else "–" for p in places
        ]
        whole = len(found) == len(places)
        both = mean((line["ood_val"] + line["id_val"]) / 2 for line in found.values()) if whole else 0.0
        cells.append(f"{both:.3f}" if whole else "–")
        rows.append((method, -both, f"| {method} | {changed or '–'} | {seeds} | {' | '.join(cells)} |"))
    return "\n".join([*out, *(row for _, _, row in sorted(rows))]) + "\n"


def gains(file: Path) -> str:
    """What each try gained over the preset on the same tables, with its standard error; best first."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    by: dict[tuple[str, str, float], dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
    for line in lines:
        changed = {k: v for k, v in line["try"].items() if k != "epochs"}  # that is said once, not searched
        changed |= {"features": "OGB"} if line["features"] == "ogb" else {}
        words = " ".join(f"{k}={v}" for k, v in changed.items()) or PRESET
        by[line["method"], words, line["averaging"]][line["table"], line["split"]] = line
    places = list(dict.fromkeys((line["table"], line["split"]) for line in lines))
    kept = max(line["averaging"] for line in lines)  # as the preset has it
    rows = []
    for (method, words, averaging), found in by.items():
        usual = by[method, PRESET, kept]
        if found is usual or len(found) < len(places):
            continue
        gained = {
            part: [line[part] - usual[place][part] for place, line in found.items()]
            for part in ("ood_val", "id_val")
        }
        both = [mean(pair) for pair in zip(*gained.values(), strict=True)]
        error = stdev(both) / len(both) ** 0.5
        seconds = [sum(line["seconds"] for line in some.values()) for some in (found, usual)]
        cells = [f"{mean(values):+.3f}" for values in gained.values()]
        cells += [f"{mean(both):+.3f} ({error:.3f})", f"{seconds[0] / seconds[1]:.1f}"]
        weights = "running mean" if averaging else "as they are"
        rows.append((method, -mean(both), f"| {method} | {words} | {weights} | {' | '.join(cells)} |"))
    out = [
        "| method | changed | weights | `ood_val` | `id_val` | both | time |",
        "|---|---|---|" + "---:|" * 4,
    ]
    out += [row for _, _, row in sorted(rows)]
    named = ", ".join(" ".join(place) for place in places)
    about = (
        f"Gain in ROC AUC over the preset, in brackets its standard error over {len(places)} splits: {named}."
    )
    return "\n".join(out) + f"\n\n{about}\n"


def epochs(file: Path) -> str:
    """Each rule for the epoch: its scores in the mean over all tries of `benchmarks.search_molecules`."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    out = ["| rule | weights | ood_val | id_val | mean | epoch |", "|---|---|---:|---:|---:|---:|"]
    for rule in lines[0]["rules"]:
        for averaging in sorted({line["averaging"] for line in lines}):
            some = [line["rules"][rule] for line in lines if line["averaging"] == averaging]
            ood, same, epoch = (mean(found[k] for found in some) for k in ("ood_val", "id_val", "epoch"))
            weights = "running mean" if averaging else "as they are"
            out.append(
                f"| {rule} | {weights} | {ood:.3f} | {same:.3f} | {(ood + same) / 2:.3f} | {epoch:.0f} |"
            )
    return "\n".join(out) + f"\n\nMeans over {len(lines) // 2} trainings.\n"


def shares(file: Path) -> str:
    """Ways to choose shares: mean ROC AUC and log loss over all tables, by the number of rows that chose."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    counts = sorted({line["rows"] for line in lines})
    head = [f"{n} rows" for n in counts]
    out = [f"| chosen by | for equal shares | {' | '.join(head)} |", "|---|---:|" + "---:|" * len(head)]
    for way in dict.fromkeys(line["way"] for line in lines):
        for prior in lines[0]["scores"]:
            cells = []
            for n in counts:
                found = [line["scores"][prior] for line in lines if (line["way"], line["rows"]) == (way, n)]
                ood, same, loss = (mean(column) for column in zip(*found, strict=True))
                cells.append(f"{(ood + same) / 2:.3f}, {loss:.3f}")
            out.append(f"| {way} | {prior} | {' | '.join(cells)} |")
    places = ", ".join(dict.fromkeys(f"{line['table']} {line['split']}" for line in lines))
    about = f"ROC AUC (the mean of `ood_val` and `id_val`) and log loss; means over {places}."
    return "\n".join(out) + f"\n\n{about}\n"


def study(name: str, rules: str, rows: str = "all", word: str = "-", seeds: str = "") -> str:
    """Accuracy (standard deviation) and edge AUROC of each column, under some rules for the epoch.

    Args:
        name: A table.
        rules: Rules for the epoch, with commas.
        rows: Keys of rows in their order, with commas.
        word: The extra columns with this in their label; `-`: the columns that are not extra.
        seeds: Such as 6-8; else the table's.
    """
    records, table = Records([ROOT / "results"]), exhibit(name)
    wanted = parse_seeds(seeds) if seeds else ()
    found = {
        rule: [
            fill(table, records, Variation(), select=rule, metric=m, seeds=wanted)
            for m in (None, "edge_auroc")
        ]
        for rule in rules.split(",")
    }
    result = next(iter(found.values()))[0]
    shown = [c for c in result.columns if (not c.extra if word == "-" else word in c.label)]
    columns = [c for c in shown if c.metric != "edge_auroc"]
    head = ["row", *(["epoch"] if len(found) > 1 else []), *(c.label for c in columns)]
    out = [f"| {' | '.join(head)} |", "|---" * (len(head) - len(columns)) + "|" + "---:|" * len(columns)]
    named = {row.key: row for row in result.rows}
    for row in result.rows if rows == "all" else [named[k] for k in rows.split(",") if k in named]:
        chosen: list[str] = []
        for rule, (right, subgraph) in found.items():
            places = [(row.key, column.key, rule) for column in columns]
            cells = [_both(right.entries.get(p), subgraph.entries.get(p)) for p in places]
            if any(cell != "–" for cell in cells) and cells != chosen:  # a row's own rule is not said twice
                chosen = chosen or cells
                epoch = ["chosen" if rule == DEFAULT else rule] if len(found) > 1 else []
                out.append(f"| {' | '.join([row.label, *epoch, *cells])} |")
        printed = [None if row.preset else table.printed.get((row.source, c.key)) for c in columns]
        if any(printed):
            theirs = [""] * (len(found) > 1) + [f"*{p[0]:.1f} ({p[1]:.1f})*" if p else "–" for p in printed]
            out.append(f"| *in the paper* | {' | '.join(theirs)} |")
    return "\n".join(out) + "\n\nAccuracy (standard deviation), edge AUROC, [seeds].\n"


def _both(right: Entry | None, subgraph: Entry | None) -> str:
    if right is None or not right.values:
        return "–"
    parts = [f"{right.mean:.1f}" + (f" ({right.std:.1f})" if len(right.values) > 1 else "")]
    parts += [f"{subgraph.mean / 100:.2f}"] if subgraph is not None and subgraph.values else []
    return f"{', '.join(parts)} [{len(right.values)}]"


def corrected(name: str, old: Path, new: Path) -> str:
    """Test scores of corrected rows, same seeds, before and after (by two rules); and the paper's."""
    table = exhibit(name)
    assert isinstance(table, PaperTable)
    lines = {
        "before": _by_place(old, ""),
        "after": _by_place(new, ""),
        "after, last epoch": _by_place(new, "last"),
    }
    after = lines["after"]
    columns = [c for c in table.columns if any(dataset == c.dataset for _, dataset in after)]
    head = ["method", "", *(c.label for c in columns)]
    out = [f"| {' | '.join(head)} |", "|---|---|" + "---:|" * len(columns)]
    for row in table.rows:
        if not any(method == row.method for method, _ in after) or row.preset or row.settings:
            continue
        places = [(row.method, c.dataset) for c in columns]
        for label, runs in lines.items():
            cells = [_spread([v for s, v in runs[p].items() if s in after[p]]) for p in places]
            if any(cell != "–" for cell in cells):
                out.append(f"| {row.label} | {label} | {' | '.join(cells)} |")
        printed = [table.printed.get((row.key, c.key)) for c in columns]
        if any(printed):
            theirs = (f"*{p[0]:.2f} ({p[1]:.2f})*" if p else "–" for p in printed)
            out.append(f"| | *paper* | {' | '.join(theirs)} |")
    return "\n".join(out)


def _by_place(file: Path, rule: str) -> dict[tuple[str, str], dict[int, float]]:
    """(method, dataset) -> seed -> test score at the epoch of a rule, or of each record's own rule."""
    found: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for r in read_lines(file):
        if r["protocol"] == "ood":
            score = r["selected"][rule or r["selection"]]["ood_test"][r["metric"]]
            found[r["method"], r["dataset"]][r["seed"]] = score
    return found


def _spread(scores: Sequence[float]) -> str:
    if not scores:
        return "–"
    spread = f" ({stdev(scores):.3f})" if len(scores) > 1 else ""
    return f"{mean(scores):.3f}{spread} [{len(scores)}]"


def spent() -> str:
    """One sentence: the runs and core-hours of all records."""
    files = lists_of_records(ROOT / "results")
    seconds = [r["seconds"] * r["threads"] for file in files for r in read_lines(file)]
    hours = sum(seconds) / 3600
    return f"The {len(seconds):,} runs in `results/`, searches included, took {hours:.1f} core-hours.\n"


WRITERS: dict[str, Callable[..., str]] = {
    "paper": paper_table,
    "scores": scores,
    "search": search,
    "guide": guide,
    "thresholds": thresholds,
    "corrected": corrected,
    "molecules": molecules,
    "extraction": extraction,
    "gauge": gauge,
    "commands": commands,
    "tries": tries,
    "gains": gains,
    "epochs": epochs,
    "shares": shares,
    "study": study,
    "spent": spent,
}


def tables(page: str, kind: str) -> list[str]:
    """The tables of one kind on a page, with their comments."""
    return [found[0] for found in TABLE.finditer(page) if found[2] == kind]


def filled(page: str) -> str:
    """The page with every table made anew."""

    def made(found: re.Match[str]) -> str:
        opening, kind, words, end = found.groups()
        if kind not in WRITERS:
            return found[0]
        arguments = [ROOT / word if "/" in word else word for word in (words or "").split()]
        return f"{opening}\n{WRITERS[kind](*arguments).strip()}\n\n{end}"

    return TABLE.sub(made, page)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text()))
