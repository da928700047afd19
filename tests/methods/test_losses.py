"""The supervised contrast against pytorch-metric-learning and a loop, the prior of edges; empty batches."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ciga.methods.losses import bernoulli_kl, contrast, edge_prior, supervised_contrast


def draw(seed: int, size: int, classes: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(size, 7, generator=rng) * 3, torch.randint(classes, (size,), generator=rng)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize(("size", "classes"), [(2, 1), (8, 2), (33, 3), (12, 9)])
def test_equals_pytorch_metric_learning(size: int, classes: int, temperature: float) -> None:
    losses = pytest.importorskip(
        "pytorch_metric_learning.losses", reason="pytorch-metric-learning is missing"
    )
    for seed in range(3):
        z, y = draw(seed, size, classes)
        ours, theirs = z.clone().requires_grad_(), z.clone().requires_grad_()
        found = supervised_contrast(ours, y, temperature)
        expected = losses.SupConLoss(temperature=temperature)(theirs, y)
        torch.testing.assert_close(found, expected)
        found.backward()
        expected.backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        ([0], 0.0),  # one graph: nothing to compare it with
        ([0, 1, 2], 0.0),  # no two of a class
        ([1, 1], 0.0),  # the only other one is the positive: log 1
        ([1, 1, 1, 1], None),  # one class
        ([0, 0, 1], None),  # an anchor without a positive beside two with
        ([], 0.0),
    ],
)
def test_finite_with_a_finite_gradient_whatever_the_batch(labels: list[int], value: float | None) -> None:
    z = torch.randn(len(labels), 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = supervised_contrast(z, torch.tensor(labels, dtype=torch.long))
    assert loss.isfinite()
    assert loss.dim() == 0
    if value is None:
        assert loss > 0
    else:
        assert float(loss.detach()) == pytest.approx(value, abs=1e-6)
    loss.backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_a_zero_vector_does_not_poison_the_batch() -> None:
    z, y = draw(1, 6, 2)
    z[2] = 0.0
    z.requires_grad_()
    loss = supervised_contrast(z, y)
    loss.backward()
    assert loss.isfinite()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_anchors_without_a_positive_do_not_count_in_the_mean() -> None:
    z, _ = draw(2, 3, 1)
    z = torch.nn.functional.normalize(z, dim=1)
    similarity = (z @ z.T).tolist()

    def share(i: int, p: int) -> float:
        return math.log(sum(math.exp(similarity[i][k]) for k in range(3) if k != i)) - similarity[i][p]

    expected = (share(0, 1) + share(1, 0)) / 2  # the third has no positive
    assert float(supervised_contrast(z, torch.tensor([0, 0, 1]))) == pytest.approx(expected, abs=1e-5)


def test_explicit_pairs_by_a_loop() -> None:
    rng = torch.Generator().manual_seed(3)
    z = torch.nn.functional.normalize(torch.randn(9, 4, generator=rng), dim=1)
    positive = torch.rand(9, 9, generator=rng) < 0.3
    candidate = positive | (torch.rand(9, 9, generator=rng) < 0.4)
    positive[4] = candidate[4] = False  # an anchor with no pair at all
    positive[5] = False  # an anchor with candidates only
    losses = []
    for i in range(9):
        mine = positive[i].nonzero().flatten().tolist()
        if mine:
            total = sum(math.exp(float(z[i] @ z[k]) / 0.5) for k in candidate[i].nonzero().flatten().tolist())
            losses.append(-sum(float(z[i] @ z[p]) / 0.5 - math.log(total) for p in mine) / len(mine))
    expected = sum(losses) / len(losses)
    assert float(contrast(z, positive, candidate, 0.5)) == pytest.approx(expected, rel=1e-5)


def test_pulls_a_class_together() -> None:
    z, y = draw(4, 12, 3)
    z.requires_grad_()
    before = supervised_contrast(z, y)
    before.backward()
    assert z.grad is not None
    assert supervised_contrast(z.detach() - 0.5 * z.grad, y) < before


def test_kl_equals_its_definition() -> None:
    logits = torch.linspace(-4, 4, 9)
    for r in (0.5, 0.7):
        slow = []
        for logit in logits.tolist():
            p = 1 / (1 + math.exp(-logit))
            slow.append(p * math.log(p / r) + (1 - p) * math.log((1 - p) / (1 - r)))
        torch.testing.assert_close(bernoulli_kl(logits, r), torch.tensor(slow))
    assert float(bernoulli_kl(torch.tensor([math.log(0.7 / 0.3)]), 0.7)) == pytest.approx(0.0, abs=1e-6)
    assert bool(bernoulli_kl(torch.tensor([-200.0, 200.0]), 0.5).isfinite().all())
    assert float(edge_prior(torch.zeros(0), 0.5)) == 0.0  # a batch without edges
