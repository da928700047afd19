"""Which network for tables of molecules? The same settings for each method, judged by validation rows only.

    CIGA_DATA=... python -m benchmarks.search_molecules --tables bace:cluster --methods erm,ciga-v2 \\
        --try "" --try "averaging=0.99" --try "averaging=0.99 width=128"

Each `--try` changes the preset `own-data` for every method alike. The test rows are left out before anything
is trained. The validation rows are halved: one half chooses the epoch, the other scores it, and the other way
round. Records go to `benchmarks/molecules-search.jsonl`, one line for each table, method and try; lines that
are there already are not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

# One thread: see ciga.cli. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from torch import Tensor, nn

from benchmarks.molecules import Line, append, read, source
from ciga import options
from ciga.data.dataset import make
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.methods.base import Method
from ciga.models.summary import score
from ciga.runs.settings import OWN_PRESET, resolve
from ciga.training.loop import fit

RECORDS = Path(__file__).parent / "molecules-search.jsonl"


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing, then show all tries in order."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", default="bace:cluster,bbbp:cluster", help="TABLE:SPLIT, with commas")
    parser.add_argument("--methods", default="erm,ciga-v2")
    parser.add_argument("--try", dest="tries", action="append", default=[], help="NAME=VALUE ..., repeatable")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RECORDS)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as scratch:
        for place in given.tables.split(","):
            table, _, split = place.partition(":")
            splits = without_test(make(*source(table, split, Path(scratch))).build())
            for words_of_try in given.tries:
                values = dict(options.parse_pairs(shlex.split(words_of_try), "--try"))
                for method in given.methods.split(","):
                    wanted = {"table": table, "split": split, "method": method, "try": values}
                    wanted["seeds"] = given.seeds
                    if not any(wanted.items() <= line.items() for line in read(given.out)):
                        line = {**wanted, **measure(splits, method, values, given.seeds)}
                        append(given.out, [line])
                        print(json.dumps(line), flush=True)
    show(read(given.out))


def without_test(splits: Splits) -> Splits:
    """No test rows; the validation rows in halves, the second of them in the place of the test rows."""
    whole = splits["ood_val"]
    order = torch.randperm(whole.num_graphs, generator=torch.Generator().manual_seed(0))
    first, second = (whole.subset(rows.sort().values) for rows in order.chunk(2))
    parts = {"train": splits.train, "id_val": splits["id_val"], "ood_val": first, "ood_test": second}
    return replace(splits, parts=parts)


def measure(splits: Splits, method: str, values: dict[str, Any], seeds: int) -> Line:
    """Scores of the ensemble over seeds: each half of the validation rows where the other chose the epochs.

    Args:
        splits: Of `without_test`.
        method: Its name.
        values: What differs from the preset.
        seeds: The number of networks.
    """
    chosen = resolve(method, values, preset=OWN_PRESET, dataset="molecules")
    every = [
        fit(chosen.method, splits, backbone=chosen.backbone, training=chosen.training, seed=seed)
        for seed in range(1, seeds + 1)
    ]
    metric, found = splits.task.metric, defaultdict[str, list[Tensor]](list)
    for one in every:
        by_first, by_second = one.network("ood-val"), one.network("oracle")
        found["id_val"].append(said(chosen.method, by_first, splits["id_val"]))
        found["ood_val"].append(said(chosen.method, by_second, splits["ood_val"]))
        found["ood_test"].append(said(chosen.method, by_first, splits["ood_test"]))

    def scored(part: str, members: slice) -> float:
        return score(torch.stack(found[part][members]).mean(0), splits[part].y, metric)

    alone = [slice(i, i + 1) for i in range(seeds)]
    halves = ("ood_val", "ood_test")
    return {
        "ood_val": round(sum(scored(part, slice(None)) for part in halves) / 2, 4),
        "id_val": round(scored("id_val", slice(None)), 4),
        "single": [round(sum(scored(part, one) for part in halves) / 2, 4) for one in alone],
        "epochs": [len(one.history) for one in every],
        "seconds": round(sum(one.seconds for one in every), 1),
    }


@torch.inference_mode()
def said(method: Method[Any], network: nn.Module, store: GraphStore) -> Tensor:
    """Probabilities [n, C] of one network."""
    network.eval()
    return torch.cat([method.infer(network, batch).logits.softmax(1) for batch in store.batches(256)])


def show(lines: Sequence[Line]) -> None:
    """Each try's mean over the tables that all tries of its method share, best first."""
    by: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        by[line["method"], json.dumps(line["try"])].append(line)
    means = []
    for (method, values), some in by.items():
        mean = {key: sum(line[key] for line in some) / len(some) for key in ("ood_val", "id_val", "seconds")}
        means.append((method, (mean["ood_val"] + mean["id_val"]) / 2, mean, len(some), values))
    for method, both, mean, n, values in sorted(means, key=lambda row: (row[0], -row[1])):
        numbers = f"{both:.4f} ood_val {mean['ood_val']:.4f} id_val {mean['id_val']:.4f}"
        print(f"{method:16} {numbers} {mean['seconds']:5.0f} s, {n} tables: {values}")


if __name__ == "__main__":
    main()
