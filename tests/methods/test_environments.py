"""Environments belong to samples, and their risks are what a plain loop gives."""

from __future__ import annotations

from typing import NoReturn

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ciga.data import GraphStore, Splits, Task
from ciga.errors import CigaError, UsageError
from ciga.methods.base import Context, make, methods
from ciga.methods.environments import (
    environment_means,
    irm_penalty,
    reference_logits,
    scale_gradient,
    training_environments,
)
from ciga.nn import Backbone, Spec


def nobody() -> NoReturn:
    raise AssertionError("no reference model is needed")


def context_of(env: Tensor | None, n: int = 12, seed: int = 1) -> Context:
    pointer = torch.arange(n + 1)
    store = GraphStore(
        torch.rand(n, 2), torch.empty(2, 0), pointer, torch.zeros(n + 1), torch.arange(n) % 2, env=env
    )
    splits = Splits({"train": store}, Task(2))
    return Context(splits, Spec.of(splits), Backbone(), seed, nobody, lambda network: torch.zeros(n, 2))


def test_the_data_says_which_environment() -> None:
    env = torch.tensor([2, 0, 2, 2, 0, 0, 0, 2, 2, 0, 0, 0])
    assert training_environments(context_of(env), 5, "irm").equal(env)


def test_random_environments_are_equal_in_size_and_fixed_by_the_seed() -> None:
    first = training_environments(context_of(None, 13), 3, "irm")
    assert sorted(torch.bincount(first).tolist()) == [4, 4, 5]
    assert first.equal(training_environments(context_of(None, 13), 3, "irm"))
    assert not first.equal(training_environments(context_of(None, 13, seed=2), 3, "irm"))


def test_random_environments_on_request_whatever_the_data_has() -> None:
    method = make("dann", {"partition": "random", "environments": 4})
    context = context_of(torch.arange(12) % 2)
    assert method.prepare(context)["env"].equal(training_environments(context_of(None), 4, "dann"))
    network = method.network(context.spec, Backbone(layers=1, width=4))
    assert network.discriminator[-1].out_features == 4


@pytest.mark.parametrize("name", ["irm", "vrex", "ib-irm", "groupdro", "dann", "coral", "matchdg", "invrat"])
@pytest.mark.parametrize(("env", "number"), [(torch.zeros(12, dtype=torch.long), 2), (None, 1)])
def test_one_environment_is_refused_in_one_sentence(name: str, env: Tensor | None, number: int) -> None:
    with pytest.raises(UsageError) as caught:
        make(name, {"environments": number}).prepare(context_of(env))
    text = str(caught.value)
    assert text.startswith(f"{name} compares at least two environments")
    assert "\n" not in text
    named = text.rpartition(" are ")[2].rstrip(".").split(", ")
    assert named == [n for n in methods if not methods[n].needs_environments]
    assert "erm" in named
    assert name not in named


def test_environments_below_zero_are_refused() -> None:
    with pytest.raises(CigaError, match="below 0"):
        training_environments(context_of(torch.arange(12) - 1), 2, "irm")


def test_a_perfect_reference_is_reported() -> None:
    context = context_of(None)
    context.reference = torch.nn.Identity
    context.predict = lambda network: torch.eye(2)[context.splits.train.y]
    with pytest.warns(UserWarning, match="classifies every training graph correctly"):
        reference_logits(context)


@pytest.mark.parametrize("environments", [1, 3, 500])
def test_means_of_environments_present(environments: int) -> None:
    env = torch.randint(environments, (40,), generator=torch.Generator().manual_seed(0)) * 7
    values = torch.randn(40, 3)
    expected = []
    for e in sorted(set(env.tolist())):
        rows = [values[i] for i in range(40) if env[i] == e]
        expected.append(torch.stack(rows).mean(0))
    torch.testing.assert_close(environment_means(values, env), torch.stack(expected))
    torch.testing.assert_close(environment_means(values[:, 0], env), torch.stack(expected)[:, 0])


def slow_irm(logits: Tensor, y: Tensor, env: Tensor) -> Tensor:
    """One environment after the other, its gradient by a second graph."""
    total = torch.zeros((), dtype=logits.dtype)
    for e in sorted(set(env.tolist())):
        scale = torch.ones((), dtype=logits.dtype, requires_grad=True)
        samples = [cross_entropy(scale * logits[i], y[i]) for i in range(len(y)) if env[i] == e]
        (gradient,) = torch.autograd.grad(sum(samples) / len(samples), scale, create_graph=True)
        total = total + gradient**2
    return total


@pytest.mark.parametrize("environments", [1, 2, 9])
def test_irm_penalty_and_its_gradient(environments: int) -> None:
    generator = torch.Generator().manual_seed(environments)
    logits = torch.randn(20, 4, generator=generator, dtype=torch.double, requires_grad=True)
    y, env = (torch.randint(k, (20,), generator=generator) for k in (4, environments))
    fast, slow = irm_penalty(logits, y, env), slow_irm(logits, y, env)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(
        torch.autograd.grad(fast, logits)[0], torch.autograd.grad(slow, logits, retain_graph=True)[0]
    )
    # An environment belongs to a sample: the order of a batch means nothing.
    order = torch.randperm(20, generator=generator)
    torch.testing.assert_close(irm_penalty(logits[order], y[order], env[order]), fast)


def test_irm_penalty_is_no_product_of_two_environments() -> None:
    """Two environments whose gradients have opposite signs violate invariance; their product is negative."""
    logits, y = torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1])
    gradient = scale_gradient(logits, y)
    assert gradient[0] < 0 < gradient[1]
    penalty = irm_penalty(logits, y, torch.tensor([0, 1]))
    torch.testing.assert_close(penalty, gradient[0] ** 2 + gradient[1] ** 2)


def test_scale_gradient_stays_finite_at_extreme_logits() -> None:
    logits = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
    penalty = irm_penalty(logits, torch.tensor([0, 0]), torch.tensor([0, 1]))
    penalty.backward()
    assert penalty.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
