"""Graphs as packed tensors, and the datasets made of them."""

from ciga.data.catalog import Dataset, datasets, load, register
from ciga.data.splits import Splits, Task
from ciga.data.store import Batch, GraphStore

__all__ = ["Batch", "Dataset", "GraphStore", "Splits", "Task", "datasets", "load", "register"]
