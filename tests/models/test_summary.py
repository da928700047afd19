"""Intervals, the comparison with ERM, and what is said about it."""

from __future__ import annotations

import math

import pytest
import torch

from ciga.models.summary import advice, advice_among, compare, ensemble_score, interval, plots, score
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
    assert "ERM is better" in said(-0.05, -0.01)
    for low, high in ((-0.01, 0.05), (-0.05, -0.01)):  # whoever does not win has somewhere to go
        assert "--member erm" in said(low, high)
        assert "--method auto" in said(low, high)
    assert "one seed does not show how much" in said(0.01, 0.05, seeds=1)
    assert "2 seeds do not show" in said(0.01, 0.05, seeds=2)
    assert "not defined" in said(math.nan, math.nan)
    assert "not defined" in said(math.nan, math.nan, seeds=1)
    assert "not compared" in advice("erm", None, 3, "ood_test", "roc_auc")


def test_compare_judges_the_ensembles_that_are_shipped() -> None:
    """Single seeds are equal on average here; members that differ gain more from being averaged."""
    y = torch.arange(600) % 2
    rng = torch.Generator().manual_seed(0)
    shared = torch.randn(1, len(y), generator=rng)

    def made(own: torch.Tensor) -> torch.Tensor:
        logit = 1.2 * (2 * y - 1) + 2 * own
        return torch.stack([-logit, logit], -1).softmax(-1)

    varied, alike = made(torch.randn(5, len(y), generator=rng)), made(shared.expand(5, -1))
    one_by_one = [sum(score(p, y, "roc_auc") for p in some) / len(some) for some in (varied, alike)]
    assert abs(one_by_one[0] - one_by_one[1]) < 0.03
    found = compare(varied, alike, y, "roc_auc")
    assert found["low"] > 0.03
    whole = score(varied.mean(0), y, "roc_auc"), score(alike.mean(0), y, "roc_auc")
    assert found["difference"] == pytest.approx(whole[0] - whole[1])
    shown = ensemble_score(varied, y, "roc_auc")
    assert shown["low"] < shown["mean"] == whole[0] < shown["high"]
    assert math.isnan(compare(varied[:1], alike[:1], y, "roc_auc")["low"])  # one seed has no luck to measure


def verdict(low: float, high: float, worse: float = 0.3) -> stats.Verdict:
    middle = (low + high) / 2
    return {"difference": middle, "low": low, "high": high, "better": 0.3, "equal": 0.4, "worse": worse}


def test_advice_among_several_names_another_method_only_beyond_noise() -> None:
    def said(seeds: int = 3, **found: stats.Verdict) -> str:
        return advice_among("the mixture", found, seeds, "ood_test", "roc_auc")

    wins, level, loses = verdict(0.01, 0.05), verdict(-0.02, 0.03), verdict(-0.09, -0.05, 1.0)
    assert "The mixture beats forest, erm on ood_test beyond noise" in said(
        forest=wins, erm=verdict(0.1, 0.2)
    )
    assert "use the mixture. It beats erm beyond noise" in said(forest=level, erm=wins)
    assert said(forest=loses, erm=wins).endswith("use --member forest.")
    # Below 0 by a hair, or by luck among several methods, is not enough.
    assert "use the mixture" in said(forest=verdict(-0.02, -0.001, 0.9), erm=wins)
    assert "luck" in said(1, forest=loses)
    parts = advice_among("gsat", {"forest": level, "erm": wins}, 3, "ood_test", "roc_auc", extracts=True)
    assert "take gsat for its subgraphs if they help you, not for its score. It beats erm" in parts
    assert "not defined" in said(forest=verdict(math.nan, math.nan))


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
