"""Adam in one call a step.

On small graphs torch's own `Adam.step` takes a tenth of the time of training, nearly all of it around the
fused kernel that does the work: it sorts parameters by device and type, and counts the steps of each in a
tensor of its own. Here the kernel is called alone, with the same numbers: the weights are the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Kingma & Ba's Adam with L2 weight decay, over parameters of one type on one device.

    A parameter without a gradient is left alone, and the step is not counted as one of its.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0) -> None:
        self.parameters = list(parameters)
        self.lr, self.weight_decay = lr, weight_decay
        self.forget()

    def forget(self) -> None:
        """As before the first step."""
        self.count = [0] * len(self.parameters)  # steps of each parameter
        self.mean = [torch.zeros_like(p) for p in self.parameters]
        self.square = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        moved = [(i, p, p.grad) for i, p in enumerate(self.parameters) if p.grad is not None]
        if not moved:
            return
        for i, _, _ in moved:
            self.count[i] += 1
        device = moved[0][1].device
        now = {n: torch.full((), float(n), device=device) for n in {self.count[i] for i, _, _ in moved}}
        torch._fused_adam_(
            [p for _, p, _ in moved],
            [g for _, _, g in moved],
            [self.mean[i] for i, _, _ in moved],
            [self.square[i] for i, _, _ in moved],
            [],
            [now[self.count[i]] for i, _, _ in moved],
            lr=self.lr,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=self.weight_decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """For a checkpoint: the moments and the steps of each parameter that has made one."""
        out: dict[str, Tensor] = {}
        for i, count in enumerate(self.count):
            if count:
                step = torch.tensor(float(count))
                out |= {f"{i}/step": step, f"{i}/exp_avg": self.mean[i], f"{i}/exp_avg_sq": self.square[i]}
        return out

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """As `state` had it."""
        self.forget()
        for i in range(len(self.parameters)):
            if f"{i}/step" in state:
                self.count[i] = int(state[f"{i}/step"])
                self.mean[i].copy_(state[f"{i}/exp_avg"])
                self.square[i].copy_(state[f"{i}/exp_avg_sq"])
