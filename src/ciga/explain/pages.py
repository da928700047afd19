"""Reports of finished runs: of one run, or of the seeds of a method beside those of a rival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ciga.data.reading.row_names import row_names
from ciga.explain.examine import GALLERY, examine
from ciga.explain.report import report_model
from ciga.models.fit import collect
from ciga.progress import Progress, silent
from ciga.runs.plan import Plan


def report_runs(
    plans: Sequence[Plan],
    records: Sequence[Mapping[str, Any]],
    runs_dir: str | Path,
    path: str | Path,
    *,
    rivals: Sequence[Plan] = (),
    rival_records: Sequence[Mapping[str, Any]] = (),
    title: str | None = None,
    gallery: int = GALLERY,
    progress: Progress = silent,
) -> None:
    """Write the page of runs that differ in their seed only, with what the model sees in the test graphs.

    Args:
        plans: The runs; they differ in their seed only.
        records: Their records, in the same order.
        runs_dir: Where their weights are.
        path: The HTML file.
        rivals: Runs of another method, to compare with.
        rival_records: The records of those.
        title: Of the page; None for method and dataset.
        gallery: The largest number of graphs to draw.
        progress: Told how far it is.
    """
    splits = plans[0].load(progress)
    model = collect(plans, records, runs_dir, splits, rivals, rival_records)
    where = str(model.report_data["where"])
    names = row_names(splits[where], model.source)
    examined = examine(model, splits[where], names=names, gallery=gallery, progress=progress)
    config = plans[0].config
    title = title or f"{config.method} on {config.dataset}"
    report_model(model, examined, path, title=title, subject=f"{where} of {config.dataset}")
