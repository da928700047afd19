"""Search: over what, judged by what, and continued."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ciga.errors import UsageError
from ciga.runs import tune
from ciga.runs.plan import plan
from ciga.runs.settings import read_settings
from ciga.runs.tune import Task

optuna = pytest.importorskip("optuna", reason="optuna is not installed (extra: sweep)")

DATA = {"train_per_class": 6, "val_per_class": 3, "test_per_class": 3, "bias": 0.6}
FIXED = {"epochs": 2, "layers": 2, "width": 8}


def task(**more: Any) -> Task:
    return Task("spmotif-struc", "ciga-v2", **{"data": DATA, "settings": FIXED, **more})


def test_the_papers_search() -> None:
    assert task(space="paper").values() == {"alpha": (0.5, 1, 2, 4, 8, 16, 32), "beta": (0.5, 1, 2, 4)}
    assert Task("cmnist-sp", "ciga-v2", space="paper").values()["beta"] == (0.5, 1, 2, 4, 16, 32)
    assert Task("graph-sst5", "ciga-v1", space="paper").values() == {"alpha": (0.5, 1, 2, 4)}
    assert Task("nci1", "irm", space="paper").values() == {"penalty": (0.01, 0.1, 1, 10, 100)}
    assert Task("nci1", "dir", space="paper").values() == {"penalty": (0.01, 0.1, 1, 10)}


def test_what_is_searched() -> None:
    own = task().values()
    assert {"alpha", "beta", "size"} <= set(own)
    assert "lr" not in own
    assert task(over={"lr": None, "alpha": [1, 3]}).values() == {
        "lr": (1e-4, 3e-4, 1e-3, 3e-3),
        "alpha": (1, 3),
    }
    assert "alpha" not in task(settings={**FIXED, "alpha": 2.0}).values()  # what is fixed is not searched
    with pytest.raises(UsageError, match="alpha"):
        task(over={"alfa": None}).values()
    with pytest.raises(UsageError, match="--over temperature="):
        task(over={"temperature": None}).values()
    with pytest.raises(UsageError, match="nothing to search"):
        Task("spmotif-struc", "erm").values()


def test_another_question_is_another_study() -> None:
    names = {task().name(), task(space="ranges").name(), task(seeds=(1, 2)).name(), task(data={}).name()}
    assert len(names) == 4
    assert task().name() == task().name()


def test_ranges_lie_between_the_ends_of_the_grid() -> None:
    trial = optuna.trial.FixedTrial({"alpha": 3.3, "beta": 0.7, "layers": 4, "conv": "gin"})
    over = {"alpha": None, "beta": None, "layers": None, "conv": ["gin", "gcn"]}
    found = tune.suggest(task(space="ranges", over=over), trial)
    assert found == {"alpha": 3.3, "beta": 0.7, "layers": 4, "conv": "gin"}
    kinds = {k: type(d).__name__ for k, d in trial.distributions.items()}
    assert kinds == {
        "alpha": "FloatDistribution",
        "beta": "FloatDistribution",
        "layers": "IntDistribution",
        "conv": "CategoricalDistribution",
    }
    assert (trial.distributions["alpha"].low, trial.distributions["alpha"].high) == (0.5, 32)


def test_the_test_score_plays_no_part() -> None:
    record = {
        "dataset": "x",
        "selection": "ood-val",
        "metric": "accuracy",
        "selected": {"ood-val": {"epoch": 1, "ood_val": {"accuracy": 0.6}, "ood_test": {"accuracy": 0.9}}},
    }
    assert tune.validation_score(record) == 0.6


class Trial:
    """A trial that is to be pruned as soon as it reports less than 0.5."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def report(self, value: float, step: int) -> None:
        self.seen.append((value, step))

    def should_prune(self) -> bool:
        return self.seen[-1][0] < 0.5


def test_pruning_looks_at_validation_only() -> None:
    trial = Trial()
    hook = tune._Pruning(trial, tune._plan(task(), "spmotif-struc", 1, {}), 100, [0.7])

    def row(epoch: int, value: float) -> dict[str, Any]:
        return {"epoch": epoch, "metrics": {"ood_val": {"accuracy": value}, "ood_test": {"accuracy": 0.0}}}

    hook(row(0, 0.5), 10)
    hook(row(1, 0.4), 10)  # the best so far counts
    assert trial.seen == [(pytest.approx(0.6), 100), (pytest.approx(0.6), 101)]
    low = tune._Pruning(Trial(), tune._plan(task(), "spmotif-struc", 1, {}), 0, [])
    with pytest.raises(optuna.TrialPruned):
        low(row(0, 0.1), 10)


def test_a_method_that_answers_for_the_rest_is_judged_by_it() -> None:
    asked = Task("spmotif-struc", "ciga-complement", data=DATA, settings=FIXED)
    trial = Trial()
    hook = tune._Pruning(trial, tune._plan(asked, "spmotif-struc", 1, {}), 0, [])
    hook({"epoch": 0, "metrics": {"ood_val": {"accuracy": 1.0, "rest": 0.4}, "ood_test": {}}}, 10)
    assert trial.seen == [(pytest.approx(0.6), 0)]
    found = {"epoch": 1, "ood_val": {"accuracy": 0.9, "rest": 0.5}, "ood_test": {"accuracy": 0.9}}
    record = {"dataset": "x", "selection": "ood-val-rest", "metric": "accuracy"}
    assert tune.validation_score({**record, "selected": {"ood-val-rest": found}}) == pytest.approx(0.4)


