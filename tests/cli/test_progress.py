"""Progress: it moves, and its end is where early stopping would end the run."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from ciga.cli.progress import EpochBar, Stop
from ciga.progress import AtMost


def row(epoch: int, score: float) -> dict[str, Any]:
    return {"epoch": epoch, "terms": {"loss": 1.0}, "metrics": {"ood_val": {"accuracy": score}}}


def shown(bar: EpochBar, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(bar.bar.get_renderable())
    return out.getvalue()


def test_the_end_moves_with_the_best_score() -> None:
    stop = Stop(warmup=3, patience=5)
    assert stop.end(1, 0.5) == 8  # the warm-up, then patience
    assert stop.end(4, 0.6) == 9
    assert stop.end(6, 0.6) == 9  # no better
    assert stop.end(8, 0.7) == 13
    assert stop.end(20, 0.1) == 20


def test_no_total_is_none_and_no_bar_is_full_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUDIT U11: "0/None", and a full bar while training starts."""
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    bar = EpochBar("run")
    task = bar.bar.tasks[0]
    assert "None" not in shown(bar)
    assert "starting" in shown(bar)
    bar.data(3, 10, "reading")
    assert "3/10" in shown(bar)
    bar.data(10, 10, "reading")
    assert task.total is None
    assert "10/10" not in shown(bar)
    bar.overall(0, 120, "")
    assert "0/120" not in shown(bar)
    bar.overall(7, 120, "erm seed 1: epoch 7")
    assert "7/120" in shown(bar)


def test_a_total_that_may_shrink_is_called_at_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = EpochBar("fit")
    plain.overall(7, AtMost(120), "erm seed 1: epoch 7")
    plain.last = -100.0
    plain.overall(30, 60, "erm seed 2: epoch 10")
    said = capsys.readouterr().err
    assert "fit: 7 of at most 120 epochs; erm seed 1: epoch 7" in said
    assert "fit: 30 of 60 epochs; erm seed 2: epoch 10" in said
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    bar = EpochBar("fit")
    for done in (7, 8, 9):
        bar.overall(done, AtMost(120), "")
    assert "9/120" in shown(bar)
    assert "at most" in shown(bar)
    bar.overall(30, 60, "")
    assert "30/60" in shown(bar)
    assert " left" in shown(bar)
    assert "at most" not in shown(bar)
    assert bar.bar.tasks[0].time_remaining is not None  # another total is no new beginning


def test_a_narrow_window_cuts_the_news_not_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    bar = EpochBar("ciga-v2 on molecules.csv")
    for done in (7, 8, 9):
        bar.overall(done, AtMost(1200), "ciga-v2 seed 1: epoch 3 id_val 0.667 ood_val 0.625 and more of it")
    line = shown(bar, 80).rstrip("\n")
    assert "\n" not in line
    assert len(line) == 80
    for whole in ("ciga-v2 on molecules.csv", "9/1200", "at most", " left"):
        assert whole in line


def test_the_bar_ends_where_early_stopping_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    bar = EpochBar("run")
    bar.stops(warmup=2, patience=3)
    bar.epoch(row(0, 0.5), 100)
    assert bar.bar.tasks[0].total == 5
    bar.epoch(row(3, 0.8), 100)
    assert bar.bar.tasks[0].total == 7
    bar.epoch(row(4, 0.9), 6)
    assert bar.bar.tasks[0].total == 6  # never beyond the most there may be


def test_no_score_is_cut_in_a_narrow_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns the last score read `id_val …`."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    bar = EpochBar("ciga-v2 on spmotif-struc, seed 1")
    both = {"id_val": {"accuracy": 0.25}, "ood_val": {"accuracy": 0.75}}
    bar.epoch({"epoch": 4, "terms": {"loss": 15.9}, "metrics": both}, 15)
    assert "ood_val 0.750" in shown(bar, 80)
    assert "…" not in shown(bar, 80)
    assert "loss" not in shown(bar, 80)
    monkeypatch.setenv("COLUMNS", "120")
    bar = EpochBar("ciga-v2 on spmotif-struc, seed 1")
    bar.epoch({"epoch": 4, "terms": {"loss": 15.9}, "metrics": both}, 15)
    assert "loss 15.900 id_val 0.250 ood_val 0.750" in shown(bar, 120)
