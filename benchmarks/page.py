"""Write the measured tables into docs/speed.md: `python -m benchmarks.page`.

The page's prose is written by hand. Between `<!-- NAME -->` and `<!-- /NAME -->` stand tables that come from
latest.json and before.json, and a test asks whether they do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.__main__ import LATEST, PICTURE
from benchmarks.versus import WRITTEN

PAGE = PICTURE.parents[1] / "speed.md"
#: The shapes of data, in the order of the columns, and what they are called.
SHAPES = {"": "SPMotif", "_ec50": "DrugOOD EC50", "_cmnist": "CMNIST-sp", "_dd": "DD"}
#: Of the paper (its appendix, DrugOOD-scaffold): time of training in units of ERM.
PAPER = {
    "irm": 1.1, "cnc": 1.2, "asap": 1.9, "ciga-v1": 5.0, "ciga-v2": 5.7, "eiil": 8.6, "dir": 13.3, "gib": 37,
}  # fmt: skip


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def number(value: float) -> str:
    """Three digits, never in powers of ten."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def measured(value: float, spread: Sequence[float]) -> str:
    return f"{number(value)} ({number(spread[0])} … {number(spread[1])})"


def met(value: float, aim: str) -> str:
    """Does a value keep to an aim like `<= 3`?"""
    found = re.fullmatch(r"(<=|<|>=) ([\d.]+)", aim)
    if not found:
        return ""
    limit = float(found[2])
    kept = {"<=": value <= limit, "<": value < limit, ">=": value >= limit}[found[1]]
    return "yes" if kept else "**no**"


def epochs(report: dict[str, Any]) -> str:
    keys = [
        ("CIGAv1 / ERM", "epoch_ciga_v1_over_erm"),
        ("CIGAv2, hinge detached / ERM", "epoch_ciga_v2_over_erm"),
        ("CIGAv2 / ERM", "epoch_ciga_v2_attached_over_erm"),
        ("ERM / bare-tensor loop", "epoch_erm_over_bare_loop"),
        ("PyG's loader and layers / ERM", "epoch_pyg_over_erm"),
        ("building batches / ERM", "batches_share_of_erm"),
    ]
    rows = []
    for name, key in keys:
        cells = [
            measured(report["ratios"][key + mark], report["spread"][key + mark])
            if key + mark in report["ratios"]
            else "not measured"
            for mark in SHAPES
        ]
        rows.append([name, *cells, report["aim"][key]])
    return table(["an epoch of", *SHAPES.values(), "aim"], rows)


def others(report: dict[str, Any]) -> str:
    keys = (
        "batches_pyg_over_ours", "batches_loop_over_ours", "import_ciga_over_torch", "help_over_torch",
        "runs_over_torch", "import_estimator_over_torch", "molecules_one_core_over_all",
        "superpixels_one_core_over_all",
    )  # fmt: skip
    rows = []
    for key in keys:
        if key in report["ratios"]:
            value, aim = report["ratios"][key], report["aim"][key]
            rows.append(
                [report["meaning"][key], measured(value, report["spread"][key]), aim, met(value, aim)]
            )
    return table(["what", "ratio", "aim", "met"], rows)


def methods(report: dict[str, Any]) -> str:
    found = report["extra"]["methods"]
    rows = []
    for name, line in sorted(found.items(), key=lambda item: item[1]["ratio"]):
        aim = {"ciga-v2": "<= 3.5"}.get(name, line["aim"])
        what = f"`{name}`" + (" (its whole fit)" if line["fit"] else "")
        paper = number(PAPER[name]) if name in PAPER else ""
        rows.append([what, measured(line["ratio"], line["spread"]), aim, met(line["ratio"], aim), paper])
    return table(["method", "time / ERM's", "aim", "met", "paper"], rows)


def scale(report: dict[str, Any]) -> str:
    stages = ("generate", "pack", "open", "epoch", "predict")
    rows = [
        [
            f"{row['graphs']:,}",
            *(number(row["seconds"][stage]) for stage in stages),
            *(f"{row['memory_mb'][name]:.0f}" for name in ("build", "train", "predict")),
            f"{row['file_mb']:.0f}",
        ]
        for row in report["extra"]["scale"]
    ]
    head = [
        "graphs",
        *(f"{stage}, s" for stage in stages),
        "MB: build",
        "MB: train",
        "MB: predict",
        "file, MB",
    ]
    return table(head, rows)


def before(report: dict[str, Any], earlier: dict[str, Any]) -> str:
    names = {mark.removeprefix("_") or "spmotif": name for mark, name in SHAPES.items()}
    jobs = {"erm": "ERM", "ciga-v2": "CIGAv2, hinge detached", "ciga-v2-attached": "CIGAv2"}
    rows = []
    for shape, found in earlier["shapes"].items():
        for job, name in jobs.items():
            line = found[job]
            seconds = (" ".join(number(s) for s in line[key]) for key in ("before_seconds", "now_seconds"))
            rows.append([names[shape], name, *seconds, measured(line["before_over_now"], line["spread"])])
    return table(["data", "method", "before, s", "now, s", "before / now"], rows)


def machine(report: dict[str, Any]) -> str:
    it = report["machine"]
    return (
        f"{it['processor']}, {it['cores']} cores, {it['threads']} thread in use; {it['system']}, Python "
        f"{it['python']}, torch {it['torch']}, PyG {it['torch_geometric']}. "
        f"{report['repeat']} rounds of each."
    )


def page(text: str, report: dict[str, Any], earlier: dict[str, Any]) -> str:
    """The page with its tables made anew."""
    parts = {
        "machine": machine(report),
        "epochs": epochs(report),
        "others": others(report),
        "methods": methods(report),
        "scale": scale(report),
        "before": before(report, earlier),
    }
    for name, part in parts.items():
        pattern = rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- /{name} -->)"
        text, count = re.subn(pattern, lambda _, part=part: part, text, count=1, flags=re.DOTALL)
        if not count:
            raise SystemExit(f"The page has no place for '{name}'.")
    return text


def main() -> None:
    report, earlier = json.loads(LATEST.read_text()), json.loads(Path(WRITTEN).read_text())
    PAGE.write_text(page(PAGE.read_text(), report, earlier))
    print(f"written: {PAGE.relative_to(LATEST.parents[1])}")


if __name__ == "__main__":
    main()
