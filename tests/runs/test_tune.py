"""Search: over what, judged by what, and continued."""

from __future__ import annotations

import errno
import json
import platform
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ciga.errors import CigaError, UsageError
from ciga.runs import plan as plan_module
from ciga.runs import tune
from ciga.runs.plan import execute, plan
from ciga.runs.pool.executors import Event, Inline, Take
from ciga.runs.records import Runs
from ciga.runs.settings import read_settings
from ciga.runs.tune import Search
from ciga.runs.tune import search as search_module
from ciga.runs.tune.search import Trial
from ciga.runs.tune.study import study

optuna = pytest.importorskip("optuna", reason="optuna is not installed (extra: sweep)")

DATA = {"train_per_class": 6, "val_per_class": 3, "test_per_class": 3, "bias": 0.6}
FIXED = {"epochs": 2, "layers": 2, "width": 8}
LR_AND_WIDTH = {"lr": [1e-3, 3e-3], "width": [4, 8]}


TWO_BY_TWO = Search("spmotif-struc", "erm", "paper", LR_AND_WIDTH, DATA, {"epochs": 1})


def completed(found: Any) -> list[tuple[dict[str, Any], float]]:
    """The settings and scores of completed trials, in their order."""
    return [(t.params, t.value) for t in found.trials if t.state == optuna.trial.TrialState.COMPLETE]


def task(**more: Any) -> Search:
    return Search("spmotif-struc", "ciga-v2", **{"data": DATA, "settings": FIXED, **more})


def test_the_papers_search() -> None:
    assert task(space="paper").values() == {"alpha": (0.5, 1, 2, 4, 8, 16, 32), "beta": (0.5, 1, 2, 4)}
    assert Search("cmnist-sp", "ciga-v2", space="paper").values()["beta"] == (0.5, 1, 2, 4, 16, 32)
    assert Search("graph-sst5", "ciga-v1", space="paper").values() == {"alpha": (0.5, 1, 2, 4)}
    assert Search("nci1", "irm", space="paper").values() == {"penalty": (0.01, 0.1, 1, 10, 100)}
    assert Search("nci1", "dir", space="paper").values() == {"penalty": (0.01, 0.1, 1, 10)}


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
        Search("spmotif-struc", "erm").values()


def test_another_question_is_another_study() -> None:
    names = {task().name(), task(space="ranges").name(), task(seeds=(1, 2)).name(), task(data={}).name()}
    assert len(names) == 4
    assert task().name() == task().name()


def test_ranges_lie_between_the_ends_of_the_grid() -> None:
    trial = optuna.trial.FixedTrial({"alpha": 3.3, "beta": 0.7, "layers": 4, "conv": "gin"})
    over = {"alpha": None, "beta": None, "layers": None, "conv": ["gin", "gcn"]}
    found = task(space="ranges", over=over).suggest(trial)
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


class Asked:
    """A trial of Optuna's that is to be pruned as soon as it reports less than 0.5."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def report(self, value: float, step: int) -> None:
        self.seen.append((value, step))

    def should_prune(self) -> bool:
        return self.seen[-1][0] < 0.5


def news(epoch: int, **scores: float) -> dict[str, Any]:
    """What a worker says of an epoch."""
    return {"epoch": epoch, "epochs": 10, "validation": {k.replace("_", "-"): v for k, v in scores.items()}}


def test_the_best_so_far_counts() -> None:
    asked = Asked()
    run = plan("spmotif-struc", "erm", preset="none")
    trial = Trial(asked, [run, run], scores=[0.7], epochs=100)
    assert not trial.epoch(news(1, ood_val=0.5), same_rule=False)
    assert not trial.epoch(news(2, ood_val=0.4), same_rule=False)
    assert asked.seen == [(pytest.approx(0.6), 100), (pytest.approx(0.6), 101)]
    assert Trial(Asked(), [run]).epoch(news(1, ood_val=0.1), same_rule=False)


def test_epochs_that_may_not_be_chosen_do_not_prune() -> None:
    """GSAT's first epochs, in which its prior still falls, say nothing of it."""
    settings = {"r_epochs": 2, "epochs": 9, "members": 2}
    asked, run = Asked(), plan("spmotif-struc", "gsat", preset="none", settings=settings)
    trial = Trial(asked, [run])
    for epoch in range(1, 19):
        trial.epoch(news(epoch, ood_val=0.01), same_rule=False)
    assert [step for _, step in asked.seen] == [*range(4, 9), *range(13, 18)]


