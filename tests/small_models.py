"""Small fitted models and tables of molecules that several tests share."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ciga.data import Splits, Task, load
from ciga.models.featuriser import featuriser_of
from ciga.models.model import Model
from ciga.models.report_data import report_data
from ciga.models.shift import Gauge
from ciga.nn.encoder import Spec
from ciga.runs.settings import resolve
from ciga.scoring.selection import default_selector
from ciga.training.loop import fit

#: What `molecule_model` is trained on.
MOLECULES = ("CCO", "c1ccccc1", "CCN", "CC(=O)O", "C1CCCCC1", "CCCl")
QUICK: dict[str, Any] = {"layers": 2, "width": 8, "epochs": 2, "batch_size": 20}


@cache
def toy_splits() -> Splits:
    """SPMotif with a held-out part like training, and test graphs that are larger."""
    return load("spmotif-struc", train_per_class=20, val_per_class=8, test_per_class=6)


@cache
def toy_model(method: str = "ciga-v2", seeds: int = 2, rival: bool = False, **settings: Any) -> Model:
    """An ensemble on `toy_splits`, with its gauge and report data; the same one for the same arguments."""
    splits = toy_splits()
    chosen = resolve(method, {**QUICK, **settings}, preset="none")
    found = [
        fit(
            chosen.method,
            splits,
            backbone=chosen.backbone,
            training=chosen.training,
            seed=seed,
            device="cpu",
        )
        for seed in range(1, seeds + 1)
    ]
    source = {"dataset": "spmotif-struc", "options": {"train_per_class": 20}}
    model = Model(
        method_name=method,
        settings=chosen.flat(),
        spec=Spec.of(splits),
        classes=list(splits.task.class_names),
        metric=splits.task.metric,
        seeds=list(range(1, seeds + 1)),
        members=[f.network() for f in found],
        selection=default_selector(list(splits)).name,
        featuriser=featuriser_of([splits.train], {}),
        source=source,
        fingerprint=splits.fingerprint(),
    )
    model.gauge = Gauge.calibrate(model.embed, splits)
    runs = {method: [{"selected": f.selected, "history": f.history, "seconds": f.seconds} for f in found]}
    other = toy_model("erm", seeds) if rival else None
    if other is not None:
        runs["erm"], model.rivals = runs[method], {"erm": other}
    model.report_data = report_data(model, splits, runs)
    return model


def molecule_model(method: str, seeds: int = 1, train: Sequence[str] = 4 * MOLECULES) -> Model:
    """An untrained model of molecules, for tests in which it does not matter what it says."""
    from ciga.data.reading.featurise import featurise

    store = featurise(train).store.labelled(torch.arange(len(train)) % 2)
    splits = Splits({"train": store, "id_val": store}, Task(2))
    chosen = resolve(method, {"layers": 2, "width": 8}, preset="none")
    torch.manual_seed(0)
    spec = Spec.of(splits)
    model = Model(
        method,
        chosen.flat(),
        spec,
        ["0", "1"],
        "roc_auc",
        list(range(1, seeds + 1)),
        [chosen.method.network(spec, chosen.backbone).eval() for _ in range(seeds)],
        featuriser=featuriser_of([store], {"options": {"smiles": "smiles", "label": "active"}}),
    )
    model.gauge = Gauge.calibrate(model.embed, splits)
    return model


def write_molecules(path: Path, bad: bool = True) -> Path:
    """A table of 48 molecules, active where O or N hangs on the ring, and two bad rows."""
    cores = ["c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccsc1", "C1CCOC1", "c1ccc2ccccc2c1"]
    tails = ["", "C", "OC", "NC", "FC", "ClC", "CCC", "OCC"]
    # Every ring has both classes, so that both are in every part of a split by scaffold.
    pairs = [(f"{tail}{core}", int(tail[:1] in ("O", "N"))) for core, tail in itertools.product(cores, tails)]
    lines = [f'm{i},{smiles},{active},"a, b"' for i, (smiles, active) in enumerate(pairs)]
    if bad:
        lines[5:5] = ["bad1,C(C,1,x", "bad2,CCO"]
    path.write_text("\n".join(["id,smiles,active,note", *lines]) + "\n")
    return path


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """A damage done to the model.json of a folder."""

    def damage(folder: Path) -> None:
        about = json.loads((folder / "model.json").read_text())
        change(about)
        (folder / "model.json").write_text(json.dumps(about))

    return damage
