"""Intervals, the comparison with ERM, and what is said about it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from ciga.models.summary import advice, compare, interval, plots


def test_interval_is_students() -> None:
    values = [0.71, 0.75, 0.74, 0.69]
    found = interval(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found["low"], found["high"]) == pytest.approx((low, high))
    assert found["mean"] == pytest.approx(np.mean(values))
    assert math.isnan(interval([0.5])["low"])
    assert interval([0.5])["mean"] == 0.5
    assert math.isnan(interval([])["mean"])


def noisy(y: torch.Tensor, sharpness: float, seeds: int, seed: int) -> torch.Tensor:
    """Predictions [S, n, 2], the better the sharper."""
    rng = torch.Generator().manual_seed(seed)
    logit = sharpness * (2 * y.double() - 1) + 2 * torch.randn(seeds, len(y), generator=rng).double()
    return torch.stack([-logit, logit], -1).softmax(-1)


@pytest.mark.parametrize("metric", ["roc_auc", "accuracy", "mcc", "log_loss"])
def test_compare_tells_better_from_worse_and_neither(metric: str) -> None:
    y = torch.arange(400) % 2
    good, poor, also_poor = noisy(y, 3.0, 3, 0), noisy(y, 0.5, 3, 1), noisy(y, 0.5, 3, 2)
    better, worse, same = (
        compare(good, poor, y, metric),
        compare(poor, good, y, metric),
        compare(poor, also_poor, y, metric),
    )
    assert better["low"] > 0
    assert worse["high"] < 0
    assert same["low"] < 0 < same["high"]
    assert better["low"] <= better["difference"] <= better["high"]
    assert compare(good, poor, y, metric) == better  # no chance in it


def test_advice_is_honest() -> None:
    def said(low: float, high: float, seeds: int = 3) -> str:
        return advice(
            "ciga-v2",
            {"difference": (low + high) / 2, "low": low, "high": high},
            seeds,
            "ood_test",
            "roc_auc",
        )

    assert "beats ERM on ood_test beyond noise" in said(0.01, 0.05)
    assert "does not beat ERM" in said(-0.01, 0.05)
    assert "ERM is better" in said(-0.05, -0.01)
    assert "one seed" in said(0.01, 0.05, seeds=1)
    assert "not defined" in said(math.nan, math.nan)
    assert "not defined" in said(math.nan, math.nan, seeds=1)
    assert "not compared" in advice("erm", None, 3, "ood_test", "roc_auc")


def test_plots_count_every_graph() -> None:
    y = torch.arange(60) % 3
    probability = torch.rand(60, 3, generator=torch.Generator().manual_seed(0)).softmax(1)
    found = plots(probability, y)
    assert sum(b["count"] for b in found["reliability"]) == 60
    best = probability.argmax(1)
    for true in range(3):
        for guess in range(3):
            assert found["confusion"][true][guess] == int(((y == true) & (best == guess)).sum())
    right = sum(b["count"] * b["accuracy"] for b in found["reliability"])
    assert right == pytest.approx(float((best == y).sum()))
