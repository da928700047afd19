"""Networks that are solved, not trained: features of a graph, then a linear machine over them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ciga.graphs.store import Batch

#: Score of a class that the training data does not have: it never wins.
NEVER = -1e3


class Solved(nn.Module):
    """Buffers whose sizes only the data tell: a freshly built network takes those of the state it loads."""

    def hold(self, name: str, value: Tensor) -> None:
        """Make or replace a buffer."""
        self.register_buffer(name, value)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, own in list(self.named_buffers(recurse=False)):
            stored = state_dict.get(prefix + name)
            if stored is not None and stored.shape != own.shape:
                self.hold(name, torch.empty(stored.shape, dtype=own.dtype, device=own.device))
        super()._load_from_state_dict(state_dict, prefix, *args)


class FittedNetwork(Solved):
    """A linear machine over features of graphs."""

    weight: Tensor
    bias: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.hold("weight", torch.zeros(0, classes))  # [D, C]
        self.hold("bias", torch.zeros(classes))

    def features(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The non-zero features of the graphs: (graph [M], feature [M], value [M])."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> Tensor:
        """Logits [G, C]."""
        batch = batch.to(self.bias.device)
        graph, feature, value = self.features(batch)
        scores = self.weight.index_select(0, feature) * value.unsqueeze(1)
        return self.bias + self.bias.new_zeros(batch.num_graphs, self.classes).index_add(0, graph, scores)

    def take(self, classes: Tensor, coefficients: Tensor, intercept: Tensor) -> None:
        """Hold a machine for `classes` [k]: a row of coefficients each, or one for the second of two."""
        if classes.numel() == 2:  # one decision value d: half for one class, half against the other
            coefficients = torch.cat([-coefficients, coefficients]) / 2
            intercept = torch.cat([-intercept, intercept]) / 2
        weight = torch.zeros(coefficients.size(1), self.classes)
        bias = torch.full((self.classes,), NEVER)
        weight[:, classes], bias[classes] = coefficients.T, intercept
        self.hold("weight", weight.contiguous())
        self.hold("bias", bias)
