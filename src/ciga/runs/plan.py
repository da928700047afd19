"""One run from names to record: resolve, look up, train, write down."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ciga import options
from ciga.data.dataset import Dataset
from ciga.data.dataset import make as make_dataset
from ciga.errors import CigaError, UsageError
from ciga.files import write_tensors
from ciga.graphs.splits import Splits
from ciga.progress import Progress, silent
from ciga.registry import load_plugin
from ciga.runs.records import Config, Runs, peak_memory_mb, versions
from ciga.runs.settings import DEFAULT_PRESET, Settings, resolve
from ciga.training.loop import Fitted, pick_device
from ciga.training.members import fit_members

PROTOCOLS = ("ood", "iid")


@dataclass
class Plan:
    """A run that is fully specified and checked, but not started."""

    config: Config
    dataset: Dataset
    settings: Settings

    def load(self, progress: Progress = silent) -> Splits:
        """The data under this run's protocol."""
        splits = self.dataset.build(progress)
        return splits.shuffled(self.config.seed) if self.config.protocol == "iid" else splits


def plan(
    dataset: str,
    method: str,
    *,
    seed: int = 1,
    data: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: str = DEFAULT_PRESET,
    protocol: str = "ood",
    plugins: Sequence[str | Path] = (),
) -> Plan:
    """Resolve names and options into a configuration; every mistake surfaces here, before any work."""
    if protocol not in PROTOCOLS:
        raise UsageError(f"There is no protocol '{protocol}': use {' or '.join(PROTOCOLS)}.")
    identity: dict[str, Any] = {f"plugin:{Path(p).name}": load_plugin(p) for p in plugins}
    made = make_dataset(dataset, data)
    identity |= made.identity()
    chosen = options.as_dict(made)
    resolved = resolve(method, settings, dataset=dataset, data=chosen, preset=preset)
    if resolved.method.revision > 1:  # the first is not named, so that hashes from before revisions hold
        identity["revision"] = resolved.method.revision
    fields = options.fields_of(type(made))
    changed = {f"data.{k}": v for k, v in chosen.items() if v != fields[k].default} | resolved.changed()
    config = Config(dataset, method, seed, chosen, resolved.flat(), protocol, identity, changed)
    return Plan(config, made, resolved)


def execute(
    plan: Plan,
    runs_dir: str | Path = "runs",
    *,
    device: str = "auto",
    threads: int = 1,
    progress: Progress = silent,
    on_epoch: Callable[[dict[str, Any], int], None] | None = None,
) -> dict[str, Any]:
    """Train what is planned and return its record; a finished run returns at once, a broken one continues."""
    runs, config = Runs(runs_dir), plan.config
    done = runs.find(config)
    if done is not None:
        return done
    with runs.lock(config) as folder:
        done = runs.find(config)
        if done is not None:
            return done
        splits = plan.load(progress)
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
                on_epoch=on_epoch,
            )
        except CigaError as error:
            error.args = (f"{error} (run folder: {folder})",)
            raise
        record = describe(plan, splits, fitted, str(pick_device(device)), threads)
        for selector, state in fitted.states.items():
            if selector in fitted.selected:
                write_tensors(folder / f"weights.{selector}.safetensors", state, {"run": config.hash})
        runs.write(config, record)
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)
        for member in folder.glob("member-*"):
            shutil.rmtree(member)
        return record


def describe(plan: Plan, splits: Splits, fitted: Fitted, device: str, threads: int) -> dict[str, Any]:
    """The record of a finished run."""
    config = plan.config
    return {
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
        "history": fitted.history,
    }
