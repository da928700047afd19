"""Score and edge AUROC of a run by two columns of its dataset: which combinations does it get wrong?

python tools/by_column.py spmotif-struc ciga-v2 --seed 2 --data bias=0.6 --data variant=paper --runs-dir runs

Trains the run if it is not recorded in the folder of runs yet. With --logits it also says, for every row, the
median logit of the edges in the true subgraph and of the others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from ciga.files import read_tensors
from ciga.graphs.store import GraphStore
from ciga.methods.base import Method
from ciga.nn import Spec
from ciga.runs import plan as run
from ciga.runs.records import Runs
from ciga.training.evaluation import evaluate


def pairs(words: list[str]) -> dict[str, str]:
    """key=value words as a mapping."""
    return dict(word.split("=", 1) for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("method")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", action="append", default=[], metavar="key=value")
    parser.add_argument("--set", action="append", default=[], metavar="key=value")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--select", default="", help="which weights: ood-val, id-val, last, oracle")
    parser.add_argument("--rows", default="motif")
    parser.add_argument("--columns", default="base")
    parser.add_argument("--logits", action="store_true", help="median logits of true and other edges, too")
    args = parser.parse_args()

    planned = run.plan(
        args.dataset, args.method, seed=args.seed, data=pairs(args.data), settings=pairs(args.set)
    )
    record = run.execute(planned, args.runs_dir)
    rule = args.select or record["selection"]
    splits = planned.load()
    network = planned.settings.method.network(Spec.of(splits), planned.settings.backbone)
    weights = Runs(args.runs_dir).folder(planned.config) / f"weights.{rule}.safetensors"
    network.load_state_dict(read_tensors(weights)[0])
    network.eval()
    method, metric = planned.settings.method, splits.task.metric
    for split in ("ood_val", "ood_test"):
        store = splits[split]
        row, column = (torch.as_tensor(store.columns[name]) for name in (args.rows, args.columns))
        whole = evaluate(method, network, store)
        print(f"{split}: {said(whole, metric)}; {args.rows} down, {args.columns} across ({rule})")
        for r in row.unique():
            cells = [store.subset((row == r) & (column == c)) for c in column.unique()]
            line = f"  {int(r)}  " + "   ".join(said(evaluate(method, network, c), metric) for c in cells)
            print(line + (medians(method, network, store.subset(row == r)) if args.logits else ""))


@torch.inference_mode()
def medians(method: Method, network: torch.nn.Module, store: GraphStore) -> str:
    """The median logit of the edges in the true subgraph, and of all others."""
    batch = store.batch(slice(None))
    score = method.edge_scores(network, batch)[0]
    truth = batch.pair_truth
    assert truth is not None, "the true subgraph of these graphs is not known"
    return f"   logits {float(score[truth].median()):+.2f}, others {float(score[~truth].median()):+.2f}"


def said(found: dict[str, float], metric: str) -> str:
    """A score and, where edges are scored, their AUROC."""
    return f"{found[metric]:.2f}" + (f" (edges {found['edge_auroc']:.2f})" if "edge_auroc" in found else "")


if __name__ == "__main__":
    main()
