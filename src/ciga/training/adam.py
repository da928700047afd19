"""Adam in one call per step.

On small graphs torch's own `Adam.step` takes a tenth of the time of training, nearly all of it around the
fused kernel that does the work: it sorts parameters by device and type, and counts the steps of each in a
tensor of its own. Here the kernel is called alone, with the same numbers: the weights are the same bits.
(`python -m benchmarks.adam` measures both.) The kernel is not part of torch's public interface: where a
version of torch has no such kernel, torch's own fused Adam makes the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
#: None in a torch that keeps its kernel elsewhere.
KERNEL: Callable[..., None] | None = getattr(torch, "_fused_adam_", None)


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
        if KERNEL is None:
            self._step_by_torch([i for i, _, _ in moved])
            return
        device = moved[0][1].device
        now = {n: torch.full((), float(n), device=device) for n in {self.count[i] for i, _, _ in moved}}
        KERNEL(
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

    def _step_by_torch(self, moved: list[int]) -> None:
        """The same step by `torch.optim.Adam`, given the moments and the counts of these parameters."""
        parameters = [self.parameters[i] for i in moved]
        optimizer = torch.optim.Adam(
            parameters, self.lr, (BETA1, BETA2), EPSILON, self.weight_decay, fused=True
        )
        for i, parameter in zip(moved, parameters, strict=True):
            # The moments are changed in place; the count is ours.
            step = torch.tensor(float(self.count[i] - 1), device=parameter.device)
            optimizer.state[parameter] = {"step": step, "exp_avg": self.mean[i], "exp_avg_sq": self.square[i]}
        optimizer.step()

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
