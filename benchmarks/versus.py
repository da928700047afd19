"""Two states of the library against each other: `python -m benchmarks.versus FOLDER [SHAPE …]`.

FOLDER is another checkout (`git archive COMMIT | tar -x -C FOLDER`), the state *before*. Each state runs in
a process of its own on the same graphs and trains on a piece of them when it is its turn: before, now,
before, now, …
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
WRITTEN = Path(__file__).with_name("before.json")
#: The epochs compared: a method and its settings beyond those of the shape.
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "erm": ("erm", {}),
    "ciga-v2": ("ciga-v2", {"spurious_gradient": False}),
    "ciga-v2-attached": ("ciga-v2", {"spurious_gradient": True}),
}


class State:
    """A process with one state of the library, asked for one piece of an epoch at a time."""

    def __init__(self, root: Path, task: dict[str, Any]) -> None:
        environment = os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", json.dumps(task)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def train(self, job: str, piece: int) -> float:
        """CPU seconds of a piece."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{job} {piece}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("A state of the library failed; what it said stands above.")
        return float(line)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(task: dict[str, Any]) -> None:
    """Train on request; uses only what both states of the library have."""
    import torch

    from ciga.data import GraphStore
    from ciga.graphs.splits import Splits, Task
    from ciga.methods.base import make
    from ciga.nn.encoder import Backbone, Spec
    from ciga.training import loop as train
    from ciga.training.epoch import train_epoch

    torch.set_num_threads(1)
    splits = Splits({"train": GraphStore.open(task["file"], verify=False)}, Task(task["classes"], "accuracy"))
    schedule = train.Training(batch_size=task["batch_size"], epochs=2)

    pieces = [splits.train.subset(range(*ends)) for ends in task["pieces"]]

    def prepared(job: str) -> Callable[[int], object]:
        torch.manual_seed(1)
        name, settings = JOBS[job]
        method = make(name, {**task["ciga"], **settings} if name != "erm" else {})
        network = method.network(Spec.of(splits), Backbone(**task["backbone"]))
        optimizers = train.optimizers_of(method, network, schedule)
        return lambda piece: train_epoch(method, network, pieces[piece], schedule, optimizers, {}, 1)

    jobs = {job: prepared(job) for job in JOBS}
    for line in sys.stdin:
        job, piece = line.split()
        began = time.process_time()
        jobs[job](int(piece))
        print(time.process_time() - began, flush=True)


def compare(before: Path, shape: Any, repeat: int = 3) -> dict[str, Any]:
    """CPU seconds of each job in both states, and their ratios before / now."""
    from benchmarks.epochs import cut
    from benchmarks.timing import Ratio

    splits = shape.load(quick=False)
    ends = [0, *accumulate(piece.num_graphs for piece in cut(splits.train, shape.batch_size))]
    seconds: dict[str, dict[str, list[list[float]]]] = {job: {"before": [], "now": []} for job in JOBS}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.safetensors"
        splits.train.save(file)
        task = {
            "file": str(file), "pieces": list(pairwise(ends)), "classes": splits.task.classes,
            "batch_size": shape.batch_size, "ciga": shape.ciga,
            "backbone": {key: getattr(shape.backbone, key) for key in ("conv", "layers", "width", "readout")},
        }  # fmt: skip
        states = {"before": State(before, task), "now": State(HERE, task)}
        for job in JOBS:
            for name, state in states.items():
                state.train(job, 0)  # what the first steps of a process load is not the epoch's
                seconds[job][name] = [[] for _ in range(repeat)]
        for turn in range(repeat):
            for piece in range(len(ends) - 1):
                for job in JOBS:
                    for name, state in states.items():
                        seconds[job][name][turn].append(state.train(job, piece))
        for state in states.values():
            state.stop()
    out = {}
    for job, found in seconds.items():
        ratio = Ratio.of(job, found["before"], found["now"], "")
        out[job] = {
            "before_over_now": ratio.value,
            "spread": ratio.spread,
            **{f"{name}_seconds": [sum(pieces) for pieces in rounds] for name, rounds in found.items()},
        }
    return out


def main(words: list[str]) -> None:
    from benchmarks.__main__ import machine
    from benchmarks.data import SHAPES

    if not words:
        raise SystemExit(__doc__)
    folder, wanted = Path(words[0]), words[1:] or [shape.name for shape in SHAPES]
    report = json.loads(WRITTEN.read_text()) if WRITTEN.exists() else {"shapes": {}}
    report["before"] = folder.name
    report["machine"] = machine()
    for shape in SHAPES:
        if shape.name in wanted:
            reason = shape.missing()
            if reason:
                print(f"not measured: {shape.name} ({reason})")
                continue
            report["shapes"][shape.name] = compare(folder, shape)
            print(shape.name, json.dumps(report["shapes"][shape.name], indent=2), flush=True)
            WRITTEN.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(json.loads(sys.argv[2]))
    else:
        main(sys.argv[1:])
