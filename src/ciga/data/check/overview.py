"""What is known of a dataset before it is built, and its statistics beside the paper's afterwards."""

from __future__ import annotations

import json
from typing import Any

from ciga import options
from ciga.data.cache import cache_home, read_index
from ciga.data.dataset import Dataset, datasets
from ciga.data.datasets.causal import CausalDataset
from ciga.data.datasets.drugood import FULL
from ciga.data.datasets.own_data import OwnData
from ciga.data.datasets.paper_stats import STATS
from ciga.errors import CigaError
from ciga.graphs.splits import SPLIT_NAMES, Splits


def overview() -> dict[str, dict[str, Any]]:
    """One row for each dataset: what it is, how large its splits are, whether its files are here."""
    return {name: _row(name, datasets[name]()) for name in datasets}


def _row(name: str, dataset: Dataset) -> dict[str, Any]:
    sizes, source = known_sizes(dataset)
    missing = dataset.missing_files()
    return {
        "summary": dataset.summary,
        "shift": dataset.shift,
        "classes": dataset.classes or None,
        "metric": dataset.metric if dataset.classes else None,
        "sizes": sizes,
        "sizes_from": source,
        "files_here": not missing,
        "missing_files": missing,
        "options": {
            key: {"default": field.default, "help": field.metadata.get("help", "")}
            for key, field in options.fields_of(type(dataset)).items()
        },
    }


def known_sizes(dataset: Dataset) -> tuple[dict[str, int] | None, str | None]:
    """Graphs of each split, and who says so: the options, the cache, the paper, or the data's publisher."""
    if isinstance(dataset, CausalDataset):
        counts = {
            "train": dataset.train_per_class,
            "val": dataset.val_per_class,
            "test": dataset.test_per_class,
        }
        classes = len(dataset.cause_names())
        return {name: counts[name.rpartition("_")[2]] * classes for name in SPLIT_NAMES}, "options"
    if isinstance(dataset, OwnData) and not dataset.path:
        return None, None  # some file in the cache is not this one
    built = cached_stats(dataset)
    if built is not None:
        return {part: stats["graphs"] for part, stats in built.items()}, "cache"
    if dataset.name in STATS:
        return dict(STATS[dataset.name].graphs), "paper"
    if dataset.name in FULL:
        return dict(FULL[dataset.name][0]), "publisher"
    return None, None


def cached_stats(dataset: Dataset) -> dict[str, Any] | None:
    """The statistics kept with a cache of this dataset with these options, whatever its source files were."""
    # JSON knows no tuples
    wanted = json.loads(json.dumps(options.as_dict(dataset)))
    folders = sorted(cache_home().glob(f"{dataset.name}-*/"), key=lambda f: -f.stat().st_mtime)
    for folder in folders:
        try:
            index = read_index(folder)
        except CigaError:
            continue
        key = index["key"]
        if index["name"] == dataset.name and all(key.get(k, v) == v for k, v in wanted.items()):
            return dict(index["stats"])
    return None


def statistics(name: str, splits: Splits) -> dict[str, Any]:
    """Graphs, nodes, edges and classes of each split and of all graphs, and the paper's figures."""
    parts = {part: splits[part].stats() for part in splits}
    graphs = sum(stats["graphs"] for stats in parts.values())
    whole = {"graphs": graphs} | {
        key: sum(stats[key] * stats["graphs"] for stats in parts.values()) / graphs
        for key in ("nodes_mean", "edges_mean")
    }
    # Where the dataset leaves graphs out, the paper's means are those of all graphs of the files.
    original = {key: float(splits.notes[f"all.{key}"]) for key in whole if f"all.{key}" in splits.notes}
    paper = STATS.get(name)
    return {
        "name": name,
        "classes": splits.task.classes,
        "class_names": list(splits.task.class_names),
        "metric": splits.task.metric,
        "features": splits.train.num_features,
        "edge_features": splits.train.edge_features,
        "environments": None if splits.train.env is None else int(splits.train.env.unique().numel()),
        "splits": parts,
        "all": whole | original,
        "paper": None if paper is None else dict(vars(paper)),
        "notes": dict(splits.notes),
        "fingerprint": splits.fingerprint(),
    }
