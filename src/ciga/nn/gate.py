"""A gate on every node feature, with a price for keeping it open.

Choosing edges cannot remove a shortcut that stands on every node. A gate can: each column of x is multiplied
by a number between 0 and 1 that is learned, shared by all networks that read x, and exactly 0 once it is
closed. An open gate costs `price`, so a column stays only where it earns that much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from ciga.graphs.batch import Batch
from ciga.nn.encoder import Backbone, Spec

#: The hard concrete distribution (Louizos et al., 2018): a binary concrete variable of this temperature,
#: stretched from [0, 1] to [LOW, HIGH] and cut off at 0 and 1, so that both have a probability.
TEMPERATURE, LOW, HIGH = 2 / 3, -0.1, 1.1
#: Where every gate starts: open, and noisy enough to have a gradient. From here to closed Adam needs some
#: five thousand steps at its usual rate, often more than early stopping leaves: `gate_speed` shortens that.
OPEN = 2.5


class FeatureGate(nn.Module):
    """Batch -> the batch with each column of x times its gate.

    In training every graph draws gates anew: a gate that all graphs of a batch share would be a scale, which
    batch norm takes out again, and what a column is worth would not be seen. Otherwise a gate is one number.
    """

    speed: Tensor

    def __init__(self, columns: int, price: float, speed: float = 1.0) -> None:
        super().__init__()
        self.price = price
        # Adam's steps do not depend on the scale of a gradient. A parameter that counts `speed` times moves
        # the gate that much faster, under the optimiser that all others have.
        self.openness = nn.Parameter(torch.full((columns,), OPEN / speed))  # [F]
        self.register_buffer("speed", torch.tensor(speed), persistent=speed != 1)

    @property
    def location(self) -> Tensor:
        """Where each gate stands, [F]: far above 0 is open, far below is closed."""
        return self.openness * self.speed

    def forward(self, batch: Batch) -> Batch:
        if not self.training:
            return replace(batch, x=batch.x * fixed_gates(self.location))
        return replace(batch, x=batch.x * self.sample(batch.num_graphs).index_select(0, batch.batch))

    def sample(self, graphs: int) -> Tensor:
        """The gates of each graph, [G, F]."""
        noise = self.openness.new_empty(graphs, self.openness.numel()).uniform_().logit(eps=1e-6)
        return _stretched((self.location + noise) / TEMPERATURE)

    def cost(self) -> Tensor:
        """Price times the expected number of open gates: the sum of P(gate > 0)."""
        shift = TEMPERATURE * math.log(-LOW / HIGH)
        return self.price * (self.location - shift).sigmoid().sum()


def _stretched(logit: Tensor) -> Tensor:
    return (logit.sigmoid() * (HIGH - LOW) + LOW).clamp(0.0, 1.0)


def fixed_gates(location: Tensor) -> Tensor:
    """The gates outside of training, [F]: no noise, and exactly 0 where closed."""
    return _stretched(location)


def gate_of(spec: Spec, backbone: Backbone) -> nn.Module:
    """The gate of a network, or nothing where no price is set or no node feature is used."""
    if not backbone.gate_price or not backbone.node_features or not spec.features:
        return nn.Identity()
    return FeatureGate(spec.features, backbone.gate_price, backbone.gate_speed)


def gate_cost(network: nn.Module) -> dict[str, Tensor]:
    """The term that the gate of a network adds to its loss; none where there is no gate, or it is held."""
    gates = [m for m in network.modules() if isinstance(m, FeatureGate) and m.training]
    return {"gate": torch.stack([gate.cost() for gate in gates]).sum()} if gates else {}


def closed_columns(state: Mapping[str, Tensor]) -> list[int] | None:
    """The columns of x that the weights of one or several networks ignore; None where they have no gate."""
    one = torch.ones(())
    gates = [
        fixed_gates(v * state.get(f"{k.removesuffix('openness')}speed", one))
        for k, v in state.items()
        if k.split(".")[-2:] == ["gate", "openness"]
    ]
    if not gates:
        return None
    return torch.stack(gates).amax(0).eq(0).nonzero().flatten().tolist()
