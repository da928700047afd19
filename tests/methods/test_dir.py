"""DIR against a loop over interventions, and who learns from what."""

from __future__ import annotations

import pytest
import torch

from ciga.data import load
from ciga.errors import UsageError
from ciga.graphs.splits import Splits
from ciga.methods.base import Step, make
from ciga.methods.dir import intervened_risks
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.networks import InvariantNetwork


@pytest.fixture(scope="module")
def splits() -> Splits:
    return load("spmotif-struc", train_per_class=4, val_per_class=2, test_per_class=2)


def test_risks_equal_a_loop_over_pairs() -> None:
    torch.manual_seed(0)
    causal, spurious, y = torch.randn(6, 3), torch.randn(6, 3), torch.randint(3, (6,))
    slow = []
    for j in range(6):
        risk = 0.0
        for i in range(6):
            joint = [float(causal[i, c]) / (1 + torch.exp(-spurious[j, c]).item()) for c in range(3)]
            logits = torch.tensor(joint)
            risk += float(logits.logsumexp(0) - logits[y[i]])
        slow.append(risk / 6)
    torch.testing.assert_close(intervened_risks(causal, spurious, y), torch.tensor(slow))


def test_terms_are_mean_and_variance_and_the_shortcut(splits: Splits) -> None:
    torch.manual_seed(0)
    method = make("dir", {"penalty": 3.0})
    network = method.network(Spec.of(splits), Backbone(width=8))
    assert isinstance(network, InvariantNetwork)
    batch = splits.train.batch(slice(None))
    terms = method.loss(network, batch, Step())
    prediction = network.predict_both(network.split(batch))
    risks = intervened_risks(prediction.logits, prediction.spurious_logits, batch.y)
    torch.testing.assert_close(terms["risk"], risks.mean())
    torch.testing.assert_close(terms["variance"], 3.0 * ((risks - risks.mean()) ** 2).mean())
    assert set(terms) == {"risk", "variance", "shortcut"}  # nothing of another method


def test_only_the_spurious_head_learns_the_shortcut(splits: Splits) -> None:
    torch.manual_seed(0)
    method = make("dir")
    network = method.network(Spec.of(splits), Backbone(width=8))
    assert isinstance(network, InvariantNetwork)
    assert network.spurious_head is not None
    terms = method.loss(network, splits.train.batch(slice(None)), Step())

    def touched(term: str) -> set[str]:
        names, parameters = zip(*network.named_parameters(), strict=True)
        gradients = torch.autograd.grad(terms[term], parameters, retain_graph=True, allow_unused=True)
        return {
            n.split(".")[0]
            for n, g in zip(names, gradients, strict=True)
            if g is not None and bool((g != 0).any())
        }

    assert touched("shortcut") == {"spurious_head"}
    for term in ("risk", "variance"):
        assert touched(term) == {"featurizer", "extractor", "classifier", "head"}


def test_one_graph_has_no_variance(splits: Splits) -> None:
    method = make("dir")
    network = method.network(Spec.of(splits), Backbone(width=8))
    terms = method.loss(network, splits.train.batch([0]), Step())
    assert float(terms["variance"].detach()) == 0.0
    assert all(bool(t.isfinite()) for t in terms.values())


def test_budget_is_checked() -> None:
    with pytest.raises(UsageError, match="whole number of edges"):
        make("dir", {"budget": "count", "size": 0.5})
