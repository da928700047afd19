"""Attack everything, print one table, and fail unless nothing was lost, silent or a traceback.

python -m faults [--quick] [--seed N] [--only fuzz,lines]
python -m faults --guided [--minutes 10] [--only csv,records]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from faults.attempt import warm
from faults.tally import Tally, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a part of it, in under three minutes")
    parser.add_argument("--seed", type=int, default=0, help="another seed strikes at other places")
    parser.add_argument("--only", default="", help="only these attacks (or readers), separated by commas")
    parser.add_argument("--guided", action="store_true", help="damage files guided by coverage (atheris)")
    parser.add_argument("--minutes", type=float, default=10.0, help="--guided: for all readers together")
    parser.add_argument("--keep", type=Path, help="work here instead of a temporary folder, and keep it")
    given = parser.parse_args()
    began = time.monotonic()
    only = [word for word in given.only.split(",") if word]
    if given.guided:
        from faults import guided

        atheris = guided.instrument()
    warm()
    with tempfile.TemporaryDirectory(prefix="ciga-faults-") as place:
        home = Path(given.keep or place).resolve()
        home.mkdir(parents=True, exist_ok=True)
        if given.guided:
            tallies = guided.every(atheris, home / "guided", given.seed, given.minutes, only)
        else:
            tallies = attack(home, given.quick, given.seed, only)
    for tally in tallies:
        for note in tally.notes:
            print(note, end="\n\n")
    print(table(tallies))
    worst = max(tallies, key=lambda t: t.peak_mb)
    if worst.peak_mb:
        print(f"worst reader: {worst.attack}, {worst.peak_mb:.0f} MB above what it began with")
    print(f"seed {given.seed}, {time.monotonic() - began:.0f} s")
    return 0 if all(t.sound and t.tries for t in tallies) else 1


def attack(home: Path, quick: bool, seed: int, only: list[str]) -> list[Tally]:
    """The tallies of the attacks that were asked for."""
    from faults import fuzz, interruptions, lines

    arena: list[interruptions.Arena] = []

    def ground() -> interruptions.Arena:
        if not arena:
            arena.append(interruptions.Arena(home / "arena"))
        return arena[0]

    def rng(name: str) -> random.Random:
        return random.Random(f"{seed} {name}")

    swift = [c for c in interruptions.COMMANDS if not c.slow]
    plans: dict[str, Callable[[], list[Tally]]] = {
        "signals": lambda: [
            interruptions.signals(
                ground(), rng("signals"), 11 if quick else 66, swift if quick else interruptions.COMMANDS
            )
        ],
        "disks": lambda: [
            interruptions.disks(
                ground(), rng("disks"), 10 if quick else 66, swift if quick else interruptions.COMMANDS
            )
        ],
        "lines": lambda: [lines.wrong(ground().base, home / "lines", rng("lines"), 40 if quick else 300)],
        "fuzz": lambda: fuzz.every(home / "fuzz", seed, 20 if quick else 700),
    }
    if not quick:
        from faults import cluster

        plans["mounted"] = lambda: [
            t for t in [interruptions.small_disks(ground(), rng("mounted"), 30)] if t.tries
        ]
        plans["dask"] = lambda: [cluster.every(home / "dask")]
    unknown = set(only) - plans.keys()
    if unknown:
        raise SystemExit(
            f"There is no attack called {', '.join(sorted(unknown))}: choose from {', '.join(plans)}."
        )
    out: list[Tally] = []
    for name, plan in plans.items():
        if not only or name in only:
            print(f"attack: {name} …", file=sys.stderr, flush=True)
            out += plan()
    return out


if __name__ == "__main__":
    sys.exit(main())
