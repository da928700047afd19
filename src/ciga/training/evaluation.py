"""A network's scores on a store."""

from __future__ import annotations

import torch
from torch import nn

from ciga.graphs.store import GraphStore
from ciga.methods.base import Method
from ciga.scoring import metrics
from ciga.scoring.probe import describe_rest, probe


@torch.inference_mode()
def evaluate(
    method: Method, network: nn.Module, store: GraphStore, batch_size: int = 256, rest: str | None = None
) -> dict[str, float]:
    """Every metric of a network on a store, explanations included where the truth is known.

    `rest` names the metric by which to score what G_s tells of the label (as `rest`), where there is a G_s.
    """
    network.eval()
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    logits, labels, scores, truths, groups, left = [], [], [], [], [], []
    seen = 0
    for batch in store.batches(batch_size, chunk=4):
        batch = batch.to(device)
        out, edges = method.infer(network, batch)
        logits.append(out)
        labels.append(batch.y)
        if edges is not None and rest is not None:
            left.append(describe_rest(batch, edges[1]))
        if edges is not None and (truth := batch.pair_truth) is not None:
            scores.append(edges[0])
            truths.append(truth)
            groups.append(batch.pair_batch + seen)
        seen += batch.num_graphs
    found = metrics.classification(torch.cat(logits), torch.cat(labels))
    if scores:
        found |= metrics.explanation(torch.cat(scores), torch.cat(truths), torch.cat(groups), seen)
    if left and rest is not None:
        y = torch.cat(labels)
        found["rest"] = metrics.classification(probe(torch.cat(left), y, logits[0].size(1)), y)[rest]
    return found
