"""Data that came with a job, on a machine that has not the raw files."""

from __future__ import annotations

from pathlib import Path

from ciga.data.cache import open_splits
from ciga.data.dataset import Dataset
from ciga.graphs.splits import Splits
from ciga.progress import Progress, silent


class Sent(Dataset):
    """A dataset whose parts lie in a folder that `ciga.runs.pool.cluster.unpack` wrote."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def build(self, progress: Progress = silent) -> Splits:
        return open_splits(self.folder)
