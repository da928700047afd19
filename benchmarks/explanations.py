"""Do the subgraphs deserve the name? CIGAv2, GSAT, DIR and chance on SPMotif, where the motif is known.

    python -m benchmarks.explanations [--per-class 300] [--epochs 40] [--seeds 3] [--runs runs]

All methods get the same graphs (clean, bias 0.9), encoder, schedule and number of edges to keep. Each row is
the mean (standard deviation) over seeds on the shifted test graphs, whose bases are four times larger: test
accuracy, edge AUROC and precision@k against the motif, and the fidelity of the kept part: how much likelier
the predicted class is from the kept part alone than from random parts of its size, and how much is lost when
only the rest is left.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from ciga.explain.fidelity import Fidelity, fidelity
from ciga.graphs.splits import Splits
from ciga.graphs.store import Batch, GraphStore
from ciga.models.fit import collect
from ciga.models.model import Model
from ciga.runs.plan import plan
from ciga.runs.pool.several import run_all
from ciga.scoring import metrics

EDGES = 8
#: What a method needs besides the schedule; the encoder is the `tuned` preset's (GCN, 3 layers of 32).
METHODS: dict[str, dict[str, Any]] = {
    "ciga-v2": {"classifier_input": "raw", "contrast_input": "rep", "alpha": 1.0},
    "gsat": {},
    "dir": {"classifier_input": "raw"},
}
COLUMNS = ("test accuracy", "edge AUROC", "precision@k", "kept over random", "necessity")


def score(model: Model, store: GraphStore) -> dict[str, float]:
    """The columns of the table for one network."""
    generator = torch.Generator().manual_seed(0)
    right, scores, truths, owners, faithful, start = 0, [], [], [], [], 0
    for batch in store.batches(256, chunk=4):
        seen = model.predict(batch)
        assert seen.score is not None
        assert seen.kept is not None
        right += int((seen.probability.argmax(1) == batch.y).sum())
        scores.append(seen.score)
        truths.append(motif_of(batch))
        owners.append(batch.pair_batch + start)
        faithful.append(fidelity(model, batch, seen.kept, generator))
        start += batch.num_graphs
    found = metrics.explanation(torch.cat(scores), torch.cat(truths), torch.cat(owners), start)
    parts = Fidelity.joined(faithful).summary()
    values = (
        right / start,
        found["edge_auroc"],
        found["precision_at_k"],
        parts["above_random"],
        parts["necessity"],
    )
    return dict(zip(COLUMNS, values, strict=True))


def chance(store: GraphStore, seed: int) -> dict[str, float]:
    """Random edge scores against the motif."""
    batch = store.batch(slice(None))
    drawn = torch.rand(batch.num_pairs, generator=torch.Generator().manual_seed(seed))
    found = metrics.explanation(drawn, motif_of(batch), batch.pair_batch, batch.num_graphs)
    return {"edge AUROC": found["edge_auroc"], "precision@k": found["precision_at_k"]}


def motif_of(batch: Batch) -> torch.Tensor:
    """True at the undirected edges of the motif, [P]."""
    assert batch.edge_truth is not None
    truth = torch.zeros(batch.num_pairs, dtype=torch.bool)
    truth[batch.pair[batch.edge_truth].long()] = True
    return truth


def row(name: str, found: list[dict[str, float]]) -> str:
    cells = []
    for column in COLUMNS:
        values = [f[column] for f in found if column in f]
        spread = f" ({stdev(values):.3f})" if len(values) > 1 else ""
        cells.append(f"{mean(values):.3f}{spread}" if values else "–")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--per-class", type=int, default=300, help="training graphs of each class")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    given = parser.parse_args()
    held = given.per_class // 3
    data = {
        "bias": 0.9,
        "train_per_class": given.per_class,
        "val_per_class": held,
        "test_per_class": held,
    }
    schedule = {"epochs": given.epochs, "warmup": given.epochs, "budget": "count", "size": EDGES}
    print(f"| method | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}", flush=True)
    splits: Splits | None = None
    for method, own in METHODS.items():
        first = plan("spmotif-struc", method, data=data, settings=schedule | own)
        plans = [first.with_seed(s) for s in range(1, given.seeds + 1)]
        splits = splits or plans[0].load()
        model = collect(plans, run_all(plans, given.runs, device="cpu"), given.runs, splits)
        alone = [
            replace(model, members=[m], seeds=[s]) for s, m in zip(model.seeds, model.members, strict=True)
        ]
        print(row(method, [score(one, splits["ood_test"]) for one in alone]), flush=True)
    assert splits is not None
    print(row("random", [chance(splits["ood_test"], s) for s in range(1, given.seeds + 1)]))


if __name__ == "__main__":
    main()
