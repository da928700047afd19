"""Datasets: the contract, and what a dataset of your own is made of."""

from ciga.data.dataset import Dataset, datasets, load, register
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import Batch, GraphStore
from ciga.options import tunable

__all__ = ["Batch", "Dataset", "GraphStore", "Splits", "Task", "datasets", "load", "register", "tunable"]
