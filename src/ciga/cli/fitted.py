"""The one screen at the end of `ciga fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ciga.explain.render import spread
from ciga.models.model import Model, rule_of
from ciga.models.summary import interval
from ciga.scoring.stats import LEAST


def print_summary(model: Model, out: Path, source: str) -> None:
    """Scores with intervals, the size of the shift, warnings, the advice, and what to do next."""
    report_data, metric, console = model.report_data, model.metric, Console()
    rules = {m: rule_of(report_data, m) for m in report_data["scores"]}
    scores = {m: report_data["scores"][m][rule] for m, rule in rules.items()}
    chosen = ", ".join(dict.fromkeys(rules.values()))
    first = next(iter(scores.values()))
    parts = [p for p in ("id_val", "id_test", "ood_val", "ood_test") if p in first] or ["train"]
    last = parts[-1]
    edges = any("edge_auroc" in s[last] for s in scores.values())
    names = {"id": "like training", "ood": "shifted", "train": "training"}
    table = Table(
        "method",
        *[f"{metric}, {names[p.partition('_')[0]]} ({p})" for p in parts],
        f"calibration error ({last})",
        *(["edge AUROC"] if edges else []),
        title=(
            f"mean over {len(model.seeds)} seeds [95 % interval over seeds], epoch by {chosen}"
            if len(model.seeds) >= LEAST
            else f"mean over {len(model.seeds)} seeds, epoch by {chosen}"
            if len(model.seeds) > 1
            else f"one seed, epoch by {chosen}"
        ),
        title_justify="left",
    )

    def cell(found: dict[str, Any], name: str) -> str:
        return spread(interval([float("nan") if v is None else v for v in found[name]], name))

    for name, found in scores.items():
        row = [cell(found[p], metric) for p in parts] + [cell(found[last], "ece")]
        row += [cell(found[last], "edge_auroc") if "edge_auroc" in found[last] else "–"] if edges else []
        table.add_row(name, *row)
    console.print(table)
    flagged = report_data["flagged"]
    said = ", ".join(f"{100 * found['any']:.0f} % of {part}" for part, found in flagged.items() if found)
    if said and model.gauge is not None:
        worst = max(("size", "features", "embedding"), key=lambda k: flagged[last][k])
        console.print(
            f"Shift: unlike training are {said} (mostly by {worst}; by chance alone about "
            f"{100 * model.gauge.level:.0f} %).",
            soft_wrap=True,
            highlight=False,
        )
    for warning in report_data["data"]["warnings"]:
        console.print(f"Data: {warning}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"[bold]{report_data['advice']}[/]", soft_wrap=True, highlight=False)
    size = sum(p.stat().st_size for p in out.iterdir()) / 2**20
    file = source if Path(source).exists() else "FILE"
    shown = f"   or   ciga explain {out} {file} --out report.html" if model.method.extracts else ""
    console.print(
        f"model: {out} ({size:.1f} MB). Next:  ciga predict {out} {file} --out predictions.csv{shown}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
