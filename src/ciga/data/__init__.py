"""Graphs as packed tensors, and the datasets made of them."""

from ciga.data.dataset import Dataset, datasets, load, register
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import Batch, GraphStore

__all__ = ["Batch", "Dataset", "GraphStore", "Splits", "Task", "datasets", "load", "register"]
