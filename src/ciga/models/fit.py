"""From a dataset to a model: the method and ERM over several seeds, collected with what they scored.

Training is the pool's (`ciga.runs.pool`), so a broken fit continues where it stopped, and the next fit
reuses ERM's runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ciga.data.check.report import check
from ciga.errors import CigaError, UsageError
from ciga.files import read_tensors
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.models.model import Model, featuriser_of
from ciga.models.shift import MEASURES, Gauge
from ciga.models.summary import advice, compare, plots
from ciga.nn.encoder import Spec
from ciga.progress import Progress, silent
from ciga.runs.plan import Plan, plan
from ciga.runs.pool.several import run_all
from ciga.runs.spec import RunSpec
from ciga.scoring.selection import default_selector
from ciga.training.members import APART

YARDSTICK = "erm"


def fit_ensemble(
    dataset: str,
    method: str,
    *,
    seeds: int = 3,
    data: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: str = "",
    plugins: Sequence[str | Path] = (),
    runs_dir: str | Path = "runs",
    device: str = "auto",
    progress: Progress = silent,
    on_epochs: Progress = silent,
) -> Model:
    """Train `method`, and ERM under the same conditions, with seeds 1…n; choose epochs by validation.

    Args:
        dataset: a dataset's name.
        method: a method's name.
        seeds: the number of networks.
        data: options of the dataset.
        settings: of the method, its network and its schedule; they win over the preset.
        preset: where settings start; else `ciga.runs.settings.default_preset` of the dataset.
        plugins: Python files that register what is named here.
        runs_dir: where the runs are kept.
        device: auto, cpu, cuda or mps.
        progress: hears how building the data goes.
        on_epochs: hears of epochs done over all runs, of the most there may be, and the latest news.
    """
    given = dict(settings or {})
    if str(given.setdefault("members", 1)) != "1":
        raise UsageError(
            "A model has a network for every seed: say how many with --seeds, and leave members out."
        )
    spec = RunSpec(
        dataset, method, data=data or {}, settings=given, preset=preset, plugins=tuple(map(str, plugins))
    )
    plans = _seeded(spec, seeds)
    rivals: list[Plan] = []
    if method != YARDSTICK:
        # The same network and schedule: what differs is the objective.
        groups = (plans[0].settings.backbone, plans[0].settings.training)
        same = {k: v for group in groups for k, v in vars(group).items()}
        rivals = _seeded(replace(spec, method=YARDSTICK, settings=same), seeds)
    splits = plans[0].load(progress)  # once here, so that the workers find it in the cache
    records = run_all([*plans, *rivals], runs_dir, device=device, on_epochs=on_epochs)
    return collect(plans, records[:seeds], runs_dir, splits, rivals, records[seeds:])


def _seeded(spec: RunSpec, seeds: int) -> list[Plan]:
    """The run with seeds 1…n, resolved once."""
    first = plan(spec)
    return [first.with_seed(seed) for seed in range(1, seeds + 1)]


# ---------------------------------------------------------------- from runs to a model


def collect(
    plans: Sequence[Plan],
    records: Sequence[Mapping[str, Any]],
    runs_dir: str | Path,
    splits: Splits,
    rivals: Sequence[Plan] = (),
    rival_records: Sequence[Mapping[str, Any]] = (),
) -> Model:
    """The model of finished runs that differ in their seed only, with its gauge and its report data."""
    model = _members(plans, runs_dir, splits)
    model.gauge = Gauge.calibrate(model.embed, splits)
    rival = _members(rivals, runs_dir, splits) if rivals else None
    runs = {model.method_name: records, **({rival.method_name: rival_records} if rival else {})}
    model.report_data = report_data(model, splits, runs, rival)
    return model


def _members(plans: Sequence[Plan], runs_dir: str | Path, splits: Splits) -> Model:
    spec, first = Spec.of(splits), plans[0]
    rule = default_selector(list(splits), first.settings.method.selects_by_rest).name
    members, seeds = [], []
    for planned in plans:
        file = Path(runs_dir) / planned.config.hash / f"weights.{rule}.safetensors"
        try:
            networks = planned.settings.networks(spec, read_tensors(file)[0])
        except RuntimeError as error:
            raise CigaError(f"{file} does not fit its run: delete its folder to run it again.") from error
        members += networks
        seeds += [planned.config.seed + APART * i for i in range(len(networks))]
    source = {"dataset": first.config.dataset, "options": dict(first.config.data)}
    return Model(
        method_name=first.config.method,
        settings=first.settings.flat(),
        spec=spec,
        classes=list(splits.task.class_names or map(str, range(splits.task.classes))),
        metric=splits.task.metric,
        seeds=seeds,
        members=members,
        selection=rule,
        featuriser=featuriser_of([splits.train], source),
        source=source,
        fingerprint=splits.fingerprint(),
    )


def report_data(
    model: Model,
    splits: Splits,
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    rival: Model | None = None,
) -> dict[str, Any]:
    """What the report and the summary show of training: plain values, ready for JSON."""
    names = [name for name in splits if name != "train"] or ["train"]
    where = next(name for name in ("ood_test", "id_test", "ood_val", "id_val", "train") if name in splits)
    pictures, flagged = {}, {}
    comparison = None
    for name in names:
        every, shift = _scan(model, splits[name])
        pictures[name] = plots(every.mean(0), splits[name].y)
        flagged[name] = shift
        if name == where and rival is not None:
            theirs, _ = _scan(rival, splits[name])
            comparison = compare(every, theirs, splits[name].y, splits.task.metric)
    told = {
        **outline(runs, splits.task.metric, model.selection),
        "pictures": pictures,
        "flagged": flagged,
        "where": where,
        "comparison": comparison,
        "advice": advice(
            model.method_name,
            comparison,
            len(runs[model.method_name]),
            where,
            splits.task.metric,
            model.method.extracts,
        ),
        "data": check(splits).as_dict(),
        "finished": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }
    told["data"]["rejected"] = len(told["data"]["rejected"])  # the rows stay with the data
    plain: dict[str, Any] = _plain(told)
    return plain


def outline(runs: Mapping[str, Sequence[Mapping[str, Any]]], metric: str, selection: str) -> dict[str, Any]:
    """Scores and learning curves of each method's runs: the least that report data has."""
    found: dict[str, Any] = _plain(
        {
            "metric": metric,
            "selection": selection,
            "rules": {name: some[0].get("selection", selection) for name, some in runs.items()},
            "scores": {name: _scores(records) for name, records in runs.items()},
            "histories": {
                name: [_short(r.get("history", ()), metric) for r in some] for name, some in runs.items()
            },
            "seconds": {name: [r["seconds"] for r in records] for name, records in runs.items()},
            "hashes": {name: [r["hash"] for r in some] for name, some in runs.items() if "hash" in some[0]},
        }
    )
    return found


