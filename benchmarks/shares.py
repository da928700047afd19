"""How should the shares of a mixture be chosen? Judged by validation rows alone.

    CIGA_DATA=... python -m benchmarks.shares --tables bace:cluster,bbbp:cluster --runs-dir runs

It takes the runs that `python -m benchmarks.molecules` left in `--runs-dir`; the test rows are not looked at.
Validation rows are drawn at random to choose the shares, 40 times; the others score the mixture. When they
are scored, the networks answer for `ood_val` with the epoch that `id_val` chose. When shares are chosen they
answer with the same epoch (`other rows`), or with the one that `ood_val` itself chose (`own rows`). In a
third way each method has a temperature, found on the shifted ones of the rows that choose (`other rows,
cooled`).
Records go to `benchmarks/shares.jsonl`, one line for each table, way and number of rows.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# One thread: see ciga.cli. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
from torch import Tensor

from benchmarks.molecules import Line, append, read, source
from benchmarks.search_molecules import PARTS, without_test
from ciga.data.dataset import make
from ciga.files import read_tensors
from ciga.graphs.splits import Splits
from ciga.models.fit import CANDIDATES
from ciga.models.mixture import best_shares
from ciga.models.summary import score
from ciga.models.temperature import best_temperature, cooled
from ciga.nn.encoder import Spec
from ciga.runs.plan import plan
from ciga.runs.records import Records, versions
from ciga.runs.settings import OWN_PRESET
from ciga.runs.spec import RunSpec

RECORDS = Path(__file__).parent / "shares.jsonl"
PRIORS = (0, 1, 3, 10, 30)
ROWS = (10, 20, 40, 80, 130)
DRAWS = 40
#: What networks say of `ood_val` when shares are chosen: with an epoch that other rows chose, or these; and
#: the first with a temperature for each method.
OTHER, OWN, COOLED = WAYS = ("other rows", "own rows", "other rows, cooled")
RULES = ("id-val", "ood-val")
Said = Mapping[str, Tensor]


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", default="bace:scaffold,bace:cluster,bbbp:cluster")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=RECORDS)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as scratch:
        for place in given.tables.split(","):
            table, _, split = place.partition(":")
            wanted = {"table": table, "split": split, "seeds": given.seeds}
            if any(wanted.items() <= line.items() for line in read(given.out)):
                continue
            dataset, data = source(table, split, Path(scratch))
            whole = make(dataset, data).build()
            about: Line = {"fingerprint": whole.fingerprint(), "preset": OWN_PRESET, "versions": versions()}
            splits = without_test(whole)
            said, hashes = answers(dataset, data, splits, given.seeds, given.runs_dir)
            y = {part: splits[part].y for part in PARTS}
            lines = compare(said, y)
            append(given.out, [{**wanted, **line, **about, "runs": hashes} for line in lines])
            print(json.dumps({**wanted, "lines": len(lines)}), flush=True)


def answers(
    dataset: str, data: Line, splits: Splits, seeds: int, runs_dir: Path
) -> tuple[Mapping[str, Mapping[str, Said]], list[str]]:
    """Rule for the epoch -> part -> method -> its networks' probabilities [S, n, C]; and their runs.

    Args:
        dataset: Its name.
        data: Its options.
        splits: Without test rows.
        seeds: The number of networks.
        runs_dir: Where the runs are.
    """
    records, spec, hashes = Records([runs_dir]), Spec.of(splits), list[str]()
    every: dict[str, dict[str, dict[str, list[Tensor]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for method in CANDIDATES:
        for seed in range(1, seeds + 1):
            planned = plan(RunSpec(dataset, method, data=data, preset=OWN_PRESET)).with_seed(seed)
            if records.runs[0].find(planned.config) is None:
                raise SystemExit(
                    f"There is no run of {method} with seed {seed}: benchmarks.molecules makes it."
                )
            hashes.append(planned.config.hash)
            for rule in RULES:
                file = runs_dir / planned.config.hash / f"weights.{rule}.safetensors"
                [network] = planned.settings.networks(spec, read_tensors(file)[0])
                for part in PARTS:
                    every[rule][part][method].append(_said(planned.settings.method, network, splits[part]))
    stacked = {
        rule: {part: {m: torch.stack(some) for m, some in by.items()} for part, by in parts.items()}
        for rule, parts in every.items()
    }
    return stacked, hashes


@torch.inference_mode()
def _said(method: Any, network: Any, store: Any) -> Tensor:
    network.eval()
    return torch.cat([method.infer(network, batch).logits.softmax(1) for batch in store.batches(256)])


def compare(said: Mapping[str, Mapping[str, Said]], y: Said) -> list[Line]:
    """A line for each way and number of rows, with the scores under every prior."""
    shipped, other = (said[rule] for rule in ("ood-val", "id-val"))
    judged = _whole({"id_val": shipped["id_val"], "ood_val": other["ood_val"]})
    sources = {OTHER: judged, OWN: _whole(shipped), COOLED: judged}
    right = torch.cat([y[part] for part in ("id_val", "ood_val")])
    shifted = torch.arange(len(right)) >= len(y["id_val"])
    lines = []
    for way, chosen_by in sources.items():
        for rows in ROWS:
            found: dict[str, list[list[float]]] = defaultdict(list)
            draw = np.random.default_rng(0)
            for _ in range(DRAWS):
                order = torch.from_numpy(draw.permutation(len(right)))
                some, held = order[:rows], order[rows:]
                near = some[shifted[some]] if way == COOLED else some[:0]
                warm = {m: best_temperature(p[:, near], right[near]) for m, p in judged.items()}
                asked = {m: cooled(p, warm[m]).mean(0) for m, p in chosen_by.items()}
                answer = {m: cooled(p, warm[m]).mean(0) for m, p in judged.items()}
                for prior in PRIORS:
                    shares = best_shares({m: p[some] for m, p in asked.items()}, right[some], prior)
                    mixed = sum(shares[m] * p[held] for m, p in answer.items())
                    assert isinstance(mixed, Tensor)
                    found[str(prior)].append(_scores(mixed, right[held], shifted[held]))
            means = {prior: np.nanmean(values, 0).round(5).tolist() for prior, values in found.items()}
            lines.append({"way": way, "rows": rows, "scores": means})
    return lines


def _whole(parts: Mapping[str, Said]) -> dict[str, Tensor]:
    return {m: torch.cat([parts["id_val"][m], parts["ood_val"][m]], 1) for m in parts["id_val"]}


def _scores(mixed: Tensor, y: Tensor, shifted: Tensor) -> list[float]:
    """ROC AUC on `ood_val` and on `id_val`, and the log loss on both."""
    apart = [score(mixed[rows], y[rows], "roc_auc") for rows in (shifted, ~shifted)]
    return [*apart, score(mixed, y, "log_loss")]


if __name__ == "__main__":
    main()
