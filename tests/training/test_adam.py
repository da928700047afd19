"""Our Adam is torch's, to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import ciga.training.adam
from ciga.training.adam import Adam
from tests.helpers import same_tensors


def network() -> nn.Sequential:
    torch.manual_seed(0)
    # 37 and 3: sizes that leave a rest after the kernel's vectors
    return nn.Sequential(nn.Linear(5, 37), nn.ReLU(), nn.Linear(37, 3))


def backward(model: nn.Module, step: int, frozen: bool = False) -> None:
    """Gradients of a loss that is another one every step; with `frozen` none for the first layer."""
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(step))
    model(x).square().mean().backward()
    if frozen:
        for parameter in model[0].parameters():  # type: ignore[index]
            parameter.grad = None


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_the_same_bits_as_torch_also_where_gradients_are_missing(weight_decay: float) -> None:
    ours, theirs = network(), network()
    mine = Adam(ours.parameters(), 1e-2, weight_decay)
    fused = torch.optim.Adam(theirs.parameters(), 1e-2, weight_decay=weight_decay, fused=True)
    for step in range(30):
        for model, adam in ((ours, mine), (theirs, fused)):
            adam.zero_grad()
            backward(model, step, frozen=step % 3 == 1)
            adam.step()
    assert same_tensors(ours.state_dict(), theirs.state_dict())
    assert mine.count == [20, 20, 30, 30]


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_without_the_kernel_torch_makes_the_same_step(
    weight_decay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    found = []
    for private in (True, False):
        model = network()
        adam = Adam(model.parameters(), 1e-2, weight_decay)
        with monkeypatch.context() as patch:
            if not private:
                patch.setattr(ciga.training.adam, "KERNEL", None)
                patch.setattr(Adam, "_step_by_torch", counted(Adam._step_by_torch, calls))
            for step in range(12):
                adam.zero_grad()
                backward(model, step, frozen=step % 3 == 1)
                adam.step()
        found.append((model.state_dict(), adam.state()))
    assert ciga.training.adam.KERNEL is not None  # this torch has it
    assert len(calls) == 12
    assert all(same_tensors(one, two) for one, two in zip(*found, strict=True))


def counted(step: Callable[..., None], calls: list[str]) -> Callable[..., None]:
    def call(self: Adam, moved: list[int]) -> None:
        calls.append("torch")
        step(self, moved)

    return call


def test_it_follows_the_formula() -> None:
    parameter = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    adam = Adam([parameter], lr=0.1)
    value, mean, square = parameter.detach().clone(), torch.zeros(2), torch.zeros(2)
    for step in range(1, 6):
        adam.zero_grad()
        (parameter**3).sum().backward()
        adam.step()
        gradient = 3 * value**2
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        value = value - 0.1 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-6, atol=0)


def test_a_restored_state_goes_on_where_it_was_and_forget_begins_anew() -> None:
    def train(adam: Adam, model: nn.Module, steps: range) -> None:
        for step in steps:
            adam.zero_grad()
            backward(model, step, frozen=step == 2)
            adam.step()

    whole, broken = network(), network()
    train(Adam(whole.parameters(), 1e-2), whole, range(8))
    before = Adam(broken.parameters(), 1e-2)
    train(before, broken, range(5))
    kept = {k: v.clone() for k, v in before.state().items()}
    after = Adam(broken.parameters(), 1e-2)
    train(after, network(), range(2))  # what it knew is not added to what it is given
    after.restore(kept)
    train(after, broken, range(5, 8))
    assert same_tensors(whole.state_dict(), broken.state_dict())
    after.forget()
    assert after.state() == {}


def test_nothing_to_move_is_no_mistake() -> None:
    adam = Adam([], lr=0.1)
    adam.zero_grad()
    adam.step()
    untouched = nn.Parameter(torch.ones(2))
    Adam([untouched], lr=0.1).step()
    assert untouched.tolist() == [1.0, 1.0]