def _scan(model: Model, store: GraphStore) -> tuple[Tensor, dict[str, float]]:
    """Each member's probabilities [S, n, C], and how much of the data the gauge flags, by measure."""
    every, ratios = [], []
    for batch in store.batches(256, chunk=4):
        answer = model.predict(batch)
        every.append(answer.every)
        if model.gauge is not None:
            ratios.append(model.gauge.measure(batch, answer.embedded).ratio)
    out: dict[str, float] = {}
    if ratios:
        above = torch.cat(ratios) > 1
        out = {"any": float(above.any(1).double().mean())}
        out |= {name: float(above[:, i].double().mean()) for i, name in enumerate(MEASURES)}
    return torch.cat(every, 1), out


def _scores(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """selector -> split -> metric -> one value for each seed."""
    out: dict[str, Any] = {}
    for selector in records[0]["selected"]:
        mine = [r["selected"][selector] for r in records]
        out[selector] = {
            split: {metric: [m[split][metric] for m in mine] for metric in mine[0][split]}
            for split in mine[0]
            if split not in ("epoch", "selector")
        }
        chosen = [m["epoch"] for m in mine]
        out[selector]["epoch"] = [e for c in chosen for e in (c if isinstance(c, list) else [c])]
    return out


def _short(history: Sequence[Mapping[str, Any]], metric: str) -> list[dict[str, Any]]:
    """The learning curves: loss terms, and the metric of each split."""
    return [
        {
            "epoch": row["epoch"],
            "terms": row["terms"],
            "metrics": {split: {metric: m[metric]} for split, m in row["metrics"].items()},
        }
        for row in history
    ]


def _plain(value: Any) -> Any:
    """The same with floats of six digits and None for what is not a number: small, and valid JSON."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else value.item()
