"""The defects that are measured beside the right methods are those they are named after, and nothing more."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ciga.data import Splits
from ciga.methods.base import Step, make
from ciga.nn import Backbone, Spec
from ciga.registry import load_plugin

FILE = Path(__file__).parent.parent / "benchmarks" / "defects.py"
BACKBONE = Backbone(layers=2, width=8)


@pytest.fixture
def defects(plugin: Callable[..., Path]) -> Any:
    digest = load_plugin(plugin(FILE.read_text(), "defects.py"))
    return sys.modules[f"ciga_plugin_defects_{digest}"]


def both(names: tuple[str, str], toy: Splits) -> list[tuple[Any, Any]]:
    """Methods and networks with the same weights."""
    made = []
    for name in names:
        torch.manual_seed(0)
        method = make(name)
        made.append((method, method.network(Spec.of(toy), BACKBONE)))
    for one, two in zip(made[0][1].parameters(), made[1][1].parameters(), strict=True):
        assert torch.equal(one, two)
    return made


def test_the_misplaced_contrast_pools_the_first_rows_and_the_risk_is_the_same(
    defects: Any, toy: Splits
) -> None:
    (right, network), (wrong, other) = both(("ciga-v1", "ciga-v1-misplaced"), toy)
    batch = toy.train.batch(slice(0, 12))
    terms, found = (m.loss(n, batch, Step()) for m, n in ((right, network), (wrong, other)))
    assert found.keys() == terms.keys()
    assert torch.equal(found["risk"], terms["risk"])
    assert found["contrast"] != terms["contrast"]
    parts = network.split(batch)
    pooled = torch.zeros(12, 8)
    for row, node in enumerate(parts.kept_nodes.tolist()):
        pooled[int(batch.batch[node])] += parts.hidden[row].detach()
    torch.testing.assert_close(defects.misplaced(parts).detach(), pooled)
    assert not torch.allclose(parts.pooled().detach(), pooled)


def statistics(network: nn.Module) -> dict[str, Tensor]:
    return {k: v for k, v in network.state_dict().items() if "norms.0.running" in k}


def test_with_one_norm_the_rest_moves_the_statistics_of_the_invariant_part(defects: Any, toy: Splits) -> None:
    (right, network), (wrong, other) = both(("ciga-v2", "ciga-v2-one-norm"), toy)
    batch = toy.train.batch(slice(0, 12))
    terms, found = (m.loss(n, batch, Step()) for m, n in ((right, network), (wrong, other)))
    assert torch.equal(found["risk"], terms["risk"])
    assert torch.equal(found["contrast"], terms["contrast"])
    mine, theirs = statistics(network), statistics(other)
    moved = {k for k in mine if not torch.equal(mine[k], theirs[k])}
    assert moved == {k for k in mine if k.startswith("classifier")}


def test_irm_by_place_multiplies_the_gradients_of_two_halves(defects: Any, toy: Splits) -> None:
    torch.manual_seed(0)
    method = make("irm-by-place", {"penalty": 3.0})
    network = method.network(Spec.of(toy), BACKBONE).eval()
    batch = toy.train.batch(slice(0, 12))
    term = method.loss(network, batch, Step())["irm"]
    gradients = []
    for half in (slice(0, 6), slice(6, 12)):
        scale = torch.ones((), requires_grad=True)
        risk = nn.functional.cross_entropy(scale * network(batch)[half], batch.y[half])
        gradients.append(torch.autograd.grad(risk, scale)[0])
    torch.testing.assert_close(term, 3.0 * gradients[0] * gradients[1])
