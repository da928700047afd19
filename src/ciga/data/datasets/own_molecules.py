"""One's own molecules: a table with a column of SMILES and a column of labels.

What a row may lack is listed in `docs/molecules.md`. Rows that cannot be used are written to a file and
counted in the notes of the splits; `rejected_rows(splits)` gives them back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from ciga import options
from ciga.data.cache import cache_folder, cached
from ciga.data.dataset import Dataset, register
from ciga.data.reading import chem, cleaning, split_rules, tables
from ciga.data.reading import featurise as molecules
from ciga.data.reading.cleaning import Rows, canonical, names_of, number
from ciga.data.reading.split_rules import Parts
from ciga.data.reading.tables import Rejected
from ciga.errors import CigaError, UsageError
from ciga.graphs.splits import SPLIT_NAMES, Splits, Task
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress, silent

RULES = ("scaffold", "size", "degree", "random", "order", "column", "files")
METRICS = ("auto", "accuracy", "roc_auc", "mcc")
VERSION = 1


@register("csv")
@dataclass
class SmilesTable(Dataset):
    """Molecules in a CSV, TSV or Parquet file (also .gz, .xz, .bz2)."""

    path: str = tunable("", help="the file")
    smiles: str = tunable("smiles", help="the column of SMILES")
    label: str = tunable("label", help="the column of classes")
    env: str | None = tunable(None, help="the column of environments (assay, laboratory, …)")
    split: str = tunable(
        "auto",
        help="scaffold, size, degree, random, order (or order:COLUMN), column (or column:COLUMN); "
        "auto: what the other options say, else scaffold",
    )
    order_column: str | None = tunable(None, help="split=order: low values train, high ones test (a date, …)")
    split_column: str | None = tunable(None, help="split=column: the column that says train, val or test")
    val_path: str | None = tunable(None, help="a second file, for validation")
    test_path: str | None = tunable(None, help="a further file, for testing")
    fractions: tuple[float, ...] = tunable((0.8, 0.1, 0.1), help="shares of train, validation and test")
    id_val: float = tunable(
        0.0, help="share of the training rows held out at random as id_val", low=0, high=0.9
    )
    descending: bool = tunable(False, help="size, degree, order: train on the high values instead")
    threshold: float | None = tunable(None, help="labels are numbers: class 1 from this value on, else 0")
    target_metric: str = tunable("auto", choices=METRICS, help="auto: roc_auc for two classes, else accuracy")
    seed: int = tunable(0, low=0, help="of the random choices in splitting")
    strict: bool = tunable(False, help="stop at the first bad row instead of setting it aside")

    summary: ClassVar[str] = "your own molecules: a table with SMILES and labels"
    shift: ClassVar[str] = "as you split it"

    def missing_files(self) -> list[str]:
        if not self.path:
            return ["a file of your own (path=FILE)"]
        return [path for path in self._files().values() if not Path(path).is_file()]

    def build(self, progress: Progress = silent) -> Splits:
        if not self.path:
            raise UsageError("The dataset csv needs a file: path=FILE.csv smiles=COLUMN label=COLUMN.")
        for path in self._files().values():
            if not Path(path).is_file():
                raise UsageError(f"There is no file {path}.")
        sources = [Path(path) for path in self._files().values()]
        key = {**options.as_dict(self), "version": [VERSION, molecules.VERSION], "rdkit": chem.version()}
        log = cache_folder("csv", key, sources).with_suffix(".rejected.csv")
        splits = cached("csv", key, sources, lambda: self._make(log, progress))
        if "rejected.file" in splits.notes and not Path(splits.notes["rejected.file"]).is_file():
            splits = cached("csv", key, sources, lambda: self._make(log, progress), refresh=True)
        return splits

    def _files(self) -> dict[str, str]:
        """Part -> file; the part of the main file is empty, a rule cuts it."""
        files = {"": self.path, "ood_val": self.val_path, "ood_test": self.test_path}
        return {part: str(Path(path).expanduser()) for part, path in files.items() if path}

    def _rule(self) -> tuple[str, str | None]:
        """The split rule, and the column it looks at."""
        rule, _, column = self.split.partition(":")
        if rule == "auto":
            both = self.val_path and self.test_path
            given = {"column": self.split_column, "order": self.order_column, "files": both}
            rule = next((name for name, value in given.items() if value), "scaffold")
        if rule not in RULES:
            raise UsageError(
                f"split={self.split} is none of {', '.join(RULES)}. For a column: split=order:{self.split} "
                f"(low values are for training) or split=column:{self.split} (it says train, val or test)."
            )
        if self.val_path and self.test_path and rule not in ("files", "column"):
            raise UsageError("val_path and test_path make the parts already: leave split out.")
        if rule == "files" and not (self.val_path and self.test_path):
            raise UsageError("split=files needs val_path and test_path.")
        if rule not in ("order", "column"):
            return rule, None
        column = column or (self.order_column if rule == "order" else self.split_column) or ""
        if not column:
            raise UsageError(f"split={rule} needs {rule if rule == 'order' else 'split'}_column=COLUMN.")
        return rule, column

    def _make(self, log: Path, progress: Progress) -> Splits:
        rule, column = self._rule()
        split_rules.check_fractions(self.fractions)
        rows = self._read(column)
        try:
            splits = self._use(rows, rule, column, progress)
        except CigaError:
            self._stop_if_strict(rows)  # a bad row may well be the cause
            raise
        self._stop_if_strict(rows)
        notes = {"split": f"{rule} {column}" if column else rule}
        if rows.rejected:
            notes["rejected"] = tables.summary(rows.listed())
            with contextlib.suppress(OSError):  # where nothing can be written there is no cache either
                tables.write_rejected(log, rows.listed())
                notes["rejected.file"] = str(log)
        return Splits(splits.parts, splits.task, notes)

    def _stop_if_strict(self, rows: Rows) -> None:
        if self.strict and rows.rejected:
            raise CigaError(f"{rows.listed()[0]}. Correct the row, or leave strict off to set it aside.")

    def _use(self, rows: Rows, rule: str, column: str | None, progress: Progress) -> Splits:
        """Graphs of the rows that can be used, in their parts."""
        cleaning.drop_empty(rows, column)
        cleaning.clean_labels(rows, self.label, self.threshold)
        if rule == "column":
            cleaning.clean_split_names(rows)
        elif rule == "order":
            cleaning.clean_order(rows, str(column))
        graphs, _, errors = molecules.featurise(rows.cells["smiles"], progress)
        rows.drop({e.row: (e.reason, e.smiles, e.detail) for e in errors})
        self._assign(rows, rule, graphs, progress)
        return self._splits(rows, graphs.subset(cleaning.drop_unseen(rows)))

    def _read(self, column: str | None) -> Rows:
        """The cells of all files by role."""
        roles = {"smiles": self.smiles, "label": self.label, "env": self.env, "key": column}
        wanted = {role: name for role, name in roles.items() if name}
        rows = Rows({role: [] for role in wanted}, files=list(self._files().values()))
        for part, path in self._files().items():
            mine = {role: name for role, name in wanted.items() if role != "key" or not part}
            table = tables.read_table(path, list(mine.values()))
            for role in wanted:
                rows.cells[role] += table.values[mine[role]] if role in mine else ["-"] * len(table)
            rows.at += [(path, line) for line in table.rows]
            rows.part += [part] * len(table)
            rows.rejected += table.rejected
        return rows

    def _assign(self, rows: Rows, rule: str, graphs: GraphStore, progress: Progress) -> None:
        """Fill in `rows.part` where the file does not say it."""
        cut = np.array(rows.open, dtype=np.int64)
        labels = [rows.cells["label"][i] for i in cut]
        parts = self._cut(rule, rows, cut, labels, graphs, progress)
        if "train" not in parts:
            raise CigaError("No row is for training: name some 'train' in the split column.")
        for name, members in split_rules.hold_out(parts, self.id_val, self.seed, labels).items():
            for i in cut[members]:
                rows.part[i] = name

    def _cut(
        self, rule: str, rows: Rows, cut: Any, labels: Sequence[str], graphs: GraphStore, progress: Progress
    ) -> Parts:
        """The parts of the rows `cut`, numbered within it."""
        train, val, test = split_rules.check_fractions(self.fractions)
        shares = np.array([train, 0 if self.val_path else val, 0 if self.test_path else test])
        shares = (shares / shares.sum()).tolist()
        nodes, edges = graphs.num_nodes[torch.from_numpy(cut)], graphs.num_edges[torch.from_numpy(cut)]
        keys = [rows.cells["key"][i] for i in cut] if "key" in rows.cells else []
        smiles = [rows.cells["smiles"][i] for i in cut]
        numbers = [number(key) for key in keys]
        rules: dict[str, Callable[[], Parts]] = {
            "scaffold": lambda: split_rules.by_scaffold(smiles, shares, self.seed, progress),
            "size": lambda: split_rules.by_size(nodes, shares, self.descending),
            "degree": lambda: split_rules.by_degree(nodes, edges, shares, self.descending),
            "random": lambda: split_rules.by_random(len(cut), shares, self.seed, labels),
            "order": lambda: split_rules.by_order(
                keys if None in numbers else numbers, shares, self.descending
            ),
            "column": lambda: split_rules.by_column(keys)[0],
            "files": lambda: {"train": np.arange(len(cut))},
        }
        return rules[rule]()

    def _splits(self, rows: Rows, graphs: GraphStore) -> Splits:
        names = names_of(rows.cells["label"])
        graphs.y = torch.tensor([names.index(label) for label in rows.cells["label"]])
        graphs.columns["row"] = torch.tensor([line for _, line in rows.at])
        if len(self._files()) > 1:
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