def test_a_method_that_answers_for_the_rest_is_judged_by_it_unless_all_have_one_rule() -> None:
    said = news(1, ood_val_rest=0.6, ood_val=0.9)  # its own rule comes first
    run = plan("spmotif-struc", "ciga-complement", preset="none")
    for same_rule, value in ((False, 0.6), (True, 0.9)):
        asked = Asked()
        Trial(asked, [run]).epoch(said, same_rule)
        assert asked.seen == [(value, 0)]
    found = {"epoch": 1, "ood_val": {"accuracy": 0.9, "rest": 0.5}, "ood_test": {"accuracy": 0.9}}
    record = {"dataset": "x", "selection": "ood-val-rest", "metric": "accuracy"}
    record["selected"] = {"ood-val-rest": found, "ood-val": {**found, "ood_val": {"accuracy": 0.95}}}
    assert tune.validation_score(record) == pytest.approx(0.4)
    assert tune.validation_score(record, same_rule=True) == 0.95


def test_pruning_and_judging_go_by_one_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own files are scored by ROC-AUC although their dataset class says accuracy until they are read."""
    rows = [f"{'C' * (n % 7 + 1)}{'O' if n % 2 else 'N'},{n % 2}" for n in range(60)]
    table = tmp_path / "mols.csv"
    table.write_text("smiles,active\n" + "\n".join(rows) + "\n")
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))
    data = {"path": str(table), "smiles": "smiles", "label": "active", "split": "random"}
    seen: list[float] = []
    planned = plan("csv", "erm", data=data, settings={"epochs": 3, "layers": 1, "width": 4})
    record = execute(
        planned, tmp_path / "runs", on_epoch=lambda row, _: seen.extend(row["validation"].values())
    )
    assert record["metric"] == "roc_auc"
    assert planned.dataset.metric != "roc_auc"
    assert max(seen) == pytest.approx(tune.validation_score(record))


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
    monkeypatch.setattr(plan_module, "execute", None)
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
    asked = Search(
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
        study(Search("spmotif-struc,nci1", "ciga-v1"), tmp_path / "journal")
    with pytest.raises(UsageError, match="one by one"):
        Search("graph-sst5,cmnist-sp", "ciga-v2", space="paper").values()


def test_the_papers_grid_is_gone_through_once(tmp_path: Path) -> None:
    asked = Search(
        "spmotif-struc", "erm", "paper", {"lr": [1e-3, 3e-3], "width": [4, 8]}, DATA, {"epochs": 1}
    )
    found = tune.tune(asked, tmp_path / "journal", 10, tmp_path / "runs", device="cpu")
    assert len(found.trials) == 4
    assert len({tuple(t.params.items()) for t in found.trials}) == 4


def test_two_workers_make_exactly_the_trials_asked_for(tmp_path: Path) -> None:
    over = {"lr": None, "weight_decay": None}  # twelve choices
    asked = Search("spmotif-struc", "erm", "grid", over, DATA, {"epochs": 1, "layers": 1, "width": 4})
    found = tune.tune(asked, tmp_path / "journal", 5, tmp_path / "runs", workers=2, device="cpu")
    assert len({tuple(t.params.items()) for t in found.trials if t.state.is_finished()}) == 5
    assert sorted(t.number for t in found.trials) == list(range(5))


def test_what_was_interrupted_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second trial: the next search has all four choices, the broken one included."""
    asked = Search("spmotif-struc", "erm", "paper", LR_AND_WIDTH, DATA, {"epochs": 1})
    plain, calls = execute, []

    def stop_at_second(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(*args, **more)

    monkeypatch.setattr(plan_module, "execute", stop_at_second)
    with pytest.raises(KeyboardInterrupt):
        tune.tune(asked, tmp_path / "journal", 4, tmp_path / "runs", device="cpu")
    found = tune.tune(asked, tmp_path / "journal", 4, tmp_path / "runs", device="cpu")
    done = [t.params for t in found.trials if t.state == optuna.trial.TrialState.COMPLETE]
    assert len(done) == len({tuple(p.items()) for p in done}) == 4


def test_a_trial_of_a_killed_process_is_tried_again(tmp_path: Path) -> None:
    asked = Search("spmotif-struc", "erm", "paper", LR_AND_WIDTH, DATA, {"epochs": 1})
    trial = study(asked, tmp_path / "journal").ask()
    asked.suggest(trial)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    trial.set_user_attr("process", f"{platform.node()} {dead.pid}")
    found = tune.tune(asked, tmp_path / "journal", 4, tmp_path / "runs", device="cpu")
    assert tune.counts(found) == {"complete": 4}


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("settings", [0, 1])
def test_a_process_killed_while_it_began_a_trial_is_no_trial(
    tmp_path: Path, signed: bool, settings: int
) -> None:
    """Killed before the trial said whose it is, or before it had all its settings."""
    journal, asked = tmp_path / "journal", TWO_BY_TWO
    trial = study(asked, journal).ask()
    if settings:
        trial.suggest_categorical("lr", LR_AND_WIDTH["lr"])
    if signed:
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        trial.set_user_attr("process", f"{platform.node()} {dead.pid}")
    found = tune.tune(asked, journal, 4, tmp_path / "runs", device="cpu")
    assert tune.counts(found) == {"complete": 4}
    assert len(completed(found)) == 4


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", "weights")


@pytest.mark.parametrize("fault", [full_disk, MemoryError, KeyboardInterrupt])
def test_a_fault_of_the_machine_is_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], BaseException]
) -> None:
    """The search ends; the same search again ends as if nothing had been, with the same part of the grid."""
    undisturbed = tune.tune(TWO_BY_TWO, tmp_path / "one", 3, tmp_path / "runs", device="cpu")
    calls: list[int] = []

    def break_at_second(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise fault()
        return execute(*args, **more)

    monkeypatch.setattr(plan_module, "execute", break_at_second)
    kinds = (CigaError, KeyboardInterrupt)
    with pytest.raises(kinds, match=r"disk is full|not enough memory|^$"):
        tune.tune(TWO_BY_TWO, tmp_path / "two", 3, tmp_path / "runs", device="cpu")
    assert tune.counts(study(TWO_BY_TWO, tmp_path / "two")) == {"complete": 1}
    assert not list(tmp_path.glob("runs/*/error.json"))
    found = tune.tune(TWO_BY_TWO, tmp_path / "two", 3, tmp_path / "runs", device="cpu")
    assert completed(found) == completed(undisturbed)
    assert tune.counts(found) == {"complete": 3}


class Dying(Inline):
    """An executor whose worker dies."""

    def wait(self, seconds: float, take: Take) -> None:
        take(Event(self.waiting[0][0], "died", {"error": "worker process 1 ended with signal 9"}))


def test_a_worker_that_dies_is_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(search_module, "executor_for", lambda *args: Dying())
        with pytest.raises(CigaError, match=r"^The worker process 1 ended with signal 9: .* again"):
            tune.tune(TWO_BY_TWO, tmp_path / "journal", 2, tmp_path / "runs", device="cpu")
    found = tune.tune(TWO_BY_TWO, tmp_path / "journal", 2, tmp_path / "runs", device="cpu")
    assert tune.counts(found) == {"complete": 2}


def test_the_lock_of_a_killed_search_does_not_hold_up_the_next(tmp_path: Path) -> None:
    """Optuna's own lock is a symbolic link, which a killed process leaves behind."""
    journal = tmp_path / "journal"
    asked = Search("spmotif-struc", "erm", "paper", {"lr": [1e-3]}, DATA, {"epochs": 1})
    study(asked, journal)
    (tmp_path / "journal.lock").symlink_to(journal)
    script = (
        "import sys; from filelock import FileLock; lock = FileLock(sys.argv[1] + '.filelock'); "
        "lock.acquire(); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(journal)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == b"held"
    holder.kill()
    holder.wait()
    assert tune.counts(tune.tune(asked, journal, 1, tmp_path / "runs", device="cpu")) == {"complete": 1}


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"alpha": ["abc"]}, "not a valid number"),
        ({"alpha": [-5]}, "too small"),
        ({"alpha": [""]}, "no values"),
        ({"alpha": []}, "no values"),
        ({"layers": [1.5]}, "not a valid whole number"),
        ({"conv": ["gcnn"]}, "not one of"),
    ],
)
def test_values_that_cannot_be_are_refused_before_the_first_trial(
    tmp_path: Path, over: dict[str, list[Any]], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        tune.tune(task(over=over), tmp_path / "journal", 3, tmp_path / "runs")
    assert not (tmp_path / "journal").exists()
    assert not (tmp_path / "runs").exists()


def test_a_trial_that_fails_counts(tmp_path: Path) -> None:
    """Values that are legal one by one but not together, and a run that breaks."""
    asked = task(over={"budget": ["count"], "size": [0.5, 0.25]})
    found = tune.tune(asked, tmp_path / "journal", 5, tmp_path / "runs", device="cpu")
    assert tune.counts(found) == {"fail": 2}
    assert all("size" in t.user_attrs["error"] for t in found.trials)


@pytest.mark.parametrize("damage", ["cut", "key", "bytes", "deep"])
def test_a_damaged_journal_is_one_sentence(tmp_path: Path, damage: str) -> None:
    journal = tmp_path / "journal"
    asked = task(over={"lr": [0.001]})
    tune.tune(asked, journal, 1, tmp_path / "runs", device="cpu")
    lines = journal.read_bytes().splitlines()
    spoil = {
        "cut": lines[1][:20],
        "key": b'{"op_code": 4, "worker_id": "x"}',
        "bytes": b"\xff\xfe" + lines[1],
        "deep": b"[" * 100_000,
    }
    journal.write_bytes(b"\n".join([lines[0], spoil[damage], *lines[2:]]) + b"\n")
    with pytest.raises(CigaError, match=r"is damaged .* delete it to search anew"):
        tune.tune(asked, journal, 1, tmp_path / "runs", device="cpu")


@pytest.mark.parametrize(
    ("part", "forged"),
    [
        ('"fixed_params":{"lr":0.001}', '"fixed_params":{"lr":{}}'),
        ('"fixed_params":{"lr":0.001}', '"fixed_params":{"lr":0.5}'),
        ('"fixed_params":{"lr":0.001}', '"fixed_params":{"other":1}'),
        ('"fixed_params":{"lr":0.001}', '"fixed_params":[]'),
        ('"process":"', '"process":["x"],"was":"'),
        ('"process":"', '"process":"here and there","was":"'),
    ],
)
def test_a_trial_that_no_search_began_is_damage(tmp_path: Path, part: str, forged: str) -> None:
    journal, asked = tmp_path / "journal", task(over={"lr": [0.001]})
    tune.tune(asked, journal, 1, tmp_path / "runs", device="cpu")
    lines = journal.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if "fixed_params" in line)
    assert part in lines[first]
    journal.write_text("".join([*lines[:first], lines[first].replace(part, forged)]))
    with pytest.raises(CigaError, match=r"is damaged .* delete it to search anew"):
        tune.tune(asked, journal, 1, tmp_path / "runs", device="cpu")


