"""Two states of the library against each other: `python -m benchmarks.versus FOLDER [SHAPE …]`.

FOLDER is another checkout (`git archive COMMIT | tar -x -C FOLDER`), the state *before*. Each state runs in
a process of its own on the same graphs and does an epoch when it is its turn: before, now, before, now, …
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
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
    """A process with one state of the library, asked for one epoch at a time."""

    def __init__(self, root: Path, task: dict[str, Any]) -> None:
        environment = os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", json.dumps(task)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def epoch(self, job: str) -> float:
        """CPU seconds of an epoch."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(job + "\n")
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
    """Do epochs on request; uses only what both states of the library have."""
    import torch

    from ciga import train
    from ciga.data import GraphStore
    from ciga.data.splits import Splits, Task
    from ciga.methods.method import make
    from ciga.nn.encoder import Backbone, Spec

    torch.set_num_threads(1)
    splits = Splits({"train": GraphStore.open(task["file"], verify=False)}, Task(task["classes"], "accuracy"))
    schedule = train.Training(batch_size=task["batch_size"], epochs=2)

    def prepared(job: str) -> Callable[[], object]:
        torch.manual_seed(1)
        name, settings = JOBS[job]
        method = make(name, {**task["ciga"], **settings} if name != "erm" else {})
        network = method.network(Spec.of(splits), Backbone(**task["backbone"]))
        optimizers = train._optimizers(method, network, schedule)
        return lambda: train._train_epoch(method, network, splits.train, schedule, optimizers, {}, 1)

    epochs = {job: prepared(job) for job in JOBS}
    for line in sys.stdin:
        began = time.process_time()
        epochs[line.strip()]()
        print(time.process_time() - began, flush=True)


def compare(before: Path, shape: Any, repeat: int = 3) -> dict[str, Any]:
    """CPU seconds of each job in both states, round by round, and their ratios before / now."""
    splits = shape.load(quick=False)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.safetensors"
        splits.train.save(file)
        given = {key: getattr(shape.backbone, key) for key in ("conv", "layers", "width", "readout")}
        task = {
            "file": str(file), "classes": splits.task.classes, "batch_size": shape.batch_size,
            "backbone": given, "ciga": shape.ciga,
        }  # fmt: skip
        states = {"before": State(before, task), "now": State(HERE, task)}
        seconds: dict[str, dict[str, list[float]]] = {job: {"before": [], "now": []} for job in JOBS}
        for turn in range(repeat + 1):
            for job in JOBS:
                for name, state in states.items():
                    spent = state.epoch(job)
                    if turn:  # the first epoch of a process loads what the others find
                        seconds[job][name].append(spent)
        for state in states.values():
            state.stop()
    return {job: _summary(found) for job, found in seconds.items()}


def _summary(found: dict[str, list[float]]) -> dict[str, Any]:
    ratios = [a / b for a, b in zip(found["before"], found["now"], strict=True)]
    return {
        "before_seconds": found["before"],
        "now_seconds": found["now"],
        "before_over_now": median(ratios),
        "spread": [min(ratios), max(ratios)],
    }


def main(words: list[str]) -> None:
    from benchmarks.__main__ import machine
    from benchmarks.data import SHAPES

    if not words:
        raise SystemExit(__doc__)
    folder, wanted = Path(words[0]), words[1:] or [shape.name for shape in SHAPES]
    report = json.loads(WRITTEN.read_text()) if WRITTEN.exists() else {"shapes": {}}
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
