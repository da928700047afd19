"""A checkpoint gives everything back, or says that it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ciga.data import Splits
from ciga.errors import CigaError
from ciga.files import read_tensors, write_tensors
from ciga.methods.base import make
from ciga.methods.erm import ERM
from ciga.nn import Backbone, Spec
from ciga.training.adam import Adam
from ciga.training.checkpoint import read_checkpoint, write_checkpoint
from ciga.training.fitted import Fitted
from ciga.training.loop import fit
from ciga.training.schedule import Training
from tests.helpers import same_tensors


def parts(seed: int, width: int = 3) -> tuple[Fitted, nn.Module, tuple[Adam, ...]]:
    """A network and two optimisers after three steps each."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 2))
    optimizers = tuple(Adam(network[i].parameters(), lr=0.1) for i in (0, 2))
    for _ in range(3):
        loss = network(torch.randn(8, 4)).square().sum()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    fitted = Fitted(ERM(), Backbone(), Spec(4, 0, 2), ("train",))
    fitted.history = [{"epoch": 0, "terms": {"risk": 0.1 + 0.2}, "metrics": {}, "seconds": 1.5}]
    fitted.states = {
        "last": {k: v.clone() for k, v in network.state_dict().items()},
        "id-val": {"a": torch.ones(2)},
    }
    fitted.seconds = 1.5
    return fitted, network, optimizers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    fitted, network, optimizers = parts(1)
    write_checkpoint(
        tmp_path / "checkpoint.safetensors", fitted, network, optimizers, {"env": torch.arange(3)}
    )
    return tmp_path / "checkpoint.safetensors"


def test_everything_comes_back_bit_for_bit(file: Path) -> None:
    fitted, network, optimizers = parts(1)
    other, target, others = parts(2)
    other.states = {}
    side = read_checkpoint(file, other, target, others)
    assert same_tensors(target.state_dict(), network.state_dict())
    assert other.history == fitted.history
    assert other.seconds == fitted.seconds
    assert other.states.keys() == fitted.states.keys()
    assert all(same_tensors(other.states[s], fitted.states[s]) for s in fitted.states)
    for one, two in zip(optimizers, others, strict=True):
        assert one.state()
        assert same_tensors(one.state(), two.state())
    assert side["env"].tolist() == [0, 1, 2]


def refused(file: Path, content: bytes) -> str | None:
    """The complaint about a checkpoint with this content; None if it was read."""
    file.write_bytes(content)
    try:
        read_checkpoint(file, *parts(2))
    except CigaError as error:
        return str(error)
    return None


def test_a_flipped_byte_anywhere_is_found_and_the_file_is_named(file: Path) -> None:
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    places = [0, 1, 7, 8, 9, *range(10, header, 29), *range(header, len(whole), 17), len(whole) - 1]
    for place in places:
        if whole[place : place + 1] == b" ":
            continue  # the padding of the header says nothing
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        complaint = refused(file, bytes(damaged))
        assert complaint is not None, place
        assert str(file) in complaint
        assert "damaged" in complaint


def test_a_cut_file_is_found_and_named(file: Path) -> None:
    whole = file.read_bytes()
    for length in [0, 1, 7, 8, 20, len(whole) // 2, len(whole) - 1]:
        complaint = refused(file, whole[:length])
        assert complaint is not None, length
        assert str(file) in complaint
    assert refused(file, whole) is None


def test_the_checkpoint_of_another_network_is_refused(file: Path) -> None:
    fitted, network, optimizers = parts(1, width=5)
    with pytest.raises(CigaError, match="belongs to another network"):
        read_checkpoint(file, fitted, network, optimizers)


def test_a_damaged_checkpoint_stops_the_run_that_would_continue(toy: Splits, tmp_path: Path) -> None:
    def run(epochs: int) -> Any:
        training, backbone = Training(epochs=epochs), Backbone(layers=1, width=4)
        return fit(make("erm"), toy, backbone=backbone, training=training, folder=tmp_path, device="cpu")

    run(1)
    file = tmp_path / "checkpoint.safetensors"
    damaged = bytearray(file.read_bytes())
    damaged[-5] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(CigaError, match=r"checkpoint\.safetensors is damaged"):
        run(2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("history", "[1]"),
        ("history", "7"),
        ("history", "[" * 100_000),
        ("history", '[{"epoch": "x", "terms": {}, "metrics": {}, "seconds": 1}]'),
        ("history", '[{"epoch": 0, "terms": {}, "metrics": {"id_val": 3}, "seconds": 1}]'),
        ("history", '[{"epoch": 0, "terms": {"risk": null}, "metrics": {}, "seconds": 1}]'),
        ("history", "{"),
        ("seconds", "soon"),
        ("seconds", None),
    ],
)
def test_a_forged_checkpoint_is_refused_with_one_sentence(file: Path, name: str, value: str | None) -> None:
    tensors, meta = read_tensors(file)
    write_tensors(file, tensors, {k: v for k, v in {**meta, name: value}.items() if v is not None})
    with pytest.raises(CigaError, match="delete its folder to start afresh"):
        read_checkpoint(file, *parts(1))


@pytest.mark.parametrize("name", ["stranger", "stranger/x", "adam/0/0/exp_avg", "network/0.weight"])
def test_a_forged_tensor_is_refused_with_one_sentence(file: Path, name: str) -> None:
    tensors, meta = read_tensors(file)
    write_tensors(file, {**tensors, name: torch.ones(7)}, meta)
    with pytest.raises(CigaError, match="delete its folder to start afresh"):
        read_checkpoint(file, *parts(1))
