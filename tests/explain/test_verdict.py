"""The top of the report: the verdict follows the comparison, and the four cards are telling ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ciga.explain.examine import Examined
from ciga.explain.verdict import figures, highlights, reason, verdict
from ciga.explain.words import Words

WORDS = Words.of(True, "scaffold")


def model(low: float, high: float, seeds: int = 3, extracts: bool = True) -> Any:
    scores = {"ood-val": {"ood_test": {"roc_auc": [0.7, 0.72, 0.74][:seeds]}, "epoch": [1] * seeds}}
    report_data = {
        "where": "ood_test",
        "selection": "ood-val",
        "scores": {"ciga-v2": scores, "erm": scores},
        "comparison": {"difference": (low + high) / 2, "low": low, "high": high},
    }
    return SimpleNamespace(
        report_data=report_data,
        metric="roc_auc",
        seeds=list(range(seeds)),
        method=SimpleNamespace(extracts=extracts),
        gauge=SimpleNamespace(chance=0.05),
        shares={},
    )


def examined(kept: float, chance: float, above: float) -> Examined:
    found = {"agrees_kept": kept, "agrees_random": chance, "above_random": above, "above_random_error": 0.01}
    found |= {"agrees_above_random": kept - chance, "agrees_above_random_error": 0.05}
    return Examined(150, [], fidelity=found, flagged=0.3)


@pytest.mark.parametrize(
    ("low", "high", "tone", "start"),
    [
        (0.01, 0.1, "good", "Better than a plain network on new scaffolds"),
        (-0.1, -0.01, "poor", "A plain network does better on new scaffolds"),
        (-0.05, 0.05, "fair", "No better than a plain network on new scaffolds"),
    ],
)
def test_the_verdict_follows_the_comparison(low: float, high: float, tone: str, start: str) -> None:
    found = verdict(model(low, high), "ciga-v2", WORDS)
    assert found["tone"] == tone
    assert found["headline"].startswith(start)
    assert figures(model(low, high), None, WORDS)[0]["tone"] == tone


@pytest.mark.parametrize(
    ("low", "high", "worse", "tone", "said"),
    [
        (0.01, 0.1, 0.0, "good", "Better than each of its methods on new scaffolds"),
        (-0.1, -0.01, 0.999, "poor", "use --member forest"),
        (-0.1, -0.001, 0.96, "fair", "Use the mixture"),  # not beyond noise, for the best of two rivals
        (-0.05, 0.05, 0.4, "fair", "No clear difference from the best of its methods on new scaffolds"),
    ],
)
def test_a_mixture_is_judged_against_the_best_of_its_methods(
    low: float, high: float, worse: float, tone: str, said: str
) -> None:
    mixed = model(0.01, 0.1)
    mixed.shares = {"forest": 0.5, "erm": 0.5}
    rival = {"difference": (low + high) / 2, "low": low, "high": high, "worse": worse}
    erm = {"difference": 0.2, "low": 0.1, "high": 0.3, "worse": 0.0}
    mixed.report_data["comparisons"] = {"erm": erm, "forest": rival}
    found = verdict(mixed, "mix", WORDS)
    assert found["tone"] == tone
    assert said in found["headline"] + found["advice"]
    assert figures(mixed, None, WORDS)[0]["tone"] == tone


@pytest.mark.parametrize(
    ("low", "high", "worse", "extracts", "tone", "said"),
    [
        (0.01, 0.1, 0.0, True, "good", "Better than each of the methods beside it on new scaffolds"),
        (-0.1, -0.01, 0.999, True, "poor", "use --member forest"),
        (-0.05, 0.05, 0.4, True, "fair", "Use it for the parts it shows, not for its score"),
        (-0.05, 0.05, 0.4, False, "fair", "Either will do"),
    ],
)
def test_a_method_is_judged_against_the_better_of_its_yardsticks(
    low: float, high: float, worse: float, extracts: bool, tone: str, said: str
) -> None:
    single = model(0.01, 0.1, extracts=extracts)
    forest = {"difference": (low + high) / 2, "low": low, "high": high, "worse": worse}
    single.report_data["comparisons"] = {
        "forest": forest,
        "erm": {"difference": 0.2, "low": 0.1, "high": 0.3, "worse": 0.0},
    }
    found = verdict(single, "ciga-v2", WORDS)
    assert found["tone"] == tone
    assert said in found["headline"] + found["advice"]
    assert figures(single, None, WORDS)[0]["tone"] == tone


def test_too_few_runs_are_not_judged() -> None:
    found = verdict(model(0.01, 0.1, seeds=2), "ciga-v2", WORDS)
    assert found["tone"] == "open"
    assert "2 training runs are too few" in found["headline"]
    alone = model(0.01, 0.1)
    alone.report_data["comparison"] = None
    assert "not compared" in verdict(alone, "ciga-v2", WORDS)["headline"]


def test_three_numbers() -> None:
    score, why, shift = figures(model(0.01, 0.1), examined(0.88, 0.57, 0.1), WORDS)
    assert (score["name"], score["value"]) == ("ROC-AUC on new scaffolds", "0.720")
    assert "plain network (ERM) 0.720; 0.5 is guessing" in score["about"]
    assert (why["value"], why["tone"]) == ("88.0 %", "good")
    assert (shift["value"], shift["tone"]) == ("30.0 %", "poor")
    assert "150 molecules" in shift["about"]


def test_the_score_is_that_of_what_is_shipped() -> None:
    """AUDIT U14: the mean of single runs stood there, while the answer is that of the runs averaged."""
    shipped = model(0.01, 0.1)
    whole = {"mean": 0.81, "low": 0.75, "high": 0.86, "n": 3.0}
    undefined = {"mean": 0.78, "low": None, "high": None, "n": 3.0}
    shipped.report_data["ensembles"] = {"ciga-v2": {"ood_test": whole}, "erm": {"ood_test": undefined}}
    score = figures(shipped, None, WORDS)[0]
    assert score["value"] == "0.810"
    assert score["about"].startswith(
        "3 training runs averaged; 95 % interval over molecules 0.750 to 0.860; "
    )
    assert "plain network (ERM) 0.780" in score["about"]


@pytest.mark.parametrize(
    ("kept", "chance", "above", "tone"),
    [
        (0.9, 0.5, 0.1, "good"),
        (1.0, 1.0, 0.1, "fair"),
        (0.66, 0.64, 0.1, "fair"),  # more often, but within noise
        (0.9, 0.5, 0.005, "poor"),
        (0.9, 0.5, -0.2, "poor"),
    ],
)
def test_highlights_are_reasons_only_above_chance(
    kept: float, chance: float, above: float, tone: str
) -> None:
    assert reason(examined(kept, chance, above)) == tone


def card(row: int, predicted: str, confidence: float, **values: Any) -> dict[str, Any]:
    usual = {"correct": "right", "flagged": False, "shift": 0.0, "seen": False}
    return {"row": row, "predicted": predicted, "confidence": confidence, **usual, **values}


def test_four_telling_cards() -> None:
    cards = [
        card(1, "a", 0.99, seen=True),
        card(2, "a", 0.9),
        card(3, "b", 0.8),
        card(4, "b", 0.95, correct="wrong"),
        card(5, "a", 0.7, flagged=True, shift=2.0),
        card(6, "b", 0.51),
    ]
    found = highlights(cards, ["a", "b"])
    assert [(c["row"], c["why"]) for c in found] == [
        (2, "Surest a, and right"),
        (3, "Surest b, and right"),
        (4, "Sure, but wrong"),
        (5, "Unlike the training data"),
    ]
    plain = [{**c, "correct": "unknown", "flagged": False} for c in cards]
    assert highlights(plain, ["a", "b"])[0]["why"] == "Surest a"
    assert len(highlights(cards[:3], ["a", "b"])) == 3
    assert highlights([], ["a"]) == []
