"""Loss terms that more than one method uses."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize


def contrast(z: Tensor, positive: Tensor, candidate: Tensor, temperature: float = 1.0) -> Tensor:
    """Supervised contrastive loss with explicit pairs.

    For every anchor i with a positive: minus the mean over its positives p of
    log( exp(z_i.z_p / t) / sum over candidates k of exp(z_i.z_k / t) ), z on the unit sphere.

    Args:
        z: embeddings [B, d].
        positive: [B, B], True where column is a positive of row.
        candidate: [B, B], True where column stands in row's denominator; contains `positive`.
        temperature: t.
    """
    z = normalize(z, dim=1)
    # Not -inf: in the row of an anchor without candidates it would make NaN, and NaN * 0 is NaN.
    never = torch.finfo(z.dtype).min
    log_share = (z @ z.T / temperature).masked_fill(~candidate, never).log_softmax(1)
    weight = positive.to(z.dtype)
    count = weight.sum(1, keepdim=True)
    anchors = (count > 0).sum()
    return -(log_share * (weight / count.clamp(min=1))).sum() / anchors.clamp(min=1)


def supervised_contrast(z: Tensor, y: Tensor, temperature: float = 1.0) -> Tensor:
    """`contrast` with positives of the same class and all others as candidates (Khosla et al., 2020).

    Zero, not NaN, on a batch without any two graphs of one class.
    """
    itself = torch.eye(y.numel(), dtype=torch.bool, device=y.device)
    return contrast(z, (y[:, None] == y) & ~itself, ~itself, temperature)


def bernoulli_kl(logit: Tensor, r: float) -> Tensor:
    """KL( Bern(sigma(logit)) || Bern(r) ) of each edge, in a form that never takes the logarithm of 0."""
    p = logit.sigmoid()
    log_p, log_q = logsigmoid(logit), logsigmoid(-logit)
    prior = torch.tensor([r, 1 - r], dtype=logit.dtype, device=logit.device).log()
    return p * (log_p - prior[0]) + (1 - p) * (log_q - prior[1])


def edge_prior(logit: Tensor, r: float) -> Tensor:
    """Mean over edges of `bernoulli_kl`; a batch without edges has nothing to pay for."""
    return bernoulli_kl(logit, r).sum() / max(logit.numel(), 1)
