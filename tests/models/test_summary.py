"""Intervals, the comparison with ERM, and what is said about it."""

from __future__ import annotations

import math

import pytest
import torch

from ciga.models.summary import advice, compare, interval, plots
from ciga.scoring import stats


def test_an_interval_ends_where_the_metric_does() -> None:
    assert interval([0.9, 1.0, 1.0], "accuracy")["high"] == 1.0
    assert interval([0.9, 1.0, 1.0])["high"] > 1.0
    assert interval([0.9, 1.0, 1.0]) == stats.interval([0.9, 1.0, 1.0])
    assert math.isnan(interval([0.5, 0.6])["low"])  # two seeds


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
    assert better["better"] > 0.99
    assert worse["worse"] > 0.99
    assert worse["high"] < 0
    assert same["low"] < 0 < same["high"]
    assert better["low"] <= better["difference"] <= better["high"]
    assert compare(good, poor, y, metric) == better  # no chance in it


def test_advice_is_honest() -> None:
    def said(low: float, high: float, seeds: int = 3, extracts: bool = True) -> str:
        return advice(
            "ciga-v2",
            {
                "difference": (low + high) / 2,
                "low": low,
                "high": high,
                "better": 0.3,
                "equal": 0.4,
                "worse": 0.3,
            },
            seeds,
            "ood_test",
            "roc_auc",
            extracts,
        )

    assert "beats ERM on ood_test beyond noise" in said(0.01, 0.05)
    assert "does not beat ERM" in said(-0.01, 0.05)
    assert "take it for its subgraphs" in said(-0.01, 0.05)
    assert "its subgraphs" not in said(-0.01, 0.05, extracts=False)
    assert "use --method erm" in said(-0.01, 0.05, extracts=False)
    assert "ERM is better" in said(-0.05, -0.01)
    assert "one seed does not show how much" in said(0.01, 0.05, seeds=1)
    assert "2 seeds do not show" in said(0.01, 0.05, seeds=2)
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
