"""Loss terms that more than one method uses."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def contrast(z: Tensor, positive: Tensor, candidate: Tensor, temperature: float = 1.0) -> Tensor:
    """Supervised contrastive loss with explicit pairs.

    For every anchor i with a positive: minus the mean over its positives p of
    log( exp(z_i.z_p / t) / sum over candidates k of exp(z_i.z_k / t) ), z on the unit sphere.

    Args:
        z: embeddings [B, d].
        positive: [B, B], True where column is a positive of row.
        candidate: [B, B], True where column stands in row's denominator; contains `positive`.
    """
    z = normalize(z, dim=1)
    similarity = z @ z.T / temperature
    similarity = similarity.masked_fill(~candidate, -torch.inf)
    # An anchor without candidates has only -inf in its row: its log-sum is replaced, it has no positives.
    empty = ~candidate.any(1, keepdim=True)
    log_total = similarity.masked_fill(empty, 0.0).logsumexp(1, keepdim=True)
    log_share = (similarity - log_total).masked_fill(~positive, 0.0)
    count = positive.sum(1)
    per_anchor = -log_share.sum(1) / count.clamp(min=1)
    anchors = (count > 0).sum()
    return per_anchor.sum() / anchors.clamp(min=1)


def supervised_contrast(z: Tensor, y: Tensor, temperature: float = 1.0) -> Tensor:
    """`contrast` with positives of the same class and all others as candidates (Khosla et al., 2020).

    Zero, not NaN, on a batch without any two graphs of one class.
    """
    itself = torch.eye(y.numel(), dtype=torch.bool, device=y.device)
    return contrast(z, (y[:, None] == y) & ~itself, ~itself, temperature)
