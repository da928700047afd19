"""Where training runs, and what it leaves untouched there: the caller's random state and threads."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from ciga.errors import UsageError


def pick_device(name: str) -> torch.device:
    """`auto` takes CUDA, then Apple's MPS, then the CPU."""
    if name == "auto":
        mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    if name not in ("cpu", "cuda", "mps") and not name.startswith("cuda:"):
        raise UsageError(f"There is no device '{name}': use auto, cpu, cuda or mps.")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("This machine has no usable CUDA device: use --device cpu.")
    if name == "mps" and not torch.backends.mps.is_available():
        raise UsageError("This machine has no MPS device: use --device cpu.")
    return torch.device(name)


def seed_all(seed: int, moment: int | str) -> None:
    """Seed every generator for one moment of one run."""
    digest = hashlib.sha256(f"{seed}/{moment}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:8]) >> 1)
    np.random.seed(int.from_bytes(digest[8:12]))
    random.seed(digest[12:])


@contextmanager
def quiet_machine(threads: int) -> Iterator[None]:
    """Leave the caller's random state and thread count as they were."""
    before, states = torch.get_num_threads(), (np.random.get_state(), random.getstate())
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(before)
        np.random.set_state(states[0])
        random.setstate(states[1])
