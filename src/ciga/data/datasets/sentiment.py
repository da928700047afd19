"""Graph-SST5 and Graph-Twitter: sentences as dependency trees, split by their average degree.

| name          | train | ood_val | ood_test | classes | nodes | directed edges |
|---------------|-------|---------|----------|---------|-------|----------------|
| graph-sst5    | 6,090 | 1,186   | 2,240    | 5       | 19.85 | 37.70          |
| graph-twitter | 3,238 | 694     | 1,509    | 3       | 21.10 | 40.20          |

The paper's counts; another parser moves a few graphs across the percentiles. A tree's average degree is
2 - 2/n, so this is a split by sentence length: SST5 trains on short sentences and tests on long ones, Twitter
the other way round.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from ciga.data.cache import cached, find_raw, raw_file
from ciga.data.dataset import Dataset, register
from ciga.data.reading.array_pickles import Array, read_array_pickle
from ciga.data.reading.arrays import read_npz
from ciga.data.reading.text_graphs import read_numbers, store_of, whole
from ciga.errors import CigaError
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress, silent

SOURCE = "DIG's sentiment graphs (github.com/divelab/DIG, SentiGraphDataset)"
FILES = (
    "edge_index.txt",
    "node_indicator.txt",
    "graph_labels.txt",
    "split_indices.txt",
    "sentence_tokens.json",
)
BERT, MINILM = "node_features.pkl", "node_features_minilm128.npz"
VERSION = 1


@dataclass
class SentimentGraphs(Dataset):
    """Base of the two: DIG's raw layout and the degree split."""

    features: str = tunable(
        "auto",
        choices=("auto", "bert", "minilm"),
        help="node features: bert (the paper's), minilm, or what is here",
    )

    metric: ClassVar[str] = "accuracy"
    original: ClassVar[str] = ""
    graphs: ClassVar[int] = 0
    class_names: ClassVar[tuple[str, ...]] = ()
    #: Train on the larger degrees and test on the smaller ones.
    descending: ClassVar[bool] = False

    def _path(self, file: str) -> str:
        return f"{self.original}/raw/{self.original}_{file}"

    def _features_file(self) -> str:
        if self.features == "auto" and find_raw(self._path(BERT)) is None and find_raw(self._path(MINILM)):
            return MINILM
        return MINILM if self.features == "minilm" else BERT

    def missing_files(self) -> list[str]:
        names = [self._path(file) for file in (*FILES, self._features_file())]
        return [name for name in names if find_raw(name) is None]

    def build(self, progress: Progress = silent) -> Splits:
        features = self._features_file()
        paths = {file: raw_file(self._path(file), source=SOURCE) for file in (*FILES, features)}
        key = {"version": VERSION, "features": features}
        return cached(self.name, key, list(paths.values()), lambda: self._split(paths, features))

    def read(self, paths: dict[str, Path], features: str) -> GraphStore:
        """All graphs of the files."""
        where = paths["edge_index.txt"].parent
        y = read_numbers(paths["graph_labels.txt"])
        graph = read_numbers(paths["node_indicator.txt"]) - 1
        official = read_numbers(paths["split_indices.txt"])
        if len(official) != len(y):
            raise CigaError(f"The files in {where} disagree: {len(y)} labels, {len(official)} split indices.")
        x = torch.from_numpy(read_features(paths[features]))
        edges = read_numbers(paths["edge_index.txt"], 2, separator=None)
        store = store_of(edges, graph, x, y, where)
        store.columns["original_index"] = torch.arange(store.num_graphs)
        store.columns["official_split"] = torch.from_numpy(official)
        store.columns["sentence"] = read_sentences(paths["sentence_tokens.json"], len(y))
        return store

    def _split(self, paths: dict[str, Path], features: str) -> Splits:
        store = self.read(paths, features)
        degree = (store.num_edges / store.num_nodes).numpy()
        usable = store.num_edges.numpy() > 2
        low, middle, high = np.percentile(degree, [20, 50, 80])
        if self.descending:
            train, test = degree > middle, degree <= low
        else:
            train, test = degree <= middle, degree > high
        rows = {"train": train, "ood_val": ~train & ~test, "ood_test": test}
        index = {part: np.flatnonzero(mask & usable) for part, mask in rows.items()}
        # The paper's validation set is the first tenth of N graphs of the middle band, not all of the band.
        index["ood_val"] = index["ood_val"][: -(-len(degree) // 10)]
        band = int(usable.sum()) - sum(map(len, index.values()))
        notes = {
            "validation": "shifted: the first of the graphs with degrees between those of train and test",
            "left out": f"{int((~usable).sum())} graphs with two edges or fewer, {band} of the middle band",
            "features": "BERT, as in the paper"
            if features == BERT
            else "MiniLM (128), not the paper's BERT (768)",
            **whole(store),
        }
        if store.num_graphs != self.graphs:
            notes["partial"] = f"{store.num_graphs} of {self.graphs} sentences: not the paper's dataset"
        parts = {part: store.subset(torch.from_numpy(i)) for part, i in index.items()}
        return Splits(parts, Task(self.classes, self.metric, self.class_names), notes)


@register("graph-sst5")
@dataclass
class GraphSST5(SentimentGraphs):
    """11,855 sentences of film reviews in five grades."""

    summary: ClassVar[str] = "film reviews as dependency trees; short -> long sentences"
    shift: ClassVar[str] = "degree"
    classes: ClassVar[int] = 5
    original: ClassVar[str] = "Graph-SST5"
    graphs: ClassVar[int] = 11_855
    class_names: ClassVar[tuple[str, ...]] = (
        "very negative",
        "negative",
        "neutral",
        "positive",
        "very positive",
    )


@register("graph-twitter")
@dataclass
class GraphTwitter(SentimentGraphs):
    """6,940 tweets in three moods."""

    summary: ClassVar[str] = "tweets as dependency trees; long -> short sentences"
    shift: ClassVar[str] = "degree"
    classes: ClassVar[int] = 3
    original: ClassVar[str] = "Graph-Twitter"
    graphs: ClassVar[int] = 6_940
    class_names: ClassVar[tuple[str, ...]] = ("negative", "neutral", "positive")
    descending: ClassVar[bool] = True


def read_features(path: Path) -> Array:
    """Node features, [N, F] float32: a pickled array, or an `.npz` of whole numbers `q` and their `scale`."""
    if path.suffix == ".pkl":
        x = read_array_pickle(path)
    else:
        arrays = read_npz(path)
        try:
            x = arrays["q"].astype(np.float32) * arrays["scale"].astype(np.float32)
        except (ValueError, KeyError) as error:
            raise CigaError(f"{path} does not hold `q` and its `scale`: get it again.") from error
    if x.ndim != 2:
        raise CigaError(
            f"{path} holds an array of shape {x.shape} instead of one row per node: get it again."
        )
    x = np.ascontiguousarray(x, dtype=np.float32)
    bad = ~np.isfinite(x).all(1)
    if bad.any():
        raise CigaError(f"{path} has NaN or infinite features at node {int(bad.argmax())}: get it again.")
    return x


def read_sentences(path: Path, graphs: int) -> list[str]:
    """The words of each graph's sentence, joined by blanks."""
    try:
        tokens = json.loads(path.read_text(encoding="utf-8"))
        return [" ".join(tokens[str(i)]) for i in range(graphs)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CigaError(f"{path} does not hold the words of {graphs} sentences: get it again.") from error
