"""`ciga tune` as it is typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import ciga

pytest.importorskip("optuna", reason="optuna is not installed (extra: sweep)")

SMALL = ["--data=train_per_class=6", "--data=val_per_class=3", "--data=test_per_class=3"]
SMALL += ["--epochs=1", "--set=layers=1", "--set=width=4"]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *words: ciga(monkeypatch, capsys, "tune", *words)


def test_several_methods_on_equal_terms(run: Run, tmp_path: Path) -> None:
    code, out, error = run(
        "spmotif-struc", "--methods=erm,ciga-v1", "--trials=2", "--over=lr=0.001,0.003", "--out=best", *SMALL
    )
    assert code == 0, error
    assert "spmotif-struc: 2 trials for each method" in out
    assert out.count("2 (2 complete)") == 2
    for method in ("erm", "ciga-v1"):
        assert "the best of 2 trials" in (tmp_path / "best" / f"{method}.toml").read_text()
    code, _, error = run("spmotif-struc", "--methods=erm,ciga-v1", "--trials=9", "--over=lr=0.001", *SMALL)
    assert code == 2
    assert "Every method gets 9 trials, but erm has only 1 to choose from" in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["spmotif-struc"], "Name one method, or several with --methods"),
        (["spmotif-struc", "erm", "--methods=erm"], "Name one method, or several with --methods"),
        (["spmotif-struc", "--methods=,"], "--methods is empty"),
        (["spmotif-struc", "ciga-v1", "--over=alpha=abc"], "not a valid number"),
        (["spmotif-struc", "ciga-v1", "--over=alpha=-5"], "too small"),
        (["spmotif-struc", "ciga-v1", "--over=alpha="], "no values to try"),
        (["spmotif-struc", "ciga-v1", "--over=alpha=1", "--over=alpha=2"], "name each setting once"),
        (["spmotif-struc", "ciga-v1", "--seeds="], "--seeds takes numbers"),
    ],
)
def test_mistakes_are_refused_before_the_first_trial(
    run: Run, tmp_path: Path, words: list[str], said: str
) -> None:
    code, _, error = run(*words)
    assert code == 2
    assert said in error
    assert list(tmp_path.iterdir()) == []
