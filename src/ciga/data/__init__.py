"""Datasets: the contract, and what a dataset of your own is made of.

Names are imported on first use: some readers below need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ciga.data.dataset import Dataset, datasets, load, register
    from ciga.graphs.splits import Splits, Task
    from ciga.graphs.store import Batch, GraphStore
    from ciga.options import tunable

_HOME = {
    "Batch": "ciga.graphs.store",
    "Dataset": "ciga.data.dataset",
    "GraphStore": "ciga.graphs.store",
    "Splits": "ciga.graphs.splits",
    "Task": "ciga.graphs.splits",
    "datasets": "ciga.data.dataset",
    "load": "ciga.data.dataset",
    "register": "ciga.data.dataset",
    "tunable": "ciga.options",
}

__all__ = ["Batch", "Dataset", "GraphStore", "Splits", "Task", "datasets", "load", "register", "tunable"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ciga.data' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
