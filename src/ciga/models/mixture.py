"""How much each candidate says in the answer of a mixed model: shares that validation rows choose.

The shares are those under which the mean of the candidates' probabilities makes the validation labels
likeliest, held towards equal ones as if one more row had been explained equally well by all. So a few
validation rows move them, and many decide. The rows that are given here should not have chosen the epochs.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

#: Rows that speak for equal shares. More of them predicted held-out validation rows worse, however few rows
#: the shares were chosen on; none at all was worse only with ten (results/NOTEBOOK.md).
PRIOR = 1
STEPS = 500
#: A class that a candidate excludes may still be right.
LEAST = 1e-4


def best_shares(every: Mapping[str, Tensor], y: Tensor, prior: float = PRIOR) -> dict[str, float]:
    """The share of each candidate, in whole per cent, from its probabilities [n, C] and the labels [n].

    By expectation-maximisation: each row is divided among the candidates by how likely each made its label.
    """
    names = list(every)
    if not names:
        return {}
    right = torch.stack([p.double().gather(1, y.unsqueeze(1)).squeeze(1) for p in every.values()])
    right = right.clamp(min=LEAST)  # [K, n]
    share = torch.full((len(names),), 1 / len(names), dtype=torch.double)
    for _ in range(STEPS if y.numel() else 0):
        part = share.unsqueeze(1) * right
        part = part / part.sum(0)
        share = (part.sum(1) + prior / len(names)) / (y.numel() + prior)
    whole = _per_cent(share)
    return {name: n / 100 for name, n in zip(names, whole, strict=True)}


def _per_cent(share: Tensor) -> list[int]:
    """Whole numbers that sum to 100: those cut off most are rounded up."""
    exact = 100 * share / share.sum()
    whole = exact.floor()
    lost = round(100 - float(whole.sum()))
    whole[(exact - whole).argsort(descending=True, stable=True)[:lost]] += 1
    return [int(n) for n in whole]