def test_search_continue_and_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, runs, out = tmp_path / "tune.journal", tmp_path / "runs", tmp_path / "best.toml"
    asked = task(over={"alpha": [0.5, 2.0], "conv": ["gcn", "gin"]})
    first = tune.tune(asked, journal, 2, runs, device="cpu")
    assert len(first.trials) == 2
    before = [t.params for t in first.trials]  # a study shows what its journal holds now
    second = tune.tune(asked, journal, 4, runs, device="cpu")
    assert len(second.trials) == 4
    assert [t.params for t in second.trials[:2]] == before
    assert len({tuple(t.params.items()) for t in second.trials}) == 4  # none a second time
    for trial in second.trials:
        assert trial.value == pytest.approx(sum(trial.user_attrs["scores"]) / 1)
    # Enough is enough: nothing more is run.
    monkeypatch.setattr(tune, "execute", None)
    assert len(tune.tune(asked, journal, 4, runs).trials) == 4
    tune.write_settings(asked, second, out)
    written = tomllib.loads(out.read_text())
    best = second.best_trial
    assert written["alpha"] == best.params["alpha"]
    assert written["epochs"] == 2
    # The file says everything: under any preset it is the run that was searched.
    for preset in ("published", "none"):
        again = plan("spmotif-struc", "ciga-v2", data=DATA, settings=read_settings(out), preset=preset)
        assert again.config.hash in {p.name for p in runs.iterdir()}


def test_several_datasets_are_judged_by_their_mean(tmp_path: Path) -> None:
    journal, runs, out = tmp_path / "tune.journal", tmp_path / "runs", tmp_path / "best.toml"
    asked = Task(
        "spmotif-struc, spmotif-mixed",
        "ciga-v1",
        over={"alpha": [0.5, 2.0]},
        data=DATA,
        settings=FIXED,
        seeds=(1, 2),
    )
    assert asked.datasets == ("spmotif-struc", "spmotif-mixed")
    found = tune.tune(asked, journal, 2, runs, device="cpu")
    assert found.pruner._n_warmup_steps >= FIXED["epochs"]  # no end before the second dataset is seen
    records = [json.loads((folder / "record.json").read_text()) for folder in runs.iterdir()]
    assert len(records) == 8
    for trial in found.trials:
        mine = [r for r in records if r["settings"]["alpha"] == trial.params["alpha"]]
        assert {(r["dataset"], r["seed"]) for r in mine} == {
            (d, s) for d in asked.datasets for s in asked.seeds
        }
        assert trial.value == pytest.approx(sum(map(tune.validation_score, mine)) / 4)
    tune.write_settings(asked, found, out)
    assert tomllib.loads(out.read_text()) == {**FIXED, **found.best_trial.params}


def test_datasets_that_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="different metrics"):
        tune.study(Task("spmotif-struc,nci1", "ciga-v1"), tmp_path / "journal")
    with pytest.raises(UsageError, match="one by one"):
        Task("graph-sst5,cmnist-sp", "ciga-v2", space="paper").values()


def test_the_papers_grid_is_gone_through_once(tmp_path: Path) -> None:
    asked = Task("spmotif-struc", "erm", "paper", {"lr": [1e-3, 3e-3], "width": [4, 8]}, DATA, {"epochs": 1})
    found = tune.tune(asked, tmp_path / "journal", 10, tmp_path / "runs", device="cpu")
    assert len(found.trials) == 4
    assert len({tuple(t.params.items()) for t in found.trials}) == 4


def test_two_processes_on_one_journal(tmp_path: Path) -> None:
    over = {"lr": None, "weight_decay": None}  # twelve choices
    asked = Task("spmotif-struc", "erm", "grid", over, DATA, {"epochs": 1, "layers": 1, "width": 4})
    found = tune.tune(asked, tmp_path / "journal", 6, tmp_path / "runs", workers=2, device="cpu")
    ended = {tuple(t.params.items()) for t in found.trials if t.state.is_finished()}
    assert 6 <= len(ended) <= 7  # each process may be at one when the last is counted
    assert sorted(t.number for t in found.trials) == list(range(len(found.trials)))


def test_what_was_interrupted_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second trial: the next search has all four choices, the broken one included."""
    asked = Task("spmotif-struc", "erm", "paper", {"lr": [1e-3, 3e-3], "width": [4, 8]}, DATA, {"epochs": 1})
    plain, calls = tune.execute, []

    def stop_at_second(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(*args, **more)

    monkeypatch.setattr(tune, "execute", stop_at_second)
    with pytest.raises(KeyboardInterrupt):
        tune.tune(asked, tmp_path / "journal", 4, tmp_path / "runs", device="cpu")
    found = tune.tune(asked, tmp_path / "journal", 4, tmp_path / "runs", device="cpu")
    done = [t.params for t in found.trials if t.state == optuna.trial.TrialState.COMPLETE]
    assert len(done) == len({tuple(p.items()) for p in done}) == 4
