"""`ciga bench --dry-run`: what would run, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ciga.cli.bench_options import ranges
from ciga.errors import counted

if TYPE_CHECKING:
    from ciga.runs.plan import Plan
    from ciga.runs.records import Records
    from ciga.runs.spec import RunSpec


def show_plan(
    name: str,
    todo: Sequence[Plan],
    missing: Sequence[Plan],
    failures: int,
    records: Records,
    workers: int | None,
) -> None:
    """What would run on each dataset, and how long it takes.

    Args:
        name: Of the table or figure.
        todo: All runs that it needs.
        missing: Those that are not recorded.
        failures: The number of runs that failed before.
        records: The recorded runs, from which times are estimated.
        workers: The number of processes; None for one per core.
    """
    from rich.console import Console

    from ciga.cli.screen import listing, tell
    from ciga.parallel import cores
    from ciga.runs.estimate import Estimate, hours

    at_once, estimate = workers or cores(), Estimate(records)
    groups: dict[str, list[Plan]] = {}
    for planned in missing:
        given = ", ".join(f"{k}={v}" for k, v in planned.spec.data.items())
        groups.setdefault(planned.spec.dataset + (f"\n({given})" if given else ""), []).append(planned)
    view = listing("dataset", "methods: seeds", "runs", "time")
    for data, mine in groups.items():
        different: dict[str, list[RunSpec]] = {}  # runs that differ in their seed only
        for planned in mine:
            key = str(replace(planned.spec, seed=0))
            different.setdefault(key, []).append(planned.spec)
        kinds = [specs[0] for specs in different.values()]
        alike: dict[str, list[str]] = {}
        for specs in different.values():
            numbers = ranges([spec.seed for spec in specs])
            alike.setdefault(numbers, []).append(_method_of(specs[0], kinds))
        words = "\n".join(f"{', '.join(methods)}: {numbers}" for numbers, methods in alike.items())
        view.add_row(data, words, str(len(mine)), hours(estimate.total(p.config for p in mine)))
    # Options and methods break between words where the screen is narrow; numbers are never cut.
    for column in view.columns[:2]:
        column.overflow = "fold"
    for column in view.columns[2:]:
        column.no_wrap = True
    if groups:
        Console().print(view, markup=False, highlight=False)
    total = estimate.total(p.config for p in missing)
    failed = f", {failures} failed before (--retry tries them again)" if failures else ""
    tell(
        f"{name}: {counted(len(todo), 'run')}, {len(todo) - len(missing)} recorded, "
        f"{len(missing)} missing{failed}; about {hours(total)} on one core, "
        f"{hours(total / at_once)} on {at_once}."
    )


def _method_of(spec: RunSpec, beside: Sequence[RunSpec]) -> str:
    """The method of a run; with its preset and settings where runs beside it differ in them."""
    kind = " (IID)" if spec.protocol == "iid" else ""
    if not kind and len({s.preset for s in beside}) > 1:
        kind = f" ({spec.preset})"
    alike = (spec.method, spec.preset, spec.protocol)
    same = {str(s.settings) for s in beside if (s.method, s.preset, s.protocol) == alike}
    given = ", ".join(f"{k}={v}" for k, v in spec.settings.items()) if len(same) > 1 else ""
    return f"{spec.method}{kind}" + (f" ({given})" if given else "")
