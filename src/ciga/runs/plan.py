"""One run from names to record: resolve, look up, train, write down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, overload

from ciga import options
from ciga.data.dataset import Dataset
from ciga.data.dataset import make as make_dataset
from ciga.errors import CigaError, UsageError
from ciga.files import write_tensors
from ciga.graphs.splits import Splits
from ciga.nn.gate import closed_columns
from ciga.progress import Progress, silent
from ciga.registry import load_plugin, plugin_of
from ciga.runs.records import Config, Runs, peak_memory_mb, versions
from ciga.runs.settings import Settings, default_preset, resolve
from ciga.runs.spec import RunSpec
from ciga.runs.types import HistoryRow, Record
from ciga.scoring.selection import default_selector
from ciga.training.device import pick_device
from ciga.training.fitted import Fitted
from ciga.training.members import fit_members

PROTOCOLS = ("ood", "iid")


@dataclass
class Plan:
    """A run that is fully specified and checked, but not started."""

    spec: RunSpec
    config: Config
    dataset: Dataset
    settings: Settings

    @property
    def hash(self) -> str:
        return self.config.hash

    def __str__(self) -> str:
        return str(self.spec)

    def with_seed(self, seed: int) -> Plan:
        """The same run with another seed; nothing is resolved anew."""
        return replace(self, spec=replace(self.spec, seed=seed), config=replace(self.config, seed=seed))

    def load(self, progress: Progress = silent) -> Splits:
        """The data under this run's protocol."""
        splits = self.dataset.build(progress)
        return splits.shuffled(self.config.seed) if self.config.protocol == "iid" else splits


@overload
def plan(dataset: RunSpec) -> Plan: ...
@overload
def plan(
    dataset: str,
    method: str,
    *,
    seed: int = 1,
    data: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: str = "",
    protocol: str = "ood",
    plugins: Sequence[str | Path] = (),
) -> Plan: ...
def plan(
    dataset: RunSpec | str,
    method: str = "",
    *,
    seed: int = 1,
    data: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: str = "",
    protocol: str = "ood",
    plugins: Sequence[str | Path] = (),
) -> Plan:
    """Resolve names and options into a configuration; every mistake surfaces here, before any work.

    Args:
        dataset: a dataset's name, or a whole `RunSpec`, which then says everything.
        method: a method's name.
        seed: of the run.
        data: options of the dataset.
        settings: of the method, its network and its schedule; they win over the preset.
        preset: where settings start; else `ciga.runs.settings.default_preset` of the dataset.
        protocol: `ood`, or `iid`: all parts pooled and dealt out again, for oracle rows.
        plugins: Python files that register what is named here.
    """
    if isinstance(dataset, RunSpec):
        return _resolve(dataset)
    files = tuple(str(p) for p in plugins)
    return _resolve(RunSpec(dataset, method, seed, data or {}, settings or {}, preset, protocol, files))


def _resolve(spec: RunSpec) -> Plan:
    if spec.protocol not in PROTOCOLS:
        raise UsageError(f"There is no protocol '{spec.protocol}': use {' or '.join(PROTOCOLS)}.")
    identity: dict[str, Any] = {f"plugin:{Path(p).name}": load_plugin(p) for p in spec.plugins}
    made = make_dataset(spec.dataset, spec.data)
    identity |= made.identity()
    chosen = options.as_dict(made)
    preset = spec.preset or default_preset(made.name)
    resolved = resolve(spec.method, spec.settings, dataset=made.name, data=chosen, preset=preset)
    if resolved.method.revision > 1:  # the first is not named, so that hashes from before revisions hold
        identity["revision"] = resolved.method.revision
    for found in (plugin_of(type(made)), plugin_of(type(resolved.method))):
        if found is not None:  # also where the plugin was not named here, but by CIGA_PLUGINS
            identity[f"plugin:{found.path.name}"] = found.digest
    fields = options.fields_of(type(made))
    changed = {f"data.{k}": v for k, v in chosen.items() if v != fields[k].default} | resolved.changed()
    config = Config(
        made.name, spec.method, spec.seed, chosen, resolved.flat(), spec.protocol, identity, changed
    )
    return Plan(spec, config, made, resolved)


def execute(
    plan: Plan,
    runs_dir: str | Path = "runs",
    *,
    device: str = "auto",
    threads: int = 1,
    progress: Progress = silent,
    on_epoch: Callable[[dict[str, Any], int], None] | None = None,
) -> Record:
    """Train what is planned and return its record; a finished run returns at once, a broken one continues.

    Args:
        plan: the run.
        runs_dir: where records are kept.
        device: auto, cpu, cuda or mps.
        threads: CPU threads of the run.
        progress: hears how building the data goes.
        on_epoch: called after every epoch with what went into the history, and the most epochs there may be.
            `validation` is added: the score by the rule to report, and by the one that every method has.
    """
    runs, config = Runs(runs_dir), plan.config
    done = runs.find(config)
    if done is not None:
        return done
    with runs.lock(config) as folder:
        done = runs.find(config)
        if done is not None:
            return done
        splits = plan.load(progress)
        rests = (plan.settings.method.selects_by_rest, False)
        rules = {default_selector(splits.judging, rest) for rest in rests}
        first = default_selector(splits.judging, rests[0])

        def epoch(row: dict[str, Any], epochs: int) -> None:
            assert on_epoch is not None
            scores = {
                rule.name: rule.value(row["metrics"][rule.split], splits.task.metric)
                for rule in sorted(rules, key=lambda rule: rule != first)
                if rule.split
            }
            on_epoch({**row, "validation": scores}, epochs)

        try:
            fitted = fit_members(
                plan.settings.method,
                splits,
                backbone=plan.settings.backbone,
                training=plan.settings.training,
                seed=config.seed,
                folder=folder,
                device=device,
                threads=threads,
                progress=progress,
                on_epoch=epoch if on_epoch is not None else None,
            )
        except CigaError as error:
            error.args = (f"{error} (run folder: {folder})",)
            raise
        record = describe(plan, splits, fitted, str(pick_device(device)), threads)
        for selector, state in fitted.states.items():
            if selector in fitted.selected:
                write_tensors(folder / f"weights.{selector}.safetensors", state, {"run": config.hash})
        runs.write(config, record)
        return record


def describe(plan: Plan, splits: Splits, fitted: Fitted, device: str, threads: int) -> Record:
    """The record of a finished run.

    Args:
        plan: What was planned.
        splits: The data.
        fitted: What training gave.
        device: What it ran on.
        threads: The number of threads it had.
    """
    config = plan.config
    closed = closed_columns(fitted.states.get(fitted.selector.name, {}))
    record: Record = {
        "hash": config.hash,
        "dataset": config.dataset,
        "method": config.method,
        "seed": config.seed,
        "protocol": config.protocol,
        "data": dict(config.data),
        "settings": dict(config.settings),
        "identity": dict(config.identity),
        "fingerprint": splits.fingerprint(),
        "notes": dict(splits.notes),
        "metric": splits.task.metric,
        "selection": fitted.selector.name,
        "selected": fitted.selected,
        "epochs": len(fitted.history),
        "seconds": fitted.seconds,
        "peak_memory_mb": peak_memory_mb(),
        "device": device,
        "threads": threads,
        "versions": versions(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "history": cast(list[HistoryRow], fitted.history),
    }
    if closed is not None:
        record["closed_features"] = closed
    return record
