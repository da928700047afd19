"""From a dataset to a model: several methods over several seeds, collected with what they scored.

`auto` mixes its candidates; several methods are compared, and the best on validation rows answers; one method
is trained beside yardsticks, a forest and ERM. All that was trained stays in the model, to be used alone.
Training is the pool's (`ciga.runs.pool`), so a broken fit continues where it stopped, and the next fit reuses
the yardsticks' runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ciga import options
from ciga.errors import CigaError, UsageError, unknown
from ciga.files import read_tensors
from ciga.graphs.splits import Splits
from ciga.methods.base import methods
from ciga.models.featuriser import featuriser_of
from ciga.models.mixture import best_shares
from ciga.models.model import Model
from ciga.models.neighbours import Neighbours
from ciga.models.report_data import AUTO, YARDSTICK, report_data, scan_parts
from ciga.models.shift import Gauge
from ciga.models.summary import choice, score
from ciga.models.temperature import best_temperature, cooled
from ciga.nn.encoder import Backbone, Spec
from ciga.progress import Progress, silent
from ciga.registry import load_plugin
from ciga.runs.plan import Plan, plan
from ciga.runs.pool.several import run_all
from ciga.runs.spec import RunSpec
from ciga.scoring import metrics
from ciga.scoring.selection import default_selector
from ciga.training.members import APART
from ciga.training.schedule import Training

#: What `auto` mixes unless told otherwise.
CANDIDATES = ("forest", "erm", "ciga-v2", "ciga-complement")
#: What a single method is trained beside: the model that chemists trust, and the plain network.
YARDSTICKS = ("forest", YARDSTICK)
#: A method with a smaller share than this says so little that its subgraphs do not explain the answer.
LITTLE = 0.1


def fit_ensemble(
    dataset: str,
    method: str,
    *,
    candidates: Sequence[str] = (),
    seeds: int = 3,
    data: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    own: Mapping[str, Mapping[str, Any]] | None = None,
    preset: str = "",
    plugins: Sequence[str | Path] = (),
    runs_dir: str | Path = "runs",
    device: str = "auto",
    progress: Progress = silent,
    on_epochs: Progress = silent,
) -> Model:
    """Train what `method` says, each with seeds 1…n; choose epochs, shares and the best by validation.

    Args:
        dataset: a dataset's name.
        method: a method's name, to be trained beside the yardsticks; several with commas between them; or
            `auto`.
        candidates: what `auto` mixes; `CANDIDATES` unless given.
        seeds: the number of networks of each method.
        data: options of the dataset.
        settings: of the methods, their network and their schedule; they win over the preset.
        own: settings of single methods, which win over `settings`.
        preset: where settings start; else `ciga.runs.settings.default_preset` of the dataset.
        plugins: Python files that register what is named here.
        runs_dir: where the runs are kept.
        device: auto, cpu, cuda or mps.
        progress: hears how building the data goes.
        on_epochs: hears of epochs done over all runs, of all that are expected, and the latest news.
    """
    given = dict(settings or {})
    if str(given.setdefault("members", 1)) != "1":
        raise UsageError(
            "A model has a network for every seed: say how many with --seeds, and leave members out."
        )
    files = tuple(map(str, plugins))
    for file in files:
        load_plugin(file)
    names = methods_of(method, candidates)
    beside = yardsticks_of(method, names)
    plans: dict[str, list[Plan]] = {}
    for name, known in known_settings([*names, *beside], given).items():
        values = {**known, **(own or {}).get(name, {})}
        if name == YARDSTICK and name in beside:
            # The same network and schedule: what differs is the objective.
            groups = (plans[names[0]][0].settings.backbone, plans[names[0]][0].settings.training)
            values = {k: v for group in groups for k, v in vars(group).items()}
        spec = RunSpec(dataset, name, data=data or {}, settings=values, preset=preset, plugins=files)
        plans[name] = _seeded(spec, seeds)
    splits = plans[names[0]][0].load(progress)  # once here, so that the workers find it in the cache
    records = run_all(
        [p for some in plans.values() for p in some], runs_dir, device=device, on_epochs=on_epochs
    )
    runs = {name: records[i * seeds : (i + 1) * seeds] for i, name in enumerate(plans)}
    how = "mix" if method == AUTO else "best" if len(names) > 1 else "first"
    return assemble(plans, runs, runs_dir, splits, how)


def methods_of(method: str, candidates: Sequence[str] = ()) -> list[str]:
    """The methods to train: those that are named, or the candidates of `auto`."""
    if candidates and method != AUTO:
        raise UsageError(f"--candidates is for --method auto; {method} is a method: leave one of them out.")
    wanted = (candidates or CANDIDATES) if method == AUTO else method.split(",")
    names = list(dict.fromkeys(name.strip() for name in wanted))
    if AUTO in names:
        raise UsageError("auto stands alone: name the methods it mixes with --candidates a,b,c.")
    for name in names:
        methods[name]  # one that does not exist is refused here
    return names


def yardsticks_of(method: str, names: Sequence[str]) -> list[str]:
    """What is trained beside the methods `names`, which `method` stands for: nothing, unless it is one."""
    return [name for name in YARDSTICKS if name not in names] if [method] == [*names] else []


def known_settings(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For each method those of the settings that it has; what none has is refused."""
    known = {
        name: {key for kind in (methods[name], Backbone, Training) for key in options.fields_of(kind)}
        for name in names
    }
    every = set().union(*known.values())
    for key in given:
        if key not in every:
            raise unknown(f"setting of {', '.join(names)}", key, every)
    return {name: {k: v for k, v in given.items() if k in own} for name, own in known.items()}


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
    """The model of finished runs that differ in their seed only, with its gauge and its report data.

    Args:
        plans: The runs.
        records: Their records, in the same order.
        runs_dir: Where their weights are.
        splits: The data they were trained on.
        rivals: Runs of another method, to compare with.
        rival_records: The records of those.
    """
    every = {some[0].config.method: some for some in (plans, rivals) if some}
    runs = dict(zip(every, (records, rival_records), strict=False))
    return assemble(every, runs, runs_dir, splits, cool=False)


