"""The complement term: what it is, and that the featurizer climbs what the readers of G_s descend."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ciga.data import Batch, Splits
from ciga.methods.base import Step
from ciga.methods.ciga import CIGAv1
from ciga.methods.ciga_complement import CIGAComplement
from ciga.nn import Backbone, InvariantNetwork, Spec
from ciga.training.fitted import Fitted
from ciga.training.loop import fit
from ciga.training.schedule import Training
from tests.helpers import same_tensors


@pytest.fixture(scope="module")
def batch(toy: Splits) -> Batch:
    return toy.train.batch(range(0, 60, 4))


def network_of(method: CIGAComplement) -> InvariantNetwork:
    torch.manual_seed(0)
    return method.network(Spec(4, 0, 3), Backbone(layers=2, width=8))


def gradients(term: Tensor, module: nn.Module) -> list[Tensor]:
    parameters = list(module.parameters())
    found = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def attached_risk(network: InvariantNetwork, batch: Batch) -> Tensor:
    """The risk on G_s with a plain gradient."""
    logits = network.predict_both(network.split(batch)).spurious_logits
    assert logits is not None
    return cross_entropy(logits, batch.y)


def test_it_is_ciga_v1_and_the_risk_of_the_rest(batch: Batch) -> None:
    method = CIGAComplement(alpha=2.0)
    network = network_of(method)
    terms = method.loss(network, batch, Step())
    assert set(terms) == {"risk", "contrast", "complement"}
    for name, value in CIGAv1(alpha=2.0).loss(network, batch, Step()).items():
        torch.testing.assert_close(terms[name], value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(terms["complement"], attached_risk(network, batch))


@pytest.mark.parametrize("classifier_input", ["raw", "feat"])
@pytest.mark.parametrize("gamma", [0.0, 0.25])
def test_the_scores_climb_what_the_classifier_descends(
    batch: Batch, classifier_input: str, gamma: float
) -> None:
    method = CIGAComplement(gamma=gamma, classifier_input=classifier_input)
    network = network_of(method)
    term, plain = method.loss(network, batch, Step())["complement"], attached_risk(network, batch)
    assert network.spurious_head is not None
    for module, factor in (
        (network.spurious_head, 1.0),
        (network.classifier, 1.0),
        (network.extractor, -gamma),
    ):
        own, theirs = gradients(term, module), gradients(plain, module)
        assert max(float(g.abs().max()) for g in theirs) > 0
        for one, two in zip(own, theirs, strict=True):
            torch.testing.assert_close(one, factor * two)
    through_scores = max(float(g.abs().max()) for g in gradients(term, network.featurizer))
    assert (through_scores > 0) == (gamma > 0)  # with `feat`, too, no other way leads to the featurizer
    assert all(float(g.abs().max()) == 0 for g in gradients(term, network.head))


def test_the_prior_holds_edge_scores_near_a_coin_toss(batch: Batch) -> None:
    method = CIGAComplement(prior=3.0)
    network = network_of(method)
    terms = method.loss(network, batch, Step())
    score = network.split(batch).partition.score.detach()
    p = score.double().sigmoid()
    slow = p * (2 * p).log() + (1 - p) * (2 - 2 * p).log()
    torch.testing.assert_close(terms["prior"], 3 * slow.mean().float(), rtol=1e-4, atol=1e-6)
    # A step down the term brings the scores nearer to zero: it reaches extractor and featurizer.
    assert all(
        max(float(g.abs().max()) for g in gradients(terms["prior"], m)) > 0
        for m in (network.extractor, network.featurizer)
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    terms["prior"].backward()
    optimizer.step()
    after = network.split(batch).partition.score.detach()
    assert float(after.square().mean()) < float(score.square().mean())


def trained(toy: Splits, epochs: int, folder: Path | None = None) -> Fitted:
    method = CIGAComplement(settle=True)
    training = Training(epochs=epochs, batch_size=8, averaging=0.9, trial=1, starts=2)
    return fit(
        method, toy, backbone=Backbone(layers=2, width=8), training=training, folder=folder, device="cpu"
    )


def test_once_settled_g_stays_as_at_the_best_epoch_and_f_c_learns_on(toy: Splits) -> None:
    before, after = trained(toy, 2), trained(toy, 4)
    assert ["complement" in row["terms"] for row in after.history] == [True, True, False, False]
    best, last = before.states[before.selector.name], after.states["last"]
    moved = {k.split(".")[0] for k in best if not torch.equal(best[k], last[k])}
    assert moved == {"classifier", "head"}


def test_settling_is_continued_from_a_checkpoint_as_if_never_stopped(toy: Splits, tmp_path: Path) -> None:
    whole = trained(toy, 4, tmp_path / "whole")
    trained(toy, 2, tmp_path / "parts")  # stopped where g settles
    parts = trained(toy, 4, tmp_path / "parts")
    assert [r["metrics"] for r in whole.history] == [r["metrics"] for r in parts.history]
    assert same_tensors(whole.states["last"], parts.states["last"])
