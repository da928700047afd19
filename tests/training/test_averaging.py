"""The running mean of weights against its definition, and in the training loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from ciga.errors import UsageError
from ciga.graphs.splits import Splits
from ciga.methods.base import make
from ciga.nn import Backbone
from ciga.runs.plan import plan
from ciga.training.averaging import WeightAverage
from ciga.training.fitted import Fitted
from ciga.training.loop import fit
from ciga.training.schedule import Training
from tests.helpers import same_tensors

TRAINING = Training(epochs=3, batch_size=8, averaging=0.9)


def test_as_the_definition_says() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = WeightAverage(network, 0.8)
    expected = {k: v.clone() for k, v in network.state_dict().items()}
    for step in range(40):
        network(torch.randn(5, 3))
        with torch.no_grad():
            for p in network.parameters():
                p.add_(torch.randn_like(p))
        average.update(step)
        decay = min(0.8, (1 + step) / (10 + step))
        for k, v in network.state_dict().items():
            expected[k] = decay * expected[k] + (1 - decay) * v
    own = {k: v.clone() for k, v in network.state_dict().items()}
    assert decay == 0.8
    with average.in_place():
        for k, v in network.state_dict().items():
            if v.is_floating_point():
                torch.testing.assert_close(v, expected[k])
    assert same_tensors(network.state_dict(), own)


def trained(toy: Splits, training: Training, folder: Path | None = None) -> Fitted:
    backbone = Backbone(layers=2, width=8)
    return fit(make("ciga-v2"), toy, backbone=backbone, training=training, folder=folder, device="cpu")


def test_training_takes_the_same_steps_and_keeps_their_mean(toy: Splits) -> None:
    plain, mean = trained(toy, replace(TRAINING, averaging=0.0)), trained(toy, TRAINING)
    assert [r["terms"] for r in plain.history] == [r["terms"] for r in mean.history]
    one, two = plain.states["last"], mean.states["last"]
    moved = [k for k in one if one[k].is_floating_point() and not torch.equal(one[k], two[k])]
    assert any("running_mean" in k for k in moved)
    assert any(k.endswith("weight") for k in moved)
    # What is kept is what was scored.
    again = mean.network("last")
    assert same_tensors(again.state_dict(), two)


def test_continued_from_a_checkpoint_as_if_never_stopped(toy: Splits, tmp_path: Path) -> None:
    whole = trained(toy, TRAINING, tmp_path / "whole")
    trained(toy, replace(TRAINING, epochs=2), tmp_path / "parts")
    parts = trained(toy, TRAINING, tmp_path / "parts")
    assert [r["metrics"] for r in whole.history] == [r["metrics"] for r in parts.history]
    assert same_tensors(whole.states["last"], parts.states["last"])


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_is_below_one(decay: float) -> None:
    with pytest.raises(UsageError, match="averaging"):
        plan("spmotif-struc", "erm", settings={"averaging": decay})
