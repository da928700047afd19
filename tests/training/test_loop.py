"""The loop: the same bytes from the same seed, a caller who is left alone, and clear ends."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from ciga.data import Batch, Splits
from ciga.errors import CigaError, UsageError
from ciga.methods.base import Context, Inference, Method, Step, make
from ciga.methods.erm import ERM
from ciga.nn import Backbone, Spec
from ciga.runs.plan import plan
from ciga.scoring.selection import SELECTORS
from ciga.training.device import pick_device
from ciga.training.evaluation import evaluate
from ciga.training.fitted import Fitted
from ciga.training.loop import fit
from ciga.training.schedule import Training
from tests.helpers import same_tensors, without_time

BACKBONE = Backbone(layers=2, width=8, dropout=0.2)


def trained(
    splits: Splits, method: Method | str = "ciga-v2", seed: int = 1, epochs: int = 3, **options: Any
) -> Fitted:
    schedule = {
        k: options.pop(k)
        for k in ("warmup", "patience", "lr", "batch_size", "trial", "starts", "balanced")
        if k in options
    }
    training = Training(epochs=epochs, **{"batch_size": 16, **schedule})
    method = make(method) if isinstance(method, str) else method
    return fit(method, splits, backbone=BACKBONE, training=training, seed=seed, device="cpu", **options)


@pytest.fixture(scope="module")
def plain(toy: Splits) -> Fitted:
    """An undisturbed run of seed 1."""
    return trained(toy)


# ---------------------------------------------------------------- seeds


def test_same_seed_same_bytes(plain: Fitted, toy: Splits) -> None:
    torch.rand(3)
    np.random.rand(3)
    again = trained(toy)
    assert all(same_tensors(again.states[s], plain.states[s]) for s in plain.states)
    assert without_time(again.history) == without_time(plain.history)
    assert again.selected == plain.selected


def test_another_seed_another_run(plain: Fitted, toy: Splits) -> None:
    other = trained(toy, seed=2)
    assert not same_tensors(other.states["last"], plain.states["last"])
    assert without_time(other.history) != without_time(plain.history)


def test_the_callers_random_state_and_threads_stay(toy: Splits) -> None:
    def state() -> list[Any]:
        return [
            torch.get_rng_state().tolist(),
            np.random.get_state()[1].tolist(),
            random.getstate(),
            torch.get_num_threads(),
        ]

    def stop(row: dict[str, Any], epochs: int) -> None:
        during.append(torch.get_num_threads())
        raise KeyboardInterrupt

    threads, during = torch.get_num_threads(), []
    torch.set_num_threads(3)
    try:
        before = state()
        trained(toy, "erm", epochs=1)
        assert state() == before
        with pytest.raises(KeyboardInterrupt):
            trained(toy, "erm", epochs=1, on_epoch=stop)
        assert state() == before
        assert during == [1]
    finally:
        torch.set_num_threads(threads)


# ---------------------------------------------------------------- the share of each class


def test_balanced_training_sees_the_rare_class(toy: Splits) -> None:
    """One class in ten: a network that cannot tell them apart learns their share, or, balanced, none."""
    labels = (torch.arange(toy.train.num_graphs) % 10 == 0).long()
    few = replace(toy, parts={**toy.parts, "train": toy.train.labelled(labels)})

    def share(**options: Any) -> float:
        found = trained(few, "erm", epochs=8, lr=0.01, **options)
        batch = next(iter(few.train.batches(few.train.num_graphs, torch.arange(few.train.num_graphs))))
        return float(found.network("last")(batch).detach()[:, :2].softmax(1)[:, 1].mean())

    assert share() < 0.3
    assert share(balanced=True) > 0.35


# ---------------------------------------------------------------- the record of a run


def test_every_selector_is_scored_on_every_split(plain: Fitted, toy: Splits) -> None:
    assert set(plain.selected) == set(plain.states) == set(SELECTORS) - {"id-val-rest"}
    for name, found in plain.selected.items():
        assert found["epoch"] == SELECTORS[name].pick(plain.history, "accuracy")
        assert set(found) == {"epoch", *toy}
        network = plain.network(name)
        for split in toy:
            rest = "accuracy" if split == "ood_val" else None  # the rest is read where the rule looks
            assert found[split] == evaluate(plain.method, [network], toy[split], rest=rest)
            assert {"accuracy", "edge_auroc", "precision_at_k"} <= set(found[split])


def test_the_history_has_every_term_and_metric_of_every_epoch(plain: Fitted) -> None:
    assert [row["epoch"] for row in plain.history] == [0, 1, 2]
    for row in plain.history:
        assert set(row["terms"]) == {"risk", "contrast", "spurious"}
        assert set(row["metrics"]) == {"id_val", "ood_val", "ood_test"}
        assert row["seconds"] > 0
    assert plain.seconds == pytest.approx(sum(row["seconds"] for row in plain.history))


def test_a_logged_term_is_the_mean_over_graphs(toy: Splits) -> None:
    """A short last batch counts by its graphs, not as a batch like the others."""
    seen: list[tuple[float, int]] = []

    @dataclass
    class Watched(ERM):
        def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
            terms = super().loss(network, batch, step)
            seen.append((float(terms["risk"].detach()), batch.num_graphs))
            return terms

    fitted = trained(toy, Watched(), epochs=1, batch_size=25)
    assert [n for _, n in seen] == [25, 25, 10]
    expected = sum(value * n for value, n in seen) / 60
    assert fitted.history[0]["terms"]["risk"] == pytest.approx(expected, rel=1e-5)


def test_evaluation_by_a_loop_over_graphs(plain: Fitted, toy: Splits) -> None:
    network, store = plain.network(), toy["ood_test"]
    right, areas = [], []
    with torch.inference_mode():
        for row in range(store.num_graphs):
            batch = store.batch([row])
            found = plain.method.infer(network, batch)
            right.append(int(found.logits.argmax()) == int(batch.y))
            assert found.partition is not None
            assert batch.edge_truth is not None
            one_way = batch.edge_index[0] < batch.edge_index[1]
            score = found.partition.score[batch.pair[one_way]]
            areas.append(roc_auc_score(batch.edge_truth[one_way], score))
    found = evaluate(plain.method, [network], store, batch_size=7)
    assert found["accuracy"] == pytest.approx(np.mean(right))
    assert found["edge_auroc"] == pytest.approx(np.mean(areas))


# ---------------------------------------------------------------- what a method is told


@dataclass
class Nosy(ERM):
    """Notes what the loop tells it."""

    steps: list[Step] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)
    anomaly: list[bool] = field(default_factory=list)
    prepared: int = 0

    def prepare(self, context: Context) -> dict[str, Tensor]:
        self.prepared += 1
        return {"row": torch.arange(context.splits.train.num_graphs)}

    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        self.steps.append(step)
        self.rows.append(batch.index)
        self.anomaly.append(torch.is_anomaly_enabled())
        return super().loss(network, batch, step)


def test_steps_are_counted_and_side_information_follows_its_graph(toy: Splits) -> None:
    nosy = Nosy()
    trained(toy, nosy, epochs=2)
    assert [s.number for s in nosy.steps] == list(range(8))
    assert [s.epoch for s in nosy.steps] == [0] * 4 + [1] * 4
    assert {s.total for s in nosy.steps} == {8}
    for step, rows in zip(nosy.steps, nosy.rows, strict=True):
        assert torch.equal(step.side["row"], rows)
    for epoch in (nosy.rows[:4], nosy.rows[4:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(60))
    assert not torch.equal(torch.cat(nosy.rows[:4]), torch.cat(nosy.rows[4:]))


def test_what_was_prepared_survives_a_restart(toy: Splits, tmp_path: Path) -> None:
    nosy = Nosy()
    trained(toy, nosy, epochs=1, folder=tmp_path)
    trained(toy, nosy, epochs=2, folder=tmp_path)
    assert nosy.prepared == 1
    assert [s.epoch for s in nosy.steps] == [0] * 4 + [1] * 4
    assert all("row" in s.side for s in nosy.steps)


def test_anomaly_detection_is_off(toy: Splits) -> None:
    """Defect 11: left on, it costs a quarter of the time and more."""
    nosy = Nosy()
    trained(toy, nosy, epochs=1)
    assert not any(nosy.anomaly)
    with torch.autograd.set_detect_anomaly(True):  # the note would have told
        trained(toy, nosy, epochs=1)
    assert any(nosy.anomaly)


# ---------------------------------------------------------------- ends


@dataclass
class Exploding(ERM):
    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        terms = super().loss(network, batch, step)
        lit = step.number == 5  # in the middle of the second epoch
        return {**terms, "bomb": terms["risk"] * (float("nan") if lit else 1.0)}


def test_a_loss_that_is_no_number_stops_the_run_and_says_why(toy: Splits) -> None:
    """From that step on every term is NaN; the one that began it is named."""
    seen: list[int] = []
    with pytest.raises(CigaError, match=r"'bomb' became nan in epoch 1.*smaller learning rate"):
        trained(toy, Exploding(), on_epoch=lambda row, _: seen.append(row["epoch"]))
    assert seen == [0]


@dataclass
class Stumbling(ERM):
    """Fails, as sorting by scores that are no numbers does, once the weights are gone."""

    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        if step.number == 2:
            raise IndexError("out of range")
        return super().loss(network, batch, step)


def test_weights_beyond_all_bounds_are_the_reason_given(toy: Splits) -> None:
    with pytest.raises(CigaError, match="Training diverged in epoch 0: try a smaller learning rate"):
        trained(toy, Stumbling(), lr=1e30)
    with pytest.raises(IndexError):  # a mistake in a method stays what it is
        trained(toy, Stumbling(), lr=1e-3)


@dataclass
class Constant(ERM):
    """Predicts the same whatever it has learnt."""

    def infer(self, network: nn.Module, batch: Batch) -> Inference:
        logits = torch.tensor([[1.0, 0.0, 0.0]]).repeat(batch.num_graphs, 1)
        return Inference(logits, None, logits)


@pytest.mark.parametrize(("warmup", "patience", "epochs"), [(0, 2, 3), (3, 2, 5), (1, 4, 5)])
def test_early_stopping_stops(toy: Splits, warmup: int, patience: int, epochs: int) -> None:
    fitted = trained(toy, Constant(), epochs=9, warmup=warmup, patience=patience)
    assert len(fitted.history) == epochs
    assert fitted.selected["ood-val"]["epoch"] == 0
    assert fitted.selected["last"]["epoch"] == epochs - 1


def test_without_validation_data_all_epochs_are_run_and_the_last_counts(toy: Splits) -> None:
    bare = Splits({"train": toy.train, "ood_test": toy["ood_test"]}, toy.task)
    fitted = trained(bare, Constant(), epochs=3, warmup=0, patience=1)
    assert len(fitted.history) == 3
    assert set(fitted.selected) == {"oracle", "last"}
    assert fitted.network() is not None


def test_the_metric_of_the_task_chooses_the_epoch(toy: Splits) -> None:
    other = replace(toy, task=replace(toy.task, metric="log_loss"))
    fitted = trained(other, "erm", epochs=3)
    values = [row["metrics"]["ood_val"]["log_loss"] for row in fitted.history]
    assert fitted.selected["ood-val"]["epoch"] == values.index(min(values))


def test_networks_come_back_with_the_weights_of_their_epoch(toy: Splits) -> None:
    weights: list[dict[str, Tensor]] = []

    @dataclass
    class Kept(ERM):
        def network(self, spec: Spec, backbone: Backbone) -> nn.Module:
            self.built = super().network(spec, backbone)
            return self.built

    method = Kept()
    trainee: list[nn.Module] = []

    def copy(row: dict[str, Any], epochs: int) -> None:
        if not trainee:
            trainee.append(method.built)
        weights.append({k: v.clone() for k, v in trainee[0].state_dict().items()})

    fitted = trained(toy, method, epochs=4, on_epoch=copy)
    for name, found in fitted.selected.items():
        assert same_tensors(fitted.states[name], weights[found["epoch"]])


# ---------------------------------------------------------------- devices


def test_devices() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(UsageError, match="There is no device 'tpu': use auto, cpu, cuda or mps"):
        pick_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no usable CUDA device: use --device cpu"):
            pick_device("cuda")
    if not torch.backends.mps.is_available():
        with pytest.raises(UsageError, match="no MPS device"):
            pick_device("mps")


# ---------------------------------------------------------------- trials


@dataclass
class Watching(ERM):
    """ERM that notes where it stands."""

    seen: list[tuple[int, int]] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)  # steps before the trials were over
    weights: list[float] = field(default_factory=list)

    def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
        self.seen.append((step.epoch, step.number))
        self.weights.append(sum(float(p.detach().double().sum()) for p in network.parameters()))
        return super().loss(network, batch, step)

    def after_trials(self, network: nn.Module) -> None:
        self.tried.append(len(self.seen))


def test_the_best_of_several_beginnings_goes_on(toy: Splits) -> None:
    # Nothing is learned, so that the weights of an epoch are those it began with.
    method, run = Watching(), {"lr": 0.0, "batch_size": toy.train.num_graphs, "trial": 2, "starts": 3}
    fitted = trained(toy, method, epochs=8, **run)
    a, a2, b, b2, c, c2, *after = method.weights
    assert (a, b, c) == (a2, b2, c2)
    assert len({a, b, c}) == 3
    before = trained(toy, "erm", epochs=6, **run)
    best = before.selected[before.selector.name]["epoch"]
    assert after == 2 * [method.weights[best]]
    assert fitted.history[0]["metrics"] == trained(toy, "erm", epochs=1, **run).history[0]["metrics"]


def test_a_beginning_counts_its_own_epochs_and_steps(toy: Splits) -> None:
    method = Watching()
    trained(toy, method, epochs=6, batch_size=toy.train.num_graphs, trial=2, starts=2)
    ends = [(0, 0), (1, 1)]
    assert method.seen == [*ends, *ends, (4, 4), (5, 5)]
    assert method.tried == [4]


def test_after_trials_is_called_once_also_when_continued(toy: Splits, tmp_path: Path) -> None:
    run: dict[str, Any] = {"trial": 1, "starts": 2, "folder": tmp_path}
    for epochs, expected in ((2, []), (3, [0]), (5, [0])):
        method = Watching()
        trained(toy, method, epochs=epochs, **run)
        assert method.tried == expected


def test_training_does_not_stop_before_every_beginning_had_its_trial(toy: Splits) -> None:
    run = {"epochs": 30, "lr": 0.0, "warmup": 0, "patience": 2}
    assert len(trained(toy, "erm", **run).history) < 8
    assert len(trained(toy, "erm", **run, trial=2, starts=4).history) >= 10


@pytest.mark.parametrize("stopped", [1, 2, 3, 4])
def test_trials_are_continued_as_if_never_stopped(toy: Splits, tmp_path: Path, stopped: int) -> None:
    run = {"trial": 1, "starts": 3, "folder": tmp_path}
    whole = trained(toy, "erm", epochs=5, trial=1, starts=3)
    trained(toy, "erm", epochs=stopped, **run)
    parts = trained(toy, "erm", epochs=5, **run)
    assert without_time(whole.history) == without_time(parts.history)
    assert same_tensors(whole.states["last"], parts.states["last"])


def test_beginnings_without_trials_are_refused(toy: Splits) -> None:
    with pytest.raises(UsageError, match="trial=5"):
        Training(starts=3)
    with pytest.raises(UsageError, match="trial=5"):
        trained(toy, make("ciga-v1", {"settle": True}))
    with pytest.raises(UsageError, match="trial=5"):
        plan("nci1", "ciga-v1", settings={"settle": True})
