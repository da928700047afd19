"""Time and peak memory from a thousand graphs to a million: `python -m benchmarks.scale STAGE GRAPHS FOLDER`.

Every stage is a process of its own, so that its peak is its own. Memory is what a process has written
itself; pages of a mapped file, which the system may drop at any time, are counted apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Section
from ciga.data import GraphStore
from ciga.graphs.splits import Splits, Task
from ciga.methods.base import make
from ciga.nn.encoder import Backbone, Spec
from ciga.training.epoch import train_epoch
from ciga.training.evaluation import evaluate
from ciga.training.loop import optimizers_of
from ciga.training.schedule import Training

SIZES = (1_000, 10_000, 100_000, 1_000_000)
STAGES = ("build", "train", "predict")
BATCH = 1024
BACKBONE = Backbone(layers=2, width=16)


def generate(graphs: int) -> dict[str, torch.Tensor]:
    """Rings of 6 to 11 nodes with one chord: the label is whether the chord is short."""
    rng = np.random.default_rng(0)
    nodes = rng.integers(6, 12, graphs)
    start = np.concatenate([[0], nodes.cumsum()])
    graph = np.repeat(np.arange(graphs), nodes)
    here = np.arange(start[-1]) - start[graph]
    label = rng.integers(0, 2, graphs)
    u = rng.integers(0, nodes)
    chord = np.stack([u, (u + 2 + label) % nodes])
    ring = np.stack([here, (here + 1) % nodes[graph]])
    # Both ways, and each graph's edges together: its ring, its chord, and then both turned around.
    ends = np.concatenate([ring, chord], axis=1)
    owner = np.concatenate([graph, np.arange(graphs)])
    order = np.argsort(np.concatenate([owner, owner]), kind="stable")
    edge_index = np.concatenate([ends, ends[::-1]], axis=1).astype(np.int32)[:, order]
    return {
        "x": torch.from_numpy(rng.random((int(start[-1]), 4), dtype=np.float32)),
        "edge_index": torch.from_numpy(edge_index),
        "node_ptr": torch.from_numpy(start),
        "edge_ptr": torch.from_numpy(np.concatenate([[0], (2 * nodes + 2).cumsum()])),
        "y": torch.from_numpy(label),
    }


class Memory:
    """The largest memory seen so far, in MB: written by this process, and with mapped files."""

    def __init__(self) -> None:
        self.own = self.mapped = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.look()
            time.sleep(0.01)

    def look(self) -> tuple[float, float]:
        with open("/proc/self/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        own, mapped = (int(fields[k].split()[0]) / 1024 for k in ("RssAnon", "VmRSS"))
        self.own, self.mapped = max(self.own, own), max(self.mapped, mapped)
        return self.own, self.mapped


def stage(name: str, graphs: int, folder: Path) -> dict[str, Any]:
    """Run one stage and say what it took."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    memory, seconds = Memory(), {}
    file = folder / f"{graphs}.safetensors"

    def lap(what: str, began: float) -> None:
        seconds[what] = time.process_time() - began

    began = time.process_time()
    if name == "build":
        parts = generate(graphs)
        lap("generate", began)
        began = time.process_time()
        GraphStore(**parts).save(file)
        lap("pack", began)
    else:
        store = GraphStore.open(file, verify=False)
        lap("open", began)
        method = make("erm")
        network = method.network(Spec.of(Splits({"train": store}, Task(2, "accuracy"))), BACKBONE)
        few = store[:10]  # what is loaded at the first step of a process is not the epoch's
        _epoch(network, few) if name == "train" else evaluate(method, [network], few)
        began = time.process_time()
        if name == "train":
            _epoch(network, store)
            lap("epoch", began)
        else:
            evaluate(method, [network], store, batch_size=BATCH)
            lap("predict", began)
    own, mapped = memory.look()
    return {
        "seconds": seconds,
        "memory_mb": own,
        "with_mapped_mb": mapped,
        "file_mb": file.stat().st_size / 2**20,
    }


def _epoch(network: torch.nn.Module, store: GraphStore) -> None:
    method, training = make("erm"), Training(batch_size=BATCH)
    train_epoch(method, network, store, training, optimizers_of(method, network, training), {}, 0)


def measure(repeat: int, quick: bool) -> Section:
    del repeat  # four sizes are four measurements of one line
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for graphs in SIZES[:2] if quick else SIZES:
            row: dict[str, Any] = {"graphs": graphs, "seconds": {}, "memory_mb": {}, "with_mapped_mb": {}}
            for name in STAGES:
                command = [sys.executable, "-m", "benchmarks.scale", name, str(graphs), folder]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                row["seconds"] |= found["seconds"]
                row["file_mb"] = found["file_mb"]
                for key in ("memory_mb", "with_mapped_mb"):
                    row[key][name] = found[key]
            rows.append(row)
            (Path(folder) / f"{graphs}.safetensors").unlink()
    return Section(extra={"scale": rows})


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds and memory over the number of graphs, both axes logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ciga"
    import matplotlib.pyplot as plt

    graphs = [row["graphs"] for row in rows]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for what in ("generate", "pack", "open", "epoch", "predict"):
        left.loglog(graphs, [row["seconds"][what] for row in rows], marker="o", label=what)
    reference = rows[-1]["seconds"]["epoch"] / graphs[-1]
    left.loglog(graphs, [reference * g for g in graphs], color="grey", linestyle=":", label="linear")
    left.set(xlabel="graphs", ylabel="CPU seconds")
    for name, label in (("build", "generate and pack"), ("train", "one epoch"), ("predict", "predict")):
        right.loglog(graphs, [row["memory_mb"][name] for row in rows], marker="o", label=label)
    right.loglog(
        graphs, [row["file_mb"] for row in rows], color="grey", linestyle=":", label="the store's file"
    )
    right.set(xlabel="graphs", ylabel="peak memory of the process, MB")
    for axis in (left, right):
        axis.legend()
        axis.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    print(json.dumps(stage(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
