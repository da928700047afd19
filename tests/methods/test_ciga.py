"""CIGA's terms by hand, and whom each of them teaches (defect 2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ciga.bench.paper import rows
from ciga.data import Batch, Splits
from ciga.errors import UsageError
from ciga.methods.base import Step, make
from ciga.methods.ciga import CIGAv1, CIGAv2
from ciga.methods.losses import supervised_contrast
from ciga.nn import Backbone, InvariantNetwork, Spec
from ciga.runs.plan import plan
from ciga.runs.records import Runs
from ciga.training.loop import fit
from ciga.training.schedule import Training
from tests.helpers import gradient_size

PARTS = ("featurizer", "extractor", "classifier", "head", "spurious_head")


@pytest.fixture(scope="module")
def batch(toy: Splits) -> Batch:
    return toy.train.batch(range(0, 60, 4))


def network_of(method: CIGAv1, conv: str = "gcn-ogb", seed: int = 0) -> InvariantNetwork:
    torch.manual_seed(seed)
    return method.network(Spec(4, 0, 3), Backbone(conv=conv, layers=2, width=8))


def reached(term: Tensor, network: InvariantNetwork) -> set[str]:
    """The parts of the network a term's gradient reaches."""
    modules = {name: getattr(network, name) for name in PARTS}
    return {name for name, m in modules.items() if m is not None and gradient_size(term, m) > 0}


# ---------------------------------------------------------------- the terms


@pytest.mark.parametrize("contrast_input", ["feat", "rep"])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_v1_by_hand(batch: Batch, contrast_input: str, temperature: float) -> None:
    method = CIGAv1(alpha=3.0, contrast_input=contrast_input, temperature=temperature)
    network = network_of(method).eval()
    terms = method.loss(network, batch, Step())
    prediction = network.predict(network.split(batch))
    z = prediction.representation if contrast_input == "rep" else prediction.parts.pooled()
    torch.testing.assert_close(terms["risk"], cross_entropy(prediction.logits, batch.y))
    torch.testing.assert_close(terms["contrast"], 3.0 * supervised_contrast(z, batch.y, temperature))
    assert set(terms) == {"risk", "contrast"}


def test_the_hinge_by_a_loop(batch: Batch) -> None:
    """beta times the mean over all graphs of R_s where R_c <= R_s, and nothing where G_s does better."""
    method = CIGAv2(alpha=1.0, beta=2.5)
    for seed in range(3):
        network = network_of(method, seed=seed).eval()
        terms = method.loss(network, batch, Step())
        both = network.predict_both(network.split(batch))
        assert both.spurious_logits is not None
        total, active = 0.0, 0
        for i in range(batch.num_graphs):
            causal, spurious = (
                float(cross_entropy(logits[i].detach(), batch.y[i]))
                for logits in (both.logits, both.spurious_logits)
            )
            if causal <= spurious:
                total, active = total + spurious, active + 1
        assert 0 < active < batch.num_graphs
        assert float(terms["spurious"].detach()) == pytest.approx(2.5 * total / batch.num_graphs, rel=1e-5)


def test_v2_is_v1_and_the_hinge(batch: Batch) -> None:
    for train in (False, True):  # in training, too: G_s has statistics of its own
        one, two = CIGAv1(alpha=2.0), CIGAv2(alpha=2.0, beta=1.0)
        network, twin = (network_of(two).train(train) for _ in range(2))
        first, second = one.loss(network, batch, Step()), two.loss(twin, batch, Step())
        assert set(second) - set(first) == {"spurious"}
        for name, value in first.items():
            torch.testing.assert_close(second[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "terms"),
    [
        ({"alpha": 0.0, "beta": 0.0}, {"risk"}),
        ({"alpha": 0.0}, {"risk", "spurious"}),
        ({"beta": 0.0}, {"risk", "contrast"}),
        ({}, {"risk", "contrast", "spurious"}),
    ],
)
def test_a_term_of_weight_zero_is_absent(batch: Batch, values: dict[str, float], terms: set[str]) -> None:
    method = CIGAv2(**values)
    assert set(method.loss(network_of(method), batch, Step())) == terms


# ---------------------------------------------------------------- defect 2: where the hinge's gradient goes


def hinge_reaches(method: CIGAv2, batch: Batch, conv: str) -> set[str]:
    network = network_of(method, conv)
    return reached(method.loss(network, batch, Step())["spurious"], network)


@pytest.mark.parametrize("conv", ["gcn-ogb", "gin"])
@pytest.mark.parametrize("classifier_input", ["feat", "raw"])
def test_spurious_gradient_does_what_it_says(batch: Batch, conv: str, classifier_input: str) -> None:
    attached = CIGAv2(spurious_gradient=True, classifier_input=classifier_input)
    assert hinge_reaches(attached, batch, conv) == {"featurizer", "extractor", "classifier", "spurious_head"}
    detached = CIGAv2(spurious_gradient=False, classifier_input=classifier_input)
    assert hinge_reaches(detached, batch, conv) == {"spurious_head"}


