"""Several networks of one method as one: the mean of what they say.

Where validation sets are small, one network's score on shifted data is as much chance as merit. The mean of
several ranks such graphs better than single ones do, whatever the method (results/NOTEBOOK.md).

One rule holds everywhere, for the scores in a record, for a model and for its explanations: probabilities of
classes and of edges are averaged, and the method's budget then chooses from the mean edge probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from ciga.graphs.store import Batch
from ciga.methods.base import Inference, Method
from ciga.methods.contract import check_inference
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.extractor import Partition


def infer(method: Method[Any], networks: Sequence[nn.Module], batch: Batch) -> Inference:
    """What networks of one method say of a batch, as one."""
    every = [method.infer(network, batch) for network in networks]
    check_inference(method, every[0], batch.num_graphs)
    return joined(method, networks, batch, every)


def joined(
    method: Method[Any], networks: Sequence[nn.Module], batch: Batch, every: Sequence[Inference]
) -> Inference:
    """What each of the networks said of a batch, as one; a single network is left as it is.

    Args:
        method: of all networks.
        networks: which were asked.
        batch: the graphs they were asked about.
        every: the inference of each network. Representations of different networks have nothing in common:
            they stand side by side, [G, S * d].
    """
    if len(every) == 1:
        return every[0]
    partition = None
    scores = [one.partition.score for one in every if one.partition is not None]
    if scores:
        score = mean_score(scores)
        partition = Partition(score, method.keep(networks[0], score, batch))
    representation = torch.cat([one.representation for one in every], 1)
    return Inference(mean_logits([one.logits for one in every]), partition, representation)


def mean_logits(logits: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of the probabilities behind these logits, [G, C]."""
    return _log_mean([one.log_softmax(1) for one in logits])


def mean_score(scores: Sequence[Tensor]) -> Tensor:
    """The logit of the mean of the edge probabilities behind these logits, [P].

    From logarithms: a sigmoid would make large logits equal, and equal edges are ranked by chance.
    """
    if len(scores) == 1:
        return scores[0]
    return _log_mean([logsigmoid(s) for s in scores]) - _log_mean([logsigmoid(-s) for s in scores])


def _log_mean(logs: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(logs)).logsumexp(0) - math.log(len(logs))


# ---------------------------------------------------------------- weights of several networks in one file


def pack(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of several networks under one roof: those of the second are called `1.…`."""
    if len(states) == 1:
        return dict(states[0])
    return {f"{i}.{k}": v for i, state in enumerate(states) for k, v in state.items()}


def unpack(
    method: Method[Any], spec: Spec, backbone: Backbone, state: Mapping[str, Tensor], members: int = 1
) -> list[nn.Module]:
    """The networks of a `pack`, ready to predict.

    Args:
        method: of all networks.
        spec, backbone: the shape of each network.
        state: what `pack` made; a RuntimeError says where it does not fit.
        members: the number of networks in it.
    """
    whole = nn.ModuleList(method.network(spec, backbone) for _ in range(members))
    whole.load_state_dict({f"0.{k}": v for k, v in state.items()} if members == 1 else dict(state))
    return list(whole.eval())
