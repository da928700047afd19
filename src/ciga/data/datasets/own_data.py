"""Data of one's own: rows from files, cleaned, cut into parts by a rule, and what was set aside.

Molecules and graphs go the same way. A subclass says which files there are, reads their rows and makes the
graphs; cleaning labels, finding the parts, numbering classes and environments happens here.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from ciga import options
from ciga.data.cache import cache_folder, cached
from ciga.data.dataset import Dataset
from ciga.data.reading import cleaning, split_rules, tables
from ciga.data.reading.cleaning import Rows, canonical, names_of, number
from ciga.data.reading.split_rules import Parts
from ciga.data.reading.tables import Rejected
from ciga.errors import CigaError, UsageError
from ciga.graphs.splits import SPLIT_NAMES, Splits, Task
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress, silent

METRICS = ("auto", "accuracy", "roc_auc", "mcc")
#: Rules that look at a column, named after a colon: `group:assay`.
COLUMN_RULES = ("order", "time", "group", "column")


@dataclass
class OwnData(Dataset):
    """What all data of one's own have in common: the options, and the way from rows to parts."""

    path: str = tunable("", help="the file")
    label: str = tunable("label", help="the column of classes")
    env: str | None = tunable(None, help="the column of environments (assay, laboratory, …)")
    split: str = tunable("auto", help="how the rows are cut into parts")
    order_column: str | None = tunable(None, help="split=order: low values train, high ones test (a date, …)")
    split_column: str | None = tunable(None, help="split=column: the column that says train, val or test")
    fractions: tuple[float, ...] = tunable((0.8, 0.1, 0.1), help="shares of train, validation and test")
    id_val: float = tunable(
        0.0, low=0, high=0.9, help="share of the training rows held out at random as id_val"
    )
    descending: bool = tunable(False, help="size, degree, order: train on the high values instead")
    threshold: float | None = tunable(None, help="labels are numbers: class 1 from this value on, else 0")
    target_metric: str = tunable("auto", choices=METRICS, help="auto: roc_auc for two classes, else accuracy")
    seed: int = tunable(0, low=0, help="of the random choices in splitting")
    strict: bool = tunable(False, help="stop at the first bad row instead of setting it aside")

    shift: ClassVar[str] = "as you split it"
    rules: ClassVar[tuple[str, ...]] = ("size", "degree", "random", *COLUMN_RULES)
    example: ClassVar[str] = "path=FILE"

    # ---------------------------------------------------------------- what a subclass says

    def files(self) -> dict[str, Path]:
        """Part -> file; the part of a file that a rule has to cut is empty."""
        raise NotImplementedError

    def versions(self) -> list[Any]:
        """What the cached graphs depend on besides the options: versions of the code that makes them."""
        raise NotImplementedError

    def read(self, column: str | None, notes: dict[str, str]) -> Rows:
        """The rows of all files; `column` is the one the split looks at."""
        raise NotImplementedError

    def graphs(self, rows: Rows, progress: Progress) -> GraphStore:
        """The graphs of the rows, as many as there are afterwards: a bad one drops its row."""
        raise NotImplementedError

    def more_rules(
        self, rows: Rows, cut: NDArray[np.int64], shares: Sequence[float], progress: Progress
    ) -> dict[str, Callable[[], Parts]]:
        """Further rules, for the rows `cut`.

        Args:
            rows: All rows.
            cut: Those that a rule has to deal out.
            shares: Of train, validation and test.
            progress: Told how far it is.
        """
        return {}

    def describe(self, splits: Splits, notes: dict[str, str], progress: Progress) -> None:
        """Further notes on the finished parts."""

    # ---------------------------------------------------------------- what follows from it

    def missing_files(self) -> list[str]:
        if not self.path:
            return ["a file of your own (path=FILE)"]
        return [str(path) for path in self.files().values() if not path.is_file()]

    def build(self, progress: Progress = silent) -> Splits:
        if not self.path:
            raise UsageError(f"The dataset {self.name} needs a file: {self.example}.")
        for path in self.files().values():
            if not path.is_file():
                raise UsageError(f"There is no file {path}.")
        rule, _ = self.rule()
        split_rules.check_fractions(self.fractions)
        sources = list(self.files().values())
        names = [str(path) for path in sources]
        versions = [*self.versions(), *([cleaning.ORDER_VERSION] if rule in ("order", "time") else [])]
        key = {**options.as_dict(self), "files": names, "version": versions}
        log = cache_folder(self.name, key, sources).with_suffix(".rejected.csv")
        splits = cached(self.name, key, sources, lambda: self._make(log, progress))
        if "rejected.file" in splits.notes and not Path(splits.notes["rejected.file"]).is_file():
            splits = cached(self.name, key, sources, lambda: self._make(log, progress), refresh=True)
        return splits

    def rule(self) -> tuple[str, str | None]:
        """The split rule, and the column (or, for a similarity, the number) after its colon."""
        rule, _, after = self.split.partition(":")
        if rule not in self.rules:
            near = difflib.get_close_matches(rule, self.rules, n=1, cutoff=0.7)
            column = (
                f"For a column: split=order:{self.split} or time:{self.split} (low values train), "
                f"group:{self.split} (whole groups are held out) or column:{self.split} (it says train, val "
                "or test)."
            )
            hint = f"Did you mean {near[0]}?" if near else column
            raise UsageError(f"split={self.split} is none of {', '.join(self.rules)}. {hint}")
        if after and rule not in (*COLUMN_RULES, "cluster", "similarity"):
            raise UsageError(f"split={rule} looks at no column: leave ':{after}' out.")
        after = after or {"order": self.order_column, "column": self.split_column}.get(rule) or ""
        if rule in COLUMN_RULES and not after:
            raise UsageError(f"split={rule} needs a column: split={rule}:COLUMN.")
        return rule, after or None

    def _make(self, log: Path, progress: Progress) -> Splits:
        rule, after = self.rule()
        column = after if rule in COLUMN_RULES else None
        notes = {"split": f"{rule} {after}" if after else rule}
        rows = self.read(column, notes)
        try:
            splits = self._use(rows, rule, column, notes, progress)
        except CigaError:
            self._stop_if_strict(rows)  # a bad row may well be the cause
            raise
        self._stop_if_strict(rows)
        if rows.rejected:
            notes["rejected"] = tables.summary(rows.listed())
            with contextlib.suppress(OSError):  # where nothing can be written there is no cache either
                tables.write_rejected(log, rows.listed())
                notes["rejected.file"] = str(log)
        return Splits(splits.parts, splits.task, notes)

    def _stop_if_strict(self, rows: Rows) -> None:
        if self.strict and rows.rejected:
            raise CigaError(f"{rows.listed()[0]}. Correct the row, or leave strict off to set it aside.")

    def _use(
        self, rows: Rows, rule: str, column: str | None, notes: dict[str, str], progress: Progress
    ) -> Splits:
        """Graphs of the rows that can be used, in their parts."""
        cleaning.drop_empty(rows, column)
        cleaning.clean_labels(rows, self.label, self.threshold)
        if rule == "column":
            cleaning.clean_split_names(rows)
        elif rule in ("order", "time"):
            cleaning.clean_order(rows, str(column), time=rule == "time")
        graphs = self.graphs(rows, progress)
        self._assign(rows, rule, graphs, progress)
        splits = self._splits(rows, graphs.subset(cleaning.drop_unseen(rows)))
        self.describe(splits, notes, progress)
        return splits

    def _assign(self, rows: Rows, rule: str, graphs: GraphStore, progress: Progress) -> None:
        """Fill in `rows.part` where the file does not say it."""
        cut = np.array(rows.open, dtype=np.int64)
        if not cut.size:
            return
        labels = [rows.cells["label"][i] for i in cut]
        parts = self._cut(rule, rows, cut, labels, graphs, progress)
        if "train" not in parts:
            raise CigaError("No row is for training: name some 'train' in the split column.")
        for name, members in split_rules.hold_out(parts, self.id_val, self.seed, labels).items():
            for i in cut[members]:
                rows.part[i] = name

    def _cut(
        self,
        rule: str,
        rows: Rows,
        cut: NDArray[np.int64],
        labels: Sequence[str],
        graphs: GraphStore,
        progress: Progress,
    ) -> Parts:
        """The parts of the rows `cut`, numbered within it."""
        given = set(rows.part)
        train, val, test = split_rules.check_fractions(self.fractions)
        wanted = np.array([train, 0 if "ood_val" in given else val, 0 if "ood_test" in given else test])
        shares = (wanted / wanted.sum()).tolist()
        nodes, edges = graphs.num_nodes[torch.from_numpy(cut)], graphs.num_edges[torch.from_numpy(cut)]
        keys = [rows.cells["key"][i] for i in cut] if "key" in rows.cells else []
        numbers = [number(key) for key in keys]
        along: Sequence[Any] = keys if None in numbers else numbers
        column = self.rule()[1]
        rules: dict[str, Callable[[], Parts]] = {
            "size": lambda: split_rules.by_size(nodes, shares, self.descending),
            "degree": lambda: split_rules.by_degree(nodes, edges, shares, self.descending),
            "random": lambda: split_rules.by_random(len(cut), shares, self.seed, labels),
            "order": lambda: split_rules.by_order(along, shares, self.descending, column),
            "time": lambda: split_rules.by_order(along, shares, column=column),
            "group": lambda: split_rules.by_whole_groups(
                [canonical(key) for key in keys], shares, self.seed, column=column
            ),
            "column": lambda: split_rules.by_column(keys)[0],
            "files": lambda: {"train": np.arange(len(cut))},
            **self.more_rules(rows, cut, shares, progress),
        }
        return rules[rule]()

    def _splits(self, rows: Rows, graphs: GraphStore) -> Splits:
        names = names_of(rows.cells["label"])
        graphs.y = torch.tensor([names.index(label) for label in rows.cells["label"]])
        graphs.columns["row"] = torch.tensor([line for _, line in rows.at])
        if len(self.files()) > 1:
            graphs.columns["file"] = [file for file, _ in rows.at]
        if "env" in rows.cells:
            cells = [canonical(cell) for cell in rows.cells["env"]]
            train = names_of([c for c, part in zip(cells, rows.part, strict=True) if part == "train"])
            # The training environments come first, so that a method may count them from 0.
            others = [c for c in names_of(cells) if c not in set(train)]
            place = {cell: i for i, cell in enumerate([*train, *others])}
            graphs.env = torch.tensor([place[cell] for cell in cells])
            graphs.columns["environment"] = cells
        auto = "roc_auc" if len(names) == 2 else "accuracy"
        metric = auto if self.target_metric == "auto" else self.target_metric
        where = {name: [i for i, part in enumerate(rows.part) if part == name] for name in SPLIT_NAMES}
        parts = {name: graphs.subset(members) for name, members in where.items() if members}
        return Splits(parts, Task(len(names), metric, names))


def rejected_rows(splits: Splits) -> list[Rejected]:
    """The rows that were set aside when these splits were built, in the order of the files."""
    log = splits.notes.get("rejected.file")
    return tables.read_rejected(Path(log)) if log else []
