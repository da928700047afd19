"""Scores of a network, or of several as one, on a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ciga.graphs.store import GraphStore
from ciga.methods.base import Method
from ciga.scoring import metrics
from ciga.scoring.probe import describe_rest, probe
from ciga.training.ensemble import infer


@torch.inference_mode()
def evaluate(
    method: Method[Any],
    networks: Sequence[nn.Module],
    store: GraphStore,
    batch_size: int = 256,
    rest: str | None = None,
) -> dict[str, float]:
    """Every metric of a method's networks on a store, explanations included where the truth is known.

    Args:
        method: of all networks.
        networks: one, or several that answer as one (`ciga.training.ensemble`).
        store: the graphs.
        batch_size: the number of graphs asked about at a time.
        rest: the metric by which to score what G_s says about the label (as `rest`), where there is a G_s.
    """
    for network in networks:
        network.eval()
    device = next((p.device for p in networks[0].parameters()), torch.device("cpu"))
    logits, labels, scores, truths, groups, left = [], [], [], [], [], []
    seen = 0
    for batch in store.batches(batch_size, chunk=4):
        batch = batch.to(device)
        said = infer(method, networks, batch)
        partition = said.partition
        logits.append(said.logits)
        labels.append(batch.y)
        if partition is not None and rest is not None:
            left.append(describe_rest(batch, partition.kept))
        if partition is not None and (truth := batch.pair_truth) is not None:
            scores.append(partition.score)
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
