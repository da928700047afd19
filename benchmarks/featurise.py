"""Molecules and superpixels: are all cores busy, and does the cache open at once?"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from benchmarks.data import SHAPES
from benchmarks.timing import Ratio, Section, take_turns
from ciga.data.dataset import load
from ciga.data.datasets.cmnist import superpixel_graphs
from ciga.data.reading.featurise import featurise
from ciga.parallel import cores


def measure(repeat: int, quick: bool) -> Section:
    section = Section(extra={"cores": cores(), "load": os.getloadavg()[0]})
    shapes = {shape.name: shape for shape in SHAPES}
    reason = shapes["ec50"].missing()
    if reason:
        section.skipped["molecules"] = reason
    else:
        smiles = load("drugood-ec50-assay").train.columns["smiles"]
        some = [str(s) for s in smiles][: 200 if quick else 3000]
        _compare(section, "molecules", len(some), lambda workers: featurise(some, workers=workers), repeat)
        section.note("open", take_turns({"ec50 cache": [lambda: load("drugood-ec50-assay")]}, repeat))
    images = np.random.default_rng(0).integers(0, 256, (20 if quick else 1000, 28, 28), dtype=np.uint8)
    colours = np.arange(len(images)) % 2

    def paint(workers: int) -> object:
        return superpixel_graphs(images, colours, workers=workers)

    _compare(section, "superpixels", len(images), paint, repeat)
    return section


def _compare(section: Section, what: str, items: int, job: Callable[[int], object], repeat: int) -> None:
    job(cores())  # starts the workers, which stay
    found = take_turns(
        {"one core": [lambda: job(1)], "all cores": [lambda: job(cores())]}, repeat, warm=False
    )
    section.note(what, found)
    meaning = f"featurising {items} {what}: one core / all {cores()} (clock)"
    # By the clock: work in other processes is not this process's CPU time.
    one, every = found["one core"].wall, found["all cores"].wall
    section.ratios.append(Ratio.of(f"{what}_one_core_over_all", one, every, meaning, "near the cores"))
