"""Metrics against scikit-learn's, and against loops where it has none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor

from ciga.scoring import metrics

by_property = settings(max_examples=50, deadline=None)


def draw(seed: int, size: int, classes: int) -> tuple[Tensor, Tensor]:
    """Logits that know something of the labels, in steps of a half, so that scores tie."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (size,), generator=rng)
    logits = torch.randn(size, classes, generator=rng) + 1.5 * torch.nn.functional.one_hot(y, classes)
    return (logits * 2).round() / 2, y


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_against_scikit_learn(classes: int, seed: int) -> None:
    logits, y = draw(seed, 80, classes)
    found = metrics.classification(logits, y)
    assert set(found) == set(metrics.METRICS)
    probability, labels = logits.double().softmax(1).numpy(), y.numpy()
    predicted = logits.argmax(1).numpy()
    expected = {
        "accuracy": sk.accuracy_score(labels, predicted),
        "roc_auc": sk.roc_auc_score(labels, probability[:, 1])
        if classes == 2
        else sk.roc_auc_score(labels, probability, multi_class="ovr"),
        "mcc": sk.matthews_corrcoef(labels, predicted),
        "balanced_accuracy": sk.balanced_accuracy_score(labels, predicted),
        "worst_class": sk.recall_score(labels, predicted, average=None).min(),
        "log_loss": sk.log_loss(labels, probability),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-9), name
    assert found["ece"] == pytest.approx(ece_by_a_loop(probability, labels), abs=1e-9)


def ece_by_a_loop(probability: np.ndarray, y: np.ndarray, bins: int = 15) -> float:
    total = 0.0
    confidence, predicted = probability.max(1), probability.argmax(1)
    for i in range(bins):
        inside = (confidence * bins >= i) & ((confidence * bins < i + 1) | (i == bins - 1))
        if inside.any():
            right = (predicted[inside] == y[inside]).mean()
            total += inside.mean() * abs(right - confidence[inside].mean())
    return total


@pytest.mark.filterwarnings("ignore")
def test_classes_that_do_not_occur() -> None:
    """The mean of one-versus-rest runs over classes that occur; one class alone has no curve."""
    logits, y = draw(1, 40, 4)
    y = y % 2
    found = metrics.classification(logits, y)
    p = logits.double().softmax(1)
    expected = np.mean([sk.roc_auc_score(y == c, p[:, c]) for c in (0, 1)])
    assert found["roc_auc"] == pytest.approx(expected)
    assert found["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(y, logits.argmax(1)))
    assert math.isnan(metrics.classification(logits, torch.zeros_like(y))["roc_auc"])


def test_no_correlation_where_there_is_nothing_to_correlate() -> None:
    logits, y = torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 1, 0, 1])
    found = metrics.classification(logits, y)
    assert found["mcc"] == sk.matthews_corrcoef(y, [0] * 4) == 0.0
    assert metrics.classification(logits, torch.zeros(4, dtype=torch.long))["mcc"] == 0.0


def test_extreme_logits_stay_finite() -> None:
    logits, y = torch.tensor([[1e4, -1e4], [-1e4, 1e4]]), torch.tensor([0, 0])
    found = metrics.classification(logits, y)
    assert found["log_loss"] == pytest.approx(1e4)
    assert found["ece"] == pytest.approx(0.5)


# ---------------------------------------------------------------- explanations


@st.composite
def grouped(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, int]:
    """Scores, truth and group of some edges; scores of few values tie often."""
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    values = draw(st.sampled_from([2, 4, 1000]))
    n = sum(sizes)
    group = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    score = torch.from_numpy(rng.integers(-values, values, n) / 7).float()
    return score, torch.from_numpy(rng.random(n) < 0.4), group, len(sizes)


@by_property
@given(grouped())
def test_auroc_of_each_group_is_scikit_learns(data: tuple[Tensor, Tensor, Tensor, int]) -> None:
    score, truth, group, groups = data
    found = metrics.grouped_auroc(score, truth, group, groups)
    assert found.shape == (groups,)
    for g in range(groups):
        mine = group == g
        if len(set(truth[mine].tolist())) < 2:
            assert found[g].isnan()
        else:
            assert float(found[g]) == pytest.approx(sk.roc_auc_score(truth[mine], score[mine]))


@by_property
@given(grouped())
def test_explanation_is_the_mean_over_graphs_that_count(data: tuple[Tensor, Tensor, Tensor, int]) -> None:
    score, truth, group, groups = data
    score = score + torch.linspace(0, 0.05, len(score))  # no ties: the best k are the best k
    areas, precisions = [], []
    for g in range(groups):
        mine = (group == g).nonzero().flatten().tolist()
        right = {i for i in mine if truth[i]}
        if 0 < len(right) < len(mine):
            best = sorted(mine, key=lambda i: -float(score[i]))[: len(right)]
            precisions.append(len(right.intersection(best)) / len(right))
            areas.append(sk.roc_auc_score(truth[mine], score[mine]))
    found = metrics.explanation(score, truth, group, groups)
    if not areas:
        assert found == {}
    else:
        assert found["edge_auroc"] == pytest.approx(np.mean(areas))
        assert found["precision_at_k"] == pytest.approx(np.mean(precisions))
