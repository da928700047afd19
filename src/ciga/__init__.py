"""Graph classification that keeps working when the data shifts.

Names are imported on first use, so that `import ciga` costs nothing by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ciga.data.dataset import load
    from ciga.errors import CigaError
    from ciga.estimator import GraphOODClassifier
    from ciga.explain.explanation import Explanation
    from ciga.graphs.splits import Splits, Task
    from ciga.graphs.store import Batch, GraphStore
    from ciga.models.model import Model
    from ciga.runs.plan import execute, plan
    from ciga.training.loop import fit
    from ciga.training.schedule import Training

_HOME = {
    "load": "ciga.data.dataset",
    "Splits": "ciga.graphs.splits",
    "Task": "ciga.graphs.splits",
    "Batch": "ciga.graphs.store",
    "GraphStore": "ciga.graphs.store",
    "CigaError": "ciga.errors",
    "GraphOODClassifier": "ciga.estimator",
    "Explanation": "ciga.explain.explanation",
    "Model": "ciga.models.model",
    "execute": "ciga.runs.plan",
    "plan": "ciga.runs.plan",
    "Training": "ciga.training.schedule",
    "fit": "ciga.training.loop",
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
