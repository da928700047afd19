"""GSAT's prior, noise and attention."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from ciga.data import Batch, load
from ciga.errors import UsageError
from ciga.graphs.splits import Splits
from ciga.methods.base import Step, make
from ciga.methods.gsat import GSAT
from ciga.methods.gsat.network import AttentionNetwork
from ciga.methods.losses import bernoulli_kl
from ciga.nn.encoder import Backbone, Spec
from ciga.training.fitted import Fitted
from ciga.training.loop import fit
from ciga.training.schedule import Training


@pytest.fixture(scope="module")
def splits() -> Splits:
    return load("spmotif-struc", train_per_class=4, val_per_class=2, test_per_class=2)


def build(splits: Splits, **options: object) -> tuple[GSAT, AttentionNetwork]:
    torch.manual_seed(0)
    method = make("gsat", options)
    assert isinstance(method, GSAT)
    return method, method.network(Spec.of(splits), Backbone(width=8))


def test_prior_falls_step_by_step() -> None:
    method = make("gsat", {"r_start": 0.9, "r": 0.7, "r_step": 0.1, "r_epochs": 10})
    assert isinstance(method, GSAT)
    priors = [method.prior(e) for e in (0, 9, 10, 19, 20, 90)]
    assert priors == pytest.approx([0.9, 0.9, 0.8, 0.8, 0.7, 0.7])


def test_prior_term_is_the_mean_over_undirected_edges(splits: Splits) -> None:
    method, network = build(splits, penalty=2.0)
    network.eval()
    batch = splits.train.batch(slice(None))
    for epoch, r in ((0, 0.9), (10, 0.8)):
        term = method.loss(network, batch, Step(epoch=epoch))["prior"]
        torch.testing.assert_close(term, 2.0 * bernoulli_kl(network.score(batch), r).mean())


def test_both_terms_shape_the_edge_scores(splits: Splits) -> None:
    method, network = build(splits)
    for term in method.loss(network, splits.train.batch(slice(None)), Step()).values():
        scorer = list(network.extractor.parameters())
        gradients = torch.autograd.grad(term, scorer, retain_graph=True)
        assert all(bool((g != 0).any()) for g in gradients[:1])


def test_noise_in_training_none_in_evaluation(splits: Splits) -> None:
    method, network = build(splits)
    batch = splits.train.batch(slice(None))
    network.eval()
    first, second = (method.loss(network, batch, Step())["risk"] for _ in range(2))
    assert float(first.detach()) != float(second.detach())
    torch.testing.assert_close(network(batch), network(batch), rtol=0, atol=0)


def test_the_noise_is_that_of_a_binary_concrete_variable(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the sigmoid, times the temperature: the edge's logit and a standard logistic variable."""
    method, network = build(splits, temperature=0.5)
    network.eval()
    batch, seen = splits.train.batch(slice(None)), []
    score, plain = network.score(batch).detach(), network.predict

    def predict(batch: Batch, attention: torch.Tensor) -> torch.Tensor:
        seen.append(attention.detach().double())
        return plain(batch, attention)

    monkeypatch.setattr(network, "predict", predict)
    for _ in range(60):
        method.loss(network, batch, Step())
    noise = (0.5 * torch.stack(seen).logit(eps=1e-12) - score).flatten()
    assert abs(float(noise.mean())) < 5 * math.pi / math.sqrt(3 * noise.numel())
    assert float(noise.var()) == pytest.approx(math.pi**2 / 3, rel=0.1)
    drawn = (torch.stack(seen) > 0.5).double().mean()  # an edge is in as often as its probability says
    assert float(drawn) == pytest.approx(float(score.sigmoid().mean()), abs=0.02)


def test_passes_keep_their_own_statistics(splits: Splits) -> None:
    """The pass over faded edges must not touch the statistics the scoring pass is normalised with."""
    _, network = build(splits)
    network.train()
    batch = splits.train.batch(slice(None))
    scoring = [n.norms[0].running_mean.clone() for n in network.encoder.norms]
    network.predict(batch, torch.full((batch.num_pairs,), 0.1))
    assert all(
        torch.equal(a, n.norms[0].running_mean) for a, n in zip(scoring, network.encoder.norms, strict=True)
    )
    assert any(bool(n.norms[1].running_mean.any()) for n in network.encoder.norms)


def test_attention_changes_the_prediction_and_shown_edges_follow_the_budget(splits: Splits) -> None:
    method, network = build(splits, budget="count", size=3)
    network.eval()
    batch = splits.train.batch(slice(None))
    faint, full = (network.predict(batch, torch.full((batch.num_pairs,), a)) for a in (0.1, 1.0))
    assert float((faint - full).detach().abs().max()) > 1e-4
    found = method.infer(network, batch)
    assert found.partition is not None
    torch.testing.assert_close(found.logits, network(batch))
    torch.testing.assert_close(found.logits, network.head(found.representation))
    assert torch.bincount(batch.pair_batch[found.partition.kept]).tolist() == [3] * batch.num_graphs
    with pytest.raises(UsageError, match="size in"):
        make("gsat", {"size": 2})


def test_an_epoch_counts_once_the_prior_has_come_to_rest(splits: Splits) -> None:
    """The best epoch by validation may be an early one: it is not chosen, nor does training stop for it."""
    method = GSAT()
    assert [e for e in range(100) if method.selectable(e)] == list(range(20, 100))  # .9, .8, .7
    assert GSAT(r_step=0.0).selectable(0)
    assert GSAT(r=0.9).selectable(0)
    quick = GSAT(r_epochs=1)
    training = Training(epochs=5, warmup=0, patience=1, batch_size=8, lr=1e-12)  # next to nothing is learned
    fitted = fit(quick, splits, backbone=Backbone(layers=2, width=8), training=training, device="cpu")
    assert len(fitted.history) >= 4  # without a better score than epoch 0's, and with a patience of one
    assert fitted.selected["ood-val"]["epoch"] >= 2
    short = replace(training, epochs=2)
    early = fit(quick, splits, backbone=Backbone(layers=2, width=8), training=short, device="cpu")
    assert {found["epoch"] for found in early.selected.values()} == {1}  # none may be chosen: the last counts


def test_beginnings_have_their_own_epochs_to_come_to_rest() -> None:
    fitted = Fitted(
        GSAT(r_epochs=1), Backbone(), Spec(1, 0, 2), ("train", "ood_val"),
        training=Training(epochs=9, trial=3, starts=2),
    )  # fmt: skip
    for value in (0.9, 0.8, 0.3, 0.7, 0.6, 0.2):
        fitted.history.append({"metrics": {"ood_val": {"accuracy": value}}})
    assert fitted.chosen(fitted.selector) == 2
    fitted.history.append({"metrics": {"ood_val": {"accuracy": 0.5}}})
    assert fitted.chosen(fitted.selector) == 6