def test_beta_shapes_the_featurizer_and_the_outcome_by_default(toy: Splits, batch: Batch) -> None:
    """With the hinge detached, beta is a no-op and v2 is v1 to the last bit: that must be asked for."""
    assert CIGAv2().spurious_gradient

    def gradient(beta: float) -> Tensor:
        method = CIGAv2(beta=beta)
        network = network_of(method)
        torch.stack(list(method.loss(network, batch, Step()).values())).sum().backward()
        return torch.cat([p.grad.flatten() for p in network.featurizer.parameters() if p.grad is not None])

    def outcome(**values: float | bool) -> list[Any]:
        training = Training(epochs=2, batch_size=16)
        fitted = fit(make("ciga-v2", values), toy, backbone=Backbone(layers=2, width=8), training=training)
        return [row["metrics"]["ood_val"]["log_loss"] for row in fitted.history]

    assert not torch.allclose(gradient(1.0), gradient(8.0))
    assert outcome(beta=1.0) != outcome(beta=8.0)
    assert outcome(beta=1.0, spurious_gradient=False) == outcome(beta=8.0, spurious_gradient=False)


def test_the_test_above_fails_on_a_term_that_is_always_detached(batch: Batch) -> None:
    @dataclass
    class Released(CIGAv2):
        def loss(self, network: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
            option, self.spurious_gradient = self.spurious_gradient, False
            try:
                return super().loss(network, batch, step)
            finally:
                self.spurious_gradient = option

    assert hinge_reaches(Released(spurious_gradient=True), batch, "gcn-ogb") == {"spurious_head"}


def test_the_option_changes_gradients_and_no_value(batch: Batch) -> None:
    values = []
    for option in (True, False):
        method = CIGAv2(spurious_gradient=option)
        values.append(method.loss(network_of(method), batch, Step()))
    for name in values[0]:
        torch.testing.assert_close(values[0][name], values[1][name])


def test_the_weight_of_the_hinge_carries_no_gradient(batch: Batch) -> None:
    """R_s is pushed down where it counts; R_c is only compared with, so its head learns nothing from it."""
    method = CIGAv2()
    network = network_of(method)
    assert gradient_size(method.loss(network, batch, Step())["spurious"], network.head) == 0


def test_risk_and_contrast_teach_the_featurizer_and_the_scorer(batch: Batch) -> None:
    method = CIGAv2(contrast_input="rep")
    network = network_of(method)
    terms = method.loss(network, batch, Step())
    assert reached(terms["risk"], network) == {"featurizer", "extractor", "classifier", "head"}
    assert reached(terms["contrast"], network) == {"featurizer", "extractor", "classifier"}
    pooled = CIGAv2(contrast_input="feat")
    assert reached(pooled.loss(network, batch, Step())["contrast"], network) == {"featurizer"}


# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize("name", ["ciga-v1", "ciga-v2"])
def test_one_inference_has_logits_partition_and_representation(batch: Batch, name: str) -> None:
    method = make(name)
    assert isinstance(method, CIGAv1)
    network = network_of(method).eval()
    found, parts = method.infer(network, batch), network.split(batch)
    assert found.partition is not None
    torch.testing.assert_close(found.logits, network(batch))
    torch.testing.assert_close(found.logits, network.head(found.representation))
    torch.testing.assert_close(found.partition.score, parts.partition.score)
    assert torch.equal(found.partition.kept, parts.partition.kept)


def test_v1_has_no_head_for_the_spurious_part() -> None:
    assert network_of(CIGAv1()).spurious_head is None
    assert network_of(CIGAv2()).spurious_head is not None


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"budget": "count", "size": 0.25}, "budget=count keeps a whole number of edges"),
        ({"budget": "count", "size": 2.5}, "budget=count keeps a whole number of edges"),
        ({"budget": "ratio", "size": 8}, r"budget=ratio takes a size in \(0, 1\]"),
        ({"budget": "ratio", "size": 0}, r"budget=ratio takes a size in \(0, 1\]"),
        ({"budget": "threshold", "size": 1.5}, r"budget=threshold takes a size in \(0, 1\]"),
        ({"budget": "half"}, "budget=half is not one of ratio, count, capped, threshold"),
        ({"alpha": -1}, "alpha=-1.0 is too small"),
        ({"contrast_input": "graph"}, "contrast_input=graph is not one of feat, rep"),
    ],
)
def test_options_that_do_not_fit_together(values: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make("ciga-v2", values)


# ---------------------------------------------------------------- records from before the hinge was attached


def test_a_record_of_the_released_hinge_counts_for_the_row_of_that_name_only() -> None:
    records = Runs(Path(__file__).parents[2] / "results")
    for preset in ("published", "tuned"):
        found = records.find(plan("nci1", "ciga-v2", preset=preset).config)
        assert found is None or found["settings"]["spurious_gradient"]
    released = rows()["ciga-v2-released"]
    found = records.find(plan("nci1", released.method, settings=released.settings, preset="published").config)
    assert found is not None
    assert not found["settings"]["spurious_gradient"]