def test_a_line_that_was_cut_short_is_taken_away(tmp_path: Path) -> None:
    """A full disk, or a process that was killed while it wrote: the next line must not be joined to it."""
    journal, asked = tmp_path / "journal", task(over={"lr": [0.001, 0.003]})
    undisturbed = completed(tune.tune(asked, journal, 2, tmp_path / "runs", device="cpu"))
    written = journal.read_bytes()
    for size in (len(written) - 1, len(written) - 30, len(written) // 2, 20):
        journal.write_bytes(written[:size])
        found = tune.tune(asked, journal, 2, tmp_path / "runs", device="cpu")
        assert completed(found) == undisturbed
        assert all(json.loads(line) for line in journal.read_text().splitlines())


def test_a_file_that_is_something_else_is_not_written_to(tmp_path: Path) -> None:
    table = tmp_path / "mols.csv"
    table.write_text("smiles,label\nCC,1\n")
    with pytest.raises(UsageError, match="not a journal"):
        tune.tune(task(), table, 1, tmp_path / "runs")
    assert table.read_text() == "smiles,label\nCC,1\n"


# ---------------------------------------------------------------- several methods on equal terms


def test_every_method_gets_the_same_number_of_trials(tmp_path: Path) -> None:
    common = Search("spmotif-struc", "", over={"lr": [1e-3, 3e-3], "alpha": [1.0, 2.0]}, data=DATA)
    tasks = tune.searches(common, ["erm", "ciga-complement"])
    assert [set(t.values()) for t in tasks] == [{"lr"}, {"lr", "alpha"}]
    assert all(t.same_rule for t in tasks)
    small = [replace(t, settings={**t.settings, **FIXED, "epochs": 1}) for t in tasks]
    found = tune.tune_methods(small, tmp_path / "journal", 2, tmp_path / "runs", device="cpu")
    assert {m: sum(tune.counts(made).values()) for m, made in found.items()} == {
        "erm": 2,
        "ciga-complement": 2,
    }
    assert {made.user_attrs["trials"] for made in found.values()} == {2}
    for record in Runs(tmp_path / "runs"):
        if record["method"] == "ciga-complement":  # by the rule of all, not by its own
            assert record["selection"] == "ood-val-rest"
            values = [t.value for t in found["ciga-complement"].trials]
            assert record["selected"]["ood-val"]["ood_val"]["accuracy"] in values


def test_unequal_terms_are_refused(tmp_path: Path) -> None:
    common = Search("spmotif-struc", "", over={"lr": [1e-3, 3e-3], "alpha": [1.0, 2.0]}, data=DATA)
    with pytest.raises(UsageError, match="erm has only 2 to choose from: use --trials 2"):
        tune.tune_methods(tune.searches(common, ["erm", "ciga-v1"]), tmp_path / "journal", 3)
    with pytest.raises(UsageError, match="erm has none of the settings"):
        tune.searches(replace(common, over={"alpha": [1.0]}), ["erm", "ciga-v1"])
    with pytest.raises(UsageError, match="setting of these methods"):
        tune.searches(replace(common, over={"alfa": [1.0]}), ["erm", "ciga-v1"])
    assert not (tmp_path / "runs").exists()


def test_a_method_that_had_more_trials_before_is_refused(tmp_path: Path) -> None:
    """The best of three against the best of two: no equal terms, whatever the heading says."""
    common = Search("spmotif-struc", "", over={"lr": [1e-3, 3e-3, 1e-2]}, data=DATA)
    tasks = [replace(t, settings={**FIXED, "epochs": 1}) for t in tune.searches(common, ["erm", "irm"])]
    journal, runs = tmp_path / "journal", tmp_path / "runs"
    tune.tune_methods(tasks[:1], journal, 3, runs, device="cpu")
    with pytest.raises(UsageError, match=r"but erm has had 3 in .*: use --trials 3, or a new file"):
        tune.tune_methods(tasks, journal, 2, runs, device="cpu")
    assert {record["method"] for record in Runs(runs)} == {"erm"}
    found = tune.tune_methods(tasks, journal, 3, runs, device="cpu")
    assert [sum(tune.counts(made).values()) for made in found.values()] == [3, 3]


def test_the_methods_own_grid_beside_named_settings() -> None:
    found = task(over={"grid": None, "lr": [1e-3, 3e-3]}).values()
    assert {"alpha", "beta", "size", "lr"} <= set(found)
    assert found["lr"] == (1e-3, 3e-3)