def assemble(
    plans: Mapping[str, Sequence[Plan]],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    runs_dir: str | Path,
    splits: Splits,
    how: str = "first",
    cool: bool = True,
) -> Model:
    """One model of several methods' finished runs.

    Args:
        plans: of each method.
        runs: the records of the same.
        runs_dir: where they are.
        splits: the data.
        how: `first`, `best` (on validation rows) or `mix`: who gives the answer.
        cool: give each method the temperature that validation rows ask for, shifted ones if there are any.
    """
    # In a mixture the answer counts: no method chooses its epoch by what the rest of a graph tells.
    rule = default_selector(splits.judging).name if how == "mix" else ""
    found = {name: _members(some, runs_dir, splits, rule) for name, some in plans.items()}
    neighbours = Neighbours.of(splits.train)
    for model in found.values():
        model.gauge = Gauge.calibrate(model.embed, splits, neighbours=neighbours)
    scans = {name: scan_parts(model, splits) for name, model in found.items()}
    parts = [part for part in ("id_val", "ood_val") if part in splits.judging]
    y = torch.cat([splits[part].y for part in parts]) if parts else torch.zeros(0, dtype=torch.long)
    judged = _by_other_rows(plans, scans, runs_dir, splits) if how != "first" or cool else scans
    if cool and parts:
        for name, one in found.items():
            one.temperature = best_temperature(judged[name][parts[-1]], splits[parts[-1]].y)
        scans, judged = _cooled(scans, found), _cooled(judged, found)
    said = {
        name: torch.cat([scan[part].mean(0) for part in parts] or [torch.zeros(0, splits.task.classes)])
        for name, scan in judged.items()
    }
    scores = {name: score(p, y, splits.task.metric) if len(y) else math.nan for name, p in said.items()}
    first, shares = next(iter(found)), dict[str, float]()
    if how == "mix":
        shares = best_shares(said, y)
        extracting = [name for name in found if found[name].method.extracts] or list(found)
        first = max(extracting, key=lambda name: shares[name])
    elif how == "best" and parts:
        sign = -1 if splits.task.metric in metrics.LOWER_IS_BETTER else 1
        first = max(
            found, key=lambda name: sign * scores[name] if scores[name] == scores[name] else -math.inf
        )
    model = found.pop(first)
    model.rivals, model.shares = found, shares
    ordered = {
        name: [{**record, "selection": rule} if rule else record for record in runs[name]]
        for name in (first, *found)
    }
    model.report_data = report_data(model, splits, ordered, scans)
    if how != "first":
        told = choice([first, *found], scores, len(y), splits.task.metric, shares)
        if shares and model.method.extracts:
            told += f" Subgraphs are those of {first}, {100 * shares[first]:.0f} % of the answer"
            if shares[first] < LITTLE:
                told += f": they explain little of it (--member {first} answers by them alone)"
            told += "."
        model.report_data |= {"made_of": told, "shares": shares}
    return model


def _cooled(
    scans: Mapping[str, Mapping[str, Tensor]], models: Mapping[str, Model]
) -> dict[str, dict[str, Tensor]]:
    """What each method says of each part, at its temperature."""
    return {
        name: {part: cooled(every, models[name].temperature) for part, every in scan.items()}
        for name, scan in scans.items()
    }


def _by_other_rows(
    plans: Mapping[str, Sequence[Plan]],
    scans: Mapping[str, Mapping[str, Tensor]],
    runs_dir: str | Path,
    splits: Splits,
) -> dict[str, dict[str, Tensor]]:
    """What each method says of validation rows that did not choose its epochs.

    On the rows that did, a network looks better than it is, and a forest, which has no epochs, does not. So
    on `ood_val` networks answer with the epoch that `id_val` chose.
    """
    found = {name: dict(scan) for name, scan in scans.items()}
    for name, some in plans.items() if {"id_val", "ood_val"} <= set(splits.judging) else ():
        if some[0].settings.method.closed_form:
            continue
        other = _members(some, runs_dir, splits, "id-val")
        found[name]["ood_val"] = scan_parts(other, splits, ["ood_val"])["ood_val"]
    return found


def _members(plans: Sequence[Plan], runs_dir: str | Path, splits: Splits, rule: str = "") -> Model:
    spec, first = Spec.of(splits), plans[0]
    rule = rule or default_selector(splits.judging, first.settings.method.selects_by_rest).name
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
