"""Molecules and superpixels: are all cores busy, and does the cache open at once?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from benchmarks.data import SHAPES
from benchmarks.timing import Ratio, Section
from ciga.data.catalog import load
from ciga.data.cmnist import superpixel_graphs
from ciga.data.molecules import featurise
from ciga.parallel import cores


def wall(job: Callable[[], object], repeat: int) -> list[float]:
    """Seconds on the clock: work in other processes is not this process's CPU time."""
    out = []
    for _ in range(repeat):
        began = time.perf_counter()
        job()
        out.append(time.perf_counter() - began)
    return out


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
        seconds = wall(lambda: load("drugood-ec50-assay"), repeat)
        section.note("open", {"ec50 cache": seconds})
    images = np.random.default_rng(0).integers(0, 256, (20 if quick else 1000, 28, 28), dtype=np.uint8)
    colours = np.arange(len(images)) % 2

    def paint(workers: int | None) -> object:
        return superpixel_graphs(images, colours, workers=workers)

    _compare(section, "superpixels", len(images), paint, repeat)
    return section


def _compare(
    section: Section, what: str, items: int, job: Callable[[int | None], object], repeat: int
) -> None:
    job(None)  # starts the workers, which stay
    one, every = [], []
    for _ in range(repeat):
        one += wall(lambda: job(1), 1)
        every += wall(lambda: job(None), 1)
    section.note(what, {"one core": one, "all cores": every})
    meaning = f"featurising {items} {what}: one core / all {cores()} (clock)"
    section.ratios.append(Ratio.of(f"{what}_one_core_over_all", one, every, meaning, "near the cores"))
