"""The order in which training graphs are seen."""

from __future__ import annotations

import torch

from ciga.training.sampling import balanced_order


def test_balanced_order_has_every_class_equally_often() -> None:
    y = torch.tensor([0] * 50 + [1] * 13 + [5] * 4)
    order = balanced_order(y)
    assert order.shape == y.shape
    assert sorted(y[order].bincount(minlength=6).tolist()) == [0, 0, 0, 22, 22, 23]
    times = order.bincount(minlength=y.numel())
    assert times[:50].max() == 1  # of the frequent class none twice
    for some in (times[50:63], times[63:]):
        assert some.max() - some.min() <= 1  # of the others all, before one is drawn again
    assert not torch.equal(order, balanced_order(y))
    assert y[order].diff().ne(0).sum() > 20  # classes are mixed
    assert balanced_order(torch.zeros(7, dtype=torch.long)).sort().values.tolist() == list(range(7))
