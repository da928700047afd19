"""Graph classification that keeps working when the data shifts.

Names are imported on first use, so that `import ciga` costs nothing by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ciga.data.catalog import load
    from ciga.data.splits import Splits, Task
    from ciga.data.store import Batch, GraphStore
    from ciga.errors import CigaError
    from ciga.estimator import GraphOODClassifier
    from ciga.explain.explanation import Explanation
    from ciga.model import Model
    from ciga.run import execute, plan
    from ciga.train import Training, fit

_HOME = {
    "load": "ciga.data.catalog",
    "Splits": "ciga.data.splits",
    "Task": "ciga.data.splits",
    "Batch": "ciga.data.store",
    "GraphStore": "ciga.data.store",
    "CigaError": "ciga.errors",
    "GraphOODClassifier": "ciga.estimator",
    "Explanation": "ciga.explain.explanation",
    "Model": "ciga.model",
    "execute": "ciga.run",
    "plan": "ciga.run",
    "Training": "ciga.train",
    "fit": "ciga.train",
}

__all__ = [
    "Batch",
    "CigaError",
    "Explanation",
    "GraphOODClassifier",
    "GraphStore",
    "Model",
    "Splits",
    "Task",
    "Training",
    "execute",
    "fit",
    "load",
    "plan",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ciga' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
