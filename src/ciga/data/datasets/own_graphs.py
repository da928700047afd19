"""One's own graphs: a file or folder of graphs, cut into splits by size, degree, chance or a column."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from ciga import options
from ciga.data.cache import cache_folder, cached, file_hash
from ciga.data.dataset import Dataset, register
from ciga.data.reading import split_rules
from ciga.data.reading.graph_files import is_graph_file, read_graphs
from ciga.data.reading.tables import Rejected, summary, write_rejected
from ciga.errors import CigaError, UsageError, unknown
from ciga.graphs.columns import Column
from ciga.graphs.splits import SPLIT_NAMES, Splits, Task
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress, silent

VERSION = 1
RULES = ("size", "degree", "random", "order", "column")


@dataclass
class _Graphs:
    """The graphs still in play, their values, where each came from, and those set aside."""

    store: GraphStore
    values: dict[str, list[Any]]
    at: list[tuple[Path, int]]  # (file, row) of each graph
    part: list[str]  # the split its file is for; empty where a rule decides
    rejected: list[Rejected]
    strict: bool

    def drop(self, bad: Mapping[int, tuple[str, str]]) -> None:
        """Set graphs aside: graph -> (reason, value)."""
        for i, (reason, value) in sorted(bad.items()):
            file, row = self.at[i]
            self.rejected.append(Rejected(row, reason, value, file=file.name))
        if self.strict and self.rejected:
            raise CigaError(f"{self.rejected[0]}. Mend it, or leave strict off to set such graphs aside.")
        if not bad:
            return
        keep = [i for i in range(len(self.at)) if i not in bad]
        if not keep:
            raise CigaError(f"No graph can be used: {summary(self.rejected)}. First: {self.rejected[0]}.")
        self.store = self.store.subset(keep)
        self.values = {name: [column[i] for i in keep] for name, column in self.values.items()}
        self.at, self.part = [self.at[i] for i in keep], [self.part[i] for i in keep]


@register("pyg")
@dataclass
class OwnGraphs(Dataset):
    """Graphs from a file (see `ciga.data.reading.graph_files`), or a folder with one file for each split."""

    path: str = tunable("", help="file of graphs, or a folder with train.*, ood_val.*, ood_test.* …")
    label: str = tunable("y", help="the value of a graph that is its class")
    env: str = tunable("env", help="the value that is its environment; 'env' need not be there")
    split: str = tunable("size", help="size, degree, random, order:NAME or column:NAME of a value")
    order_column: str = tunable("", help="split=order: low values to train, high ones to test")
    split_column: str = tunable("split", help="split=column: the value that says train, val or test")
    descending: bool = tunable(False, help="size, degree, order: train on the high values instead")
    fractions: tuple[float, ...] = tunable((0.8, 0.1, 0.1), help="shares of train, validation and test")
    id_val: float = tunable(0.0, low=0, high=0.9, help="share of the training graphs held out as id_val")
    target_metric: str = tunable(
        "auto", choices=("auto", "accuracy", "roc_auc", "mcc"), help="auto: roc_auc if there are two classes"
    )
    seed: int = tunable(0, low=0, help="of the random choices in splitting")
    strict: bool = tunable(False, help="stop at the first bad graph instead of setting it aside")

    summary: ClassVar[str] = "your own graphs: PyG .pt, JSON or safetensors"
    shift: ClassVar[str] = "as you split it"

    def missing_files(self) -> list[str]:
        if not self.path:
            return ["a file of your own (path=FILE)"]
        return [] if Path(self.path).expanduser().exists() else [self.path]

    def identity(self) -> dict[str, str]:
        return {path.name: file_hash(path) for path in self._files().values() if path.is_file()}

    def build(self, progress: Progress = silent) -> Splits:
        files, rule = self._files(), self._rule()
        for path in files.values():
            if not path.is_file():
                raise UsageError(f"There is no file {path}.")
        chosen = {k: v for k, v in options.as_dict(self).items() if k != "path"}
        key = {"version": VERSION, "names": [path.name for path in files.values()], **chosen}
        sources = list(files.values())
        log = cache_folder(self.name, key, sources).with_suffix(".rejected.csv")
        splits = cached(self.name, key, sources, lambda: self._make(files, rule, log))
        if "rejected.file" in splits.notes and not Path(splits.notes["rejected.file"]).is_file():
            splits = cached(self.name, key, sources, lambda: self._make(files, rule, log), refresh=True)
        return splits

    def _files(self) -> dict[str, Path]:
        """The files by split name; one file that is to be cut has the empty name."""
        if not self.path:
            raise UsageError("The dataset pyg needs path=FILE (or a folder with one file for each split).")
        path = Path(self.path).expanduser()
        if not path.is_dir():
            return {"": path}
        found = {p.name.split(".")[0]: p for p in sorted(path.iterdir()) if is_graph_file(p)}
        parts = {name: found[name] for name in SPLIT_NAMES if name in found}
        if "train" not in parts:
            raise UsageError(f"{path} has no train.safetensors, train.jsonl or the like: name the file.")
        return parts

    def _rule(self) -> tuple[str, str]:
        """The split rule, and the value it looks at."""
        split_rules.check_fractions(self.fractions)
        rule, _, name = self.split.partition(":")
        if rule not in RULES:
            raise UsageError(
                f"split={self.split} is none of {', '.join(RULES)}. For a value of the graphs: "
                f"split=order:{self.split} (low ones train) or split=column:{self.split} (train, val, test)."
            )
        name = name or {"order": self.order_column, "column": self.split_column}.get(rule, "")
        if rule == "order" and not name:
            raise UsageError("split=order needs the name of a value: split=order:NAME.")
        return rule, name

    def _make(self, files: Mapping[str, Path], rule: tuple[str, str], log: Path) -> Splits:
        graphs = self._read(files)
        name = rule[1] if "" in files else ""
        needed = [self.label, *([] if self.env == "env" else [self.env]), *([name] if name else [])]
        for value in needed:
            if value not in graphs.values:
                raise unknown(f"value in {self.path}", value, graphs.values)
            lacking = [i for i, v in enumerate(graphs.values[value]) if v is None]
            reason = "missing label" if value == self.label else f"missing {value}"
            graphs.drop(dict.fromkeys(lacking, (reason, "")))
        if "" in files:
            self._assign(graphs, *rule)
        labels = graphs.values[self.label]
        trained = {label for label, part in zip(labels, graphs.part, strict=True) if part == "train"}
        unseen = {i: ("label never in training", str(v)) for i, v in enumerate(labels) if v not in trained}
        graphs.drop(unseen)
        if len(trained) < 2:
            raise CigaError(f"All training graphs are of class '{min(trained)}': split in another way.")
        notes = {"split": self.split if "" in files else "one file for each split"}
        if graphs.rejected:
            notes["rejected"] = summary(graphs.rejected)
            with contextlib.suppress(OSError):  # where nothing can be written there is no cache either
                write_rejected(log, graphs.rejected)
                notes["rejected.file"] = str(log)
        return self._splits(graphs, notes)

    def _read(self, files: Mapping[str, Path]) -> _Graphs:
        read = {part: read_graphs(path, self.strict) for part, path in files.items()}
        names = dict.fromkeys(name for file in read.values() for name in file.values)
        return _Graphs(
            GraphStore.concat([file.store for file in read.values()]),
            {k: [v for f in read.values() for v in f.values.get(k, [None] * len(f.rows))] for k in names},
            [(files[part], row) for part, file in read.items() for row in file.rows],
            [part for part, file in read.items() for _ in file.rows],
            [bad for file in read.values() for bad in file.rejected],
            self.strict,
        )

    def _assign(self, graphs: _Graphs, rule: str, name: str) -> None:
        """Fill in the split of each graph."""
        if rule == "column":
            words = [str(v) for v in graphs.values[name]]
            graphs.drop({i: ("unknown split name", words[i]) for i in split_rules.by_column(words)[1]})
        store, shares = graphs.store, self.fractions
        labels, order = graphs.values[self.label], graphs.values.get(name, [])
        rules: dict[str, Callable[[], split_rules.Parts]] = {
            "size": lambda: split_rules.by_size(store.num_nodes, shares, self.descending),
            "degree": lambda: split_rules.by_degree(
                store.num_nodes, store.num_edges, shares, self.descending
            ),
            "random": lambda: split_rules.by_random(len(labels), shares, self.seed, list(map(str, labels))),
            "order": lambda: split_rules.by_order(order, shares, self.descending),
            "column": lambda: split_rules.by_column([str(v) for v in order])[0],
        }
        parts = rules[rule]()
        if "train" not in parts:
            raise CigaError(f"No graph is for training: name some 'train' in '{name}'.")
        for part, rows in split_rules.hold_out(parts, self.id_val, self.seed, list(map(str, labels))).items():
            for i in rows.tolist():
                graphs.part[i] = part

    def _splits(self, graphs: _Graphs, notes: dict[str, str]) -> Splits:
        store, values = graphs.store, dict(graphs.values)
        store.y, class_names = number(values.pop(self.label))
        environments = values.get(self.env, [None])
        if None not in environments:
            train = [i for i, part in enumerate(graphs.part) if part == "train"]
            store.env = number_environments(environments, train)
        store.columns = {name: _column(column) for name, column in values.items() if None not in column}
        store.columns["row"] = torch.tensor([row for _, row in graphs.at])
        auto = "roc_auc" if len(class_names) == 2 else "accuracy"
        task = Task(
            len(class_names), auto if self.target_metric == "auto" else self.target_metric, class_names
        )
        where = {name: [i for i, part in enumerate(graphs.part) if part == name] for name in SPLIT_NAMES}
        return Splits({name: store.subset(rows) for name, rows in where.items() if rows}, task, notes)


def number(labels: Sequence[Any]) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Classes from 0 in sorted order (numbers by value, then texts), and their names."""
    kinds = sorted(set(labels), key=lambda v: (isinstance(v, str), v))
    place = {kind: i for i, kind in enumerate(kinds)}
    return torch.tensor([place[label] for label in labels]), tuple(map(str, kinds))


def number_environments(values: Sequence[Any], train: Sequence[int]) -> torch.Tensor:
    """Environments from 0; those of the training graphs come first, so that they have no gaps."""
    order = [kind for rows in (train, range(len(values))) for kind in sorted({str(values[i]) for i in rows})]
    place = {kind: i for i, kind in enumerate(dict.fromkeys(order))}
    return torch.tensor([place[str(value)] for value in values])


def _column(values: list[Any]) -> Column:
    if all(isinstance(v, (bool, int)) for v in values):
        return torch.tensor(values, dtype=torch.long)
    if all(isinstance(v, (bool, int, float)) for v in values):
        return torch.tensor(values, dtype=torch.double)
    return [str(v) for v in values]
