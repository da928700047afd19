"""`python -m benchmarks`: measure, print one table, write latest.json, warn of what became slower."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One thread: see ciga.cli. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from benchmarks.timing import Section

LATEST = Path(__file__).with_name("latest.json")
#: Where the committed figures' plot of the scaling run stands.
PICTURE = LATEST.parents[1] / "docs" / "images" / "scaling.svg"
SECTIONS = ("store", "epochs", "methods", "imports", "featurise", "scale")
#: Beyond this share a ratio counts as having become worse.
TOLERANCE = 0.2


def sections() -> dict[str, Callable[[int, bool], Section]]:
    """The parts of the suite, by name."""
    import torch

    from benchmarks import epochs, featurise, imports, scale, store

    torch.set_num_threads(1)
    found = (
        store.measure,
        epochs.measure,
        epochs.measure_methods,
        imports.measure,
        featurise.measure,
        scale.measure,
    )
    return dict(zip(SECTIONS, found, strict=True))


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import torch
    import torch_geometric

    names = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
    }


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def higher_is_better(key: str) -> bool:
    """Ratios of a peer's time over ours; all others are ours over something."""
    return key.endswith(("_over_ours", "_one_core_over_all")) or key.startswith("epoch_pyg_over")


def worse(now: dict[str, float], before: dict[str, float]) -> list[str]:
    """A sentence for each ratio that is more than 20 % worse than it was."""
    out = []
    for key in sorted(now.keys() & before.keys()):
        change = before[key] / now[key] if higher_is_better(key) else now[key] / before[key]
        if change > 1 + TOLERANCE:
            out.append(f"{key} was {before[key]:.3g} and is {now[key]:.3g}: {change - 1:.0%} worse.")
    return out


def run(names: list[str], repeat: int, quick: bool) -> dict[str, Any]:
    """Measure the sections called `names`: what goes into latest.json."""
    report: dict[str, Any] = {"machine": machine(), "repeat": repeat, "quick": quick}
    report |= {key: {} for key in ("ratios", "spread", "meaning", "aim", "seconds", "skipped", "extra")}
    table = sections()
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        found = table[name](repeat, quick)
        for line in found.ratios:
            report["ratios"][line.key] = line.value
            report["spread"][line.key] = list(line.spread)
            report["meaning"][line.key] = line.meaning
            report["aim"][line.key] = line.aim
        report["seconds"] |= found.seconds
        report["skipped"] |= found.skipped
        report["extra"] |= found.extra
    return report


def show(report: dict[str, Any]) -> None:
    """The table on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table("ratio", "median", "smallest … largest", "aim", "what")
    for key, value in report["ratios"].items():
        low, high = report["spread"][key]
        table.add_row(
            key, f"{value:.3g}", f"{low:.3g} … {high:.3g}", report["aim"][key], report["meaning"][key]
        )
    console = Console(width=max(Console().width, 150))
    console.print(table)
    for row in report["extra"].get("scale", ()):
        seconds = "  ".join(f"{k} {v:.3g} s" for k, v in row["seconds"].items())
        memory = "  ".join(f"{k} {v:.0f} MB" for k, v in row["memory_mb"].items())
        console.print(f"{row['graphs']:>9,} graphs: {seconds}; peak memory: {memory}")
    for what, why in report["skipped"].items():
        console.print(f"not measured: {what} ({why})")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--repeat", type=int, default=3, help="rounds of every measurement")
    parser.add_argument("--quick", action="store_true", help="a few graphs: does it run? Not for figures")
    parser.add_argument("--compare", type=Path, default=LATEST, help="warn against these figures")
    parser.add_argument(
        "--output", type=Path, help="where to write (default: benchmarks/latest.json, not with --quick)"
    )
    options = parser.parse_args(words)
    names = options.only.split(",")
    unknown = [name for name in names if name not in SECTIONS]
    if unknown or options.repeat < 1:
        parser.error(f"--only takes some of {', '.join(SECTIONS)}, and --repeat a number from 1.")
    before = json.loads(options.compare.read_text()) if options.compare.exists() else {}
    report = run(names, options.repeat, options.quick)
    show(report)
    if not options.quick:
        for sentence in worse(report["ratios"], before.get("ratios", {})):
            print(f"warning: {sentence}", file=sys.stderr)
    output = options.output or (None if options.quick else LATEST)
    if output is None:
        return
    if output.exists() and len(names) < len(SECTIONS):  # what was not measured now stays as it was
        old = json.loads(output.read_text())
        report |= {
            k: {**old.get(k, {}), **v} for k, v in report.items() if isinstance(v, dict) and k != "machine"
        }
    if "scale" in report["extra"]:
        from benchmarks.scale import plot

        plot(report["extra"]["scale"], PICTURE if output == LATEST else output.with_suffix(".svg"))
    output.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written: {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
