"""Which network for tables of molecules? The same settings for each method, judged by validation rows only.

    CIGA_DATA=... python -m benchmarks.search_molecules --tables bace:cluster --methods erm,ciga-v2 \\
        --epochs 30 --try "readout=max" --try "readout=max width=128"

Each `--try` changes the preset `own-data` for every method alike. The test rows are left out before anything
is trained. A run is trained once, without stopping, and all it says of the validation rows is kept after each
epoch: by its weights, and by their running mean. From that every rule for the epoch is judged at no further
cost. The validation rows are cut in half at random, ten times: one half chooses the epoch, the other scores
it, and the other way round. Records go to `benchmarks/molecules-search.jsonl`, one line for each table,
method, try and averaging; what is there already is not measured again. `--rows 3000` takes part of a larger
table.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# One thread: see ciga.cli. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor, nn

from benchmarks.molecules import Line, append, read, source
from benchmarks.ogb_features import with_ogb
from ciga import options
from ciga.data.dataset import make
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.methods.base import Method
from ciga.nn.encoder import Spec
from ciga.runs.settings import OWN_PRESET, resolve
from ciga.training.averaging import WeightAverage
from ciga.training.device import quiet_machine, seed_all
from ciga.training.epoch import train_epoch
from ciga.training.loop import fit, optimizers_of

RECORDS = Path(__file__).parent / "molecules-search.jsonl"
PARTS = ("ood_val", "id_val")
#: On tables of this size a longer memory is the same: a mean of n steps forgets all but the last n/10.
AVERAGING = (0.0, 0.99)
HALVINGS = 10
#: What lines from before a column was added do not say.
OLDER: Line = {"features": "drugood"}
Numbers = NDArray[Any]


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing, then show all tries in order."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", default="bace:cluster,bbbp:scaffold", help="TABLE:SPLIT, with commas")
    parser.add_argument("--methods", default="erm,ciga-v2")
    parser.add_argument("--try", dest="tries", action="append", default=[], help="NAME=VALUE ..., repeatable")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rows", type=int, default=0, help="training rows at most; 0: all")
    parser.add_argument("--ogb", action="store_true", help="atoms and bonds with OGB's features")
    parser.add_argument("--out", type=Path, default=RECORDS)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as scratch:
        for words_of_try in given.tries:
            values = dict(options.parse_pairs(shlex.split(words_of_try), "--try"))
            for place in given.tables.split(","):
                table, _, split = place.partition(":")
                splits: Splits | None = None
                for method in given.methods.split(","):
                    wanted = {"table": table, "split": split, "method": method, "rows": given.rows}
                    wanted |= {"try": values, "seeds": given.seeds, "trained": given.epochs}
                    wanted |= {"features": "ogb" if given.ogb else "drugood"}
                    if any(wanted.items() <= (OLDER | line).items() for line in read(given.out)):
                        continue
                    if splits is None:
                        splits = without_test(make(*source(table, split, Path(scratch))).build(), given.rows)
                        splits = with_ogb(splits) if given.ogb else splits
                    for line in measure(splits, method, values, given.seeds, given.epochs):
                        append(given.out, [{**wanted, **line}])
                        print(json.dumps({**wanted, **line}), flush=True)
    show(read(given.out))


def without_test(splits: Splits, rows: int = 0) -> Splits:
    """No test rows; at most `rows` training rows, and half as many of each validation part."""
    parts = {}
    for part in ("train", *PARTS):
        store, most = splits[part], rows if part == "train" else rows // 2
        if 0 < most < store.num_graphs:
            order = torch.randperm(store.num_graphs, generator=torch.Generator().manual_seed(0))
            store = store.subset(order[:most].sort().values)
        parts[part] = store
    return replace(splits, parts=parts)


@dataclass
class Trace:
    """What a network said of the validation rows after each epoch."""

    said: dict[float, dict[str, Numbers]]  # averaging -> part -> probability of class 1 [epochs, n]
    seconds: float  # of the processor


def trace(splits: Splits, method: str, values: Mapping[str, Any], seed: int, epochs: int) -> Trace:
    """Train one network for so many epochs; the same steps as `ciga fit` takes.

    Args:
        splits: Of `without_test`.
        method: Its name.
        values: What differs from the preset.
        seed: Of the run.
        epochs: How many.
    """
    began = time.process_time()
    chosen = resolve(method, {**values, "epochs": epochs}, preset=OWN_PRESET, dataset="molecules")
    ours, training = chosen.method, chosen.training
    if ours.closed_form:  # one solution, no epochs
        alone = fit(ours, splits, backbone=chosen.backbone, training=training, seed=seed).network("last")
        once = {part: answers(ours, alone, splits[part])[np.newaxis] for part in PARTS}
        return Trace({0.0: once}, time.process_time() - began)
    for part in splits:
        splits[part].remember_walks(chosen.backbone.walks)
    said: dict[float, dict[str, list[Numbers]]] = {a: defaultdict(list) for a in AVERAGING}
    with quiet_machine(1):
        seed_all(seed, "init")
        network = ours.network(Spec.of(splits), chosen.backbone)
        ours.learn(network, splits.train)
        optimizers = optimizers_of(ours, network, training)
        average = WeightAverage(network, AVERAGING[1])
        for epoch in range(epochs):
            seed_all(seed, epoch)
            train_epoch(ours, network, splits.train, training, optimizers, {}, epoch, average)
            for a in AVERAGING:
                with average.in_place() if a else nullcontext():
                    for part in PARTS:
                        said[a][part].append(answers(ours, network, splits[part]))
    seconds = time.process_time() - began
    return Trace({a: {p: np.stack(v) for p, v in found.items()} for a, found in said.items()}, seconds)


@torch.inference_mode()
def answers(method: Method[Any], network: nn.Module, store: GraphStore) -> Numbers:
    """The probability of class 1, [n]."""
    network.eval()
    every: list[Tensor] = [method.infer(network, batch).logits.softmax(1) for batch in store.batches(256)]
    return torch.cat(every)[:, 1].numpy()


# ---------------------------------------------------------------- rules for the epoch


def stopping(warmup: int, patience: int) -> Callable[[Numbers, Numbers], int]:
    """The best epoch on `ood_val`, training ended as the schedule would have ended it."""

    def rule(ood: Numbers, id_: Numbers) -> int:
        best = 0
        for epoch, value in enumerate(ood):
            best = epoch if value > ood[best] else best
            if epoch - max(best, warmup - 1) >= patience:
                break
        return best

    return rule


def later(scores: Numbers) -> int:
    """The eleventh epoch, or the last where there are fewer."""
    return min(10, len(scores) - 1)


#: From the scores of each epoch on a half of `ood_val` and of `id_val`: which one is chosen.
RULES: dict[str, Callable[[Numbers, Numbers], int]] = {
    "ood-val, stopped": stopping(10, 10),
    "ood-val": lambda ood, id_: int(ood.argmax()),
    "ood-val, not in the first ten": lambda ood, id_: later(ood) + int(ood[later(ood) :].argmax()),
    "mean of both": lambda ood, id_: int((ood + id_).argmax()),
    "id-val": lambda ood, id_: int(id_.argmax()),
    "last": lambda ood, id_: len(ood) - 1,
}
FIRST = next(iter(RULES))


def halvings(rows: int, seed: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Random halves of so many rows, each pair both ways."""
    draw = np.random.default_rng(seed)
    for _ in range(HALVINGS):
        order = draw.permutation(rows)
        first, second = order[: rows // 2], order[rows // 2 :]
        yield first, second
        yield second, first


def scores(traces: Sequence[Mapping[str, Numbers]], y: Mapping[str, Numbers]) -> dict[str, dict[str, float]]:
    """For each rule the ROC AUC of several networks' mean, on the halves that did not choose their epochs.

    Args:
        traces: What each network said, part by part.
        y: The classes of each part.
    """
    found = {rule: defaultdict[str, list[float]](list) for rule in RULES}
    cuts = [list(halvings(len(y[part]), seed)) for seed, part in enumerate(PARTS)]
    for both in zip(*cuts, strict=True):
        half = dict(zip(PARTS, both, strict=True))
        curves = [
            [auc(y[p][half[p][0]], one[p][:, half[p][0]]) for p in PARTS] for one in traces
        ]  # of each network, what a rule goes by
        for rule, choose in RULES.items():
            epochs = [choose(*by) for by in curves]
            found[rule]["epoch"] += epochs
            for part in PARTS:
                held = half[part][1]
                total = sum(one[part][epoch, held] for one, epoch in zip(traces, epochs, strict=True))
                found[rule][part].append(float(auc(y[part][held], np.atleast_2d(total))[0]))
    return {rule: {k: float(np.mean(v)) for k, v in lists.items()} for rule, lists in found.items()}


def auc(y: Numbers, said: Numbers) -> Numbers:
    """ROC AUC of each row of [epochs, n]; without one of the classes it tells nothing."""
    ones = int(y.sum())
    if not 0 < ones < len(y):
        return np.full(len(said), 0.5)
    ranks = rankdata(said, axis=1)[:, y == 1].sum(1)
    return np.asarray((ranks - ones * (ones + 1) / 2) / (ones * (len(y) - ones)))


def measure(splits: Splits, method: str, values: dict[str, Any], seeds: int, epochs: int) -> Iterator[Line]:
    """A line for the weights and one for their mean, with the scores under every rule.

    Args:
        splits: Of `without_test`.
        method: Its name.
        values: What differs from the preset.
        seeds: The number of networks.
        epochs: For how long each is trained.
    """
    every = [trace(splits, method, values, seed, epochs) for seed in range(1, seeds + 1)]
    y = {part: splits[part].y.numpy() for part in PARTS}
    for averaging in every[0].said:
        said = [one.said[averaging] for one in every]
        rules = scores(said, y)
        yield {
            "averaging": averaging,
            **{part: round(rules[FIRST][part], 4) for part in PARTS},
            "rules": {rule: {k: round(v, 4) for k, v in found.items()} for rule, found in rules.items()},
            "seconds": round(sum(one.seconds for one in every), 1),
        }


def show(lines: Sequence[Line]) -> None:
    """Each try's mean over its tables, best first."""
    by: dict[tuple[str, str, float], list[Line]] = defaultdict(list)
    for line in lines:
        by[line["method"], json.dumps(line["try"]), line["averaging"]].append(line)
    means = []
    for (method, values, averaging), some in by.items():
        mean = {key: sum(line[key] for line in some) / len(some) for key in (*PARTS, "seconds")}
        both = (mean["ood_val"] + mean["id_val"]) / 2
        means.append((method, both, mean, len(some), f"averaging={averaging:g} {values}"))
    for method, both, mean, n, values in sorted(means, key=lambda row: (row[0], -row[1])):
        numbers = f"{both:.4f} ood_val {mean['ood_val']:.4f} id_val {mean['id_val']:.4f}"
        print(f"{method:16} {numbers} {mean['seconds']:5.0f} s, {n} tables: {values}")


if __name__ == "__main__":
    main()
