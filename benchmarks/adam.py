"""One step of our Adam against torch's own fused one, on the parameters of two networks.

python -m benchmarks.adam
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

from ciga.methods.base import make
from ciga.nn.encoder import Backbone, Spec
from ciga.training.adam import Adam

STEPS, REPEATS = 200, 7


def seconds(step: Callable[[], object]) -> float:
    """Of one step: the median over repeats of their mean."""
    found = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(STEPS):
            step()
        found.append((time.perf_counter() - began) / STEPS)
    return median(found)


def main() -> None:
    torch.set_num_threads(1)
    for name in ("erm", "ciga-v2"):
        parameters = list(make(name).network(Spec(4, 0, 3), Backbone()).parameters())
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        ours = seconds(Adam(parameters, 1e-3).step)
        theirs = seconds(torch.optim.Adam(parameters, 1e-3, fused=True).step)
        count = len(parameters)
        print(f"{name}: {count} tensors, ours {1e6 * ours:.0f} us, torch {1e6 * theirs:.0f} us per step")


if __name__ == "__main__":
    main()
