"""The one screen at the end of `ciga fit`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ciga.cli.screen import listing, never_cut, next_step, say
from ciga.data.reading.feature_names import with_names
from ciga.explain.render import spread
from ciga.explain.words import words_of
from ciga.models.model import Model
from ciga.models.report_data import rule_of
from ciga.models.shift import MEASURES
from ciga.models.summary import interval
from ciga.models.types import RepeatedFits
from ciga.scoring.stats import LEAST


def print_summary(model: Model, out: Path, source: str) -> None:
    """Scores with intervals, the size of the shift, warnings, the advice, and what to do next."""
    report_data, metric, console = model.report_data, model.metric, Console()
    rules = {m: rule_of(report_data, m) for m in report_data["scores"]}
    scores = {m: report_data["scores"][m][rule] for m, rule in rules.items()}
    chosen = ", ".join(dict.fromkeys(rules.values()))
    first = next(iter(scores.values()))
    parts: list[str] = [p for p in ("id_val", "id_test", "ood_val", "ood_test") if p in first]
    parts = parts or ["train"]
    last = parts[-1]
    edges = any("edge_auroc" in s[last] for s in scores.values())
    names = {"id": "like training", "ood": "shifted", "train": "training"}
    seeds = len(model.seeds)
    together = report_data.get("ensembles", {})
    table = listing(
        "method",
        *[f"{metric}, {names[p.partition('_')[0]]} ({p})" for p in parts],
        f"calibration error ({last})",
        *(["edge AUROC"] if edges else []),
        title=_title(seeds, chosen),
    )
    never_cut(table)

    def cell(found: dict[str, Any], name: str) -> str:
        return _two_lines(interval([float("nan") if v is None else v for v in found[name]], name))

    for name, found in scores.items():
        row = [cell(found[p], metric) for p in parts] + [cell(found[last], "ece")]
        row += [cell(found[last], "edge_auroc") if "edge_auroc" in found[last] else "–"] if edges else []
        if name in together and seeds > 1:
            whole = [_two_lines(_known(together[name][p])) if p in together[name] else "–" for p in parts]
            error = report_data.get("calibration", {}).get(name, {}).get(last)
            told = "" if error is None else f"{error:.3f}"
            table.add_row(name, *whole, told, *[""] * edges, style="bold")
            name = "  single seeds"
        table.add_row(name, *row)
    console.print(table)
    molecules = model.featuriser.get("kind") == "smiles"
    words = words_of(model.source, molecules, report_data["data"]["notes"])
    if report_data.get("made_of"):
        say(console, report_data["made_of"])
    for caveat in report_data.get("caveats", {}).values():
        say(console, caveat)
    flagged = report_data["flagged"]
    said = ", ".join(f"{100 * found['any']:.0f} % of {part}" for part, found in flagged.items() if found)
    if said and model.gauge is not None:
        worst = max((m for m in MEASURES if m in flagged[last]), key=lambda m: flagged[last][m])
        mostly = f"mostly by {worst}; " if flagged[last][worst] else ""
        loss = _loss(together.get(next(iter(scores)), {}), parts, metric)
        chance = f"by chance alone up to {100 * model.gauge.chance:.0f} %"
        say(console, f"Shift: unlike training are {said} ({mostly}{chance}).{loss}")
    alike = {part: found["nearest"] for part, found in flagged.items() if "nearest" in found}
    near = ", ".join(f"{value:.2f} in {part}" for part, value in alike.items())
    if near:
        hard = (report_data["data"].get("similarity") or {}).get(last, {}).get("verdict", "")
        say(console, f"Similarity to the nearest training graph, median: {near}. {hard}".rstrip())
    for warning in report_data["data"]["warnings"]:
        say(console, f"Data: {with_names(warning) if molecules else warning}", "yellow")
    for name, columns in report_data.get("closed_features", {}).items():
        say(console, f"Gates: {words.closed(name, columns)}")
    if report_data.get("repeats"):
        console.print(_repeated(report_data["repeats"], metric))
    say(console, report_data["advice"], "bold")
    if model.rivals:
        alone = ", ".join([*([model.method_name] if model.shares else []), *model.rivals])
        say(console, f"Also saved, each for use alone (ciga predict … --member NAME): {alone}.")
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file()) / 2**20
    say(console, f"Model: {out} ({size:.1f} MB)")
    file = shlex.quote(source) if Path(source).exists() else "FILE"
    place = shlex.quote(str(out))
    next_step(f"ciga predict {place} {file} --out predictions.csv")
    if model.method.extracts:
        next_step(f"ciga explain {place} {file} --out report.html")


def _repeated(repeats: RepeatedFits, metric: str) -> Table:
    """Averaged seeds of every method over the splits, and how what is shipped compares."""
    where, count = repeats["where"], repeats["splits"]
    table = listing(
        "method",
        f"{metric} ({where})",
        "better by [95 % interval]",
        title=f"{count} splits, averaged seeds, mean [95 % interval over splits]",
    )
    for name, found in repeats["intervals"].items():
        gap = repeats["comparisons"].get(name)
        told = "–" if gap is None else spread({**_known(gap), "mean": _known(gap)["difference"]}, "+")
        table.add_row(name, spread(_known(found)), told)
    return never_cut(table)


def _loss(shipped: Mapping[str, Any], parts: list[str], metric: str) -> str:
    """What the shift costs: the score of what is shipped on data like training, and on shifted data."""
    ends = [p for p in (parts[0], parts[-1]) if shipped.get(p, {}).get("mean") is not None]
    if len(ends) < 2 or not (ends[0].startswith("id") and ends[1].startswith("ood")):
        return ""
    usual, shifted = (f"{shipped[part]['mean']:.3f} on {part}" for part in ends)
    return f" {metric} is {usual} and {shifted}."


def _two_lines(found: dict[str, float]) -> str:
    """A score, and its interval below it: so they stay whole in 80 columns."""
    return spread(found).replace(" [", "\n[")


def _known(found: Mapping[str, Any]) -> dict[str, float]:
    """An interval from JSON, where None stands for what is not a number."""
    return {key: float("nan") if value is None else value for key, value in found.items()}


def _title(seeds: int, rule: str) -> str:
    """What the numbers of the table are."""
    if seeds == 1:
        return f"one seed, epoch by {rule}"
    over = " [95 % interval over seeds]" if seeds >= LEAST else ""
    return f"{seeds} seeds averaged [95 % interval over graphs]; single seeds, mean{over}; epoch by {rule}"
