"""Your own molecules: a table with a column of SMILES and a column of labels.

What a row may lack is listed in `docs/molecules.md`. Rows that cannot be used are written to a file and
counted in the notes of the splits; `rejected_rows(splits)` gives them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ciga.data.cache import file_hash
from ciga.data.dataset import datasets, register
from ciga.data.datasets.own_data import COLUMN_RULES, OwnData
from ciga.data.datasets.own_data import rejected_rows as rejected_rows
from ciga.data.reading import chem, similarity, split_rules, tables
from ciga.data.reading import featurise as molecules
from ciga.data.reading.cleaning import Rows
from ciga.data.reading.smiles_column import find_smiles_column
from ciga.data.reading.split_rules import Parts
from ciga.errors import UsageError
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress

VERSION = 2


@register("molecules")
@dataclass
class OwnMolecules(OwnData):
    """Molecules in a CSV, TSV, Parquet or .smi file (also .gz, .xz, .bz2)."""

    smiles: str = tunable("smiles", help="the column of SMILES; found if there is one obvious one")
    split: str = tunable(
        "auto",
        help="scaffold, cluster, similarity, size, degree, random, order:COLUMN, time:COLUMN, group:COLUMN, "
        "column:COLUMN; auto: what the other options say, else scaffold",
    )
    val_path: str | None = tunable(None, help="a second file, for validation")
    test_path: str | None = tunable(None, help="a further file, for testing")
    tanimoto: float = tunable(
        0.4, low=0.05, high=1, help="cluster: how alike its members are; similarity: parts are less alike"
    )

    summary: ClassVar[str] = "your own molecules: a table with SMILES and labels"
    rules: ClassVar[tuple[str, ...]] = (
        "scaffold", "cluster", "similarity", "size", "degree", "random", *COLUMN_RULES, "files",
    )  # fmt: skip
    example: ClassVar[str] = "path=FILE.csv smiles=COLUMN label=COLUMN"

    def identity(self) -> dict[str, str]:
        # By part, not by name: files of two folders may share one.
        return {part or "path": file_hash(path) for part, path in self.files().items() if path.is_file()}

    def files(self) -> dict[str, Path]:
        files = {"": self.path, "ood_val": self.val_path, "ood_test": self.test_path}
        return {part: Path(path).expanduser() for part, path in files.items() if path}

    def versions(self) -> list[Any]:
        return [VERSION, molecules.VERSION, chem.version()]

    def rule(self) -> tuple[str, str | None]:
        if self.split.partition(":")[0] != "auto":
            rule, after = super().rule()
        else:
            both = self.val_path and self.test_path
            given = {"column": self.split_column, "order": self.order_column, "files": both}
            rule = next((name for name, value in given.items() if value), "scaffold")
            after = {"column": self.split_column, "order": self.order_column}.get(rule)
        if self.val_path and self.test_path and rule not in ("files", "column"):
            raise UsageError("val_path and test_path make the parts already: leave split out.")
        if rule == "files" and not (self.val_path and self.test_path):
            raise UsageError("split=files needs val_path and test_path.")
        self._tanimoto(rule, after)
        return rule, after

    def _tanimoto(self, rule: str, after: str | None) -> float:
        """The similarity that the rule goes by: `split=similarity:0.5`, or the option."""
        if rule not in ("cluster", "similarity") or after is None:
            return self.tanimoto
        try:
            value = float(after)
        except ValueError:
            value = float("nan")
        if not 0.05 <= value <= 1:
            raise UsageError(f"split={self.split}: after the colon stands a similarity from 0.05 to 1.")
        return value

    def read(self, column: str | None, notes: dict[str, str]) -> Rows:
        """The cells of all files by role."""
        files = self.files()
        smiles = find_smiles_column(files[""], self.smiles, notes) if "" in files else self.smiles
        roles = {"smiles": smiles, "label": self.label, "env": self.env, "key": column}
        wanted = {role: name for role, name in roles.items() if name}
        rows = Rows({role: [] for role in wanted}, files=[str(path) for path in files.values()])
        for part, path in files.items():
            mine = {role: name for role, name in wanted.items() if role != "key" or not part}
            table = tables.read_table(path, list(mine.values()))
            for role in wanted:
                rows.cells[role] += table.values[mine[role]] if role in mine else ["-"] * len(table)
            rows.at += [(str(path), line) for line in table.rows]
            rows.part += [part] * len(table)
            rows.rejected += table.rejected
        return rows

    def graphs(self, rows: Rows, progress: Progress) -> GraphStore:
        graphs, _, errors = molecules.featurise(rows.cells["smiles"], progress)
        rows.drop({e.row: (e.reason, e.smiles, e.detail) for e in errors})
        return graphs

    def more_rules(
        self, rows: Rows, cut: NDArray[np.int64], shares: Sequence[float], progress: Progress
    ) -> dict[str, Callable[[], Parts]]:
        smiles = [rows.cells["smiles"][i] for i in cut]
        least = self._tanimoto(*self.rule())
        return {
            "scaffold": lambda: split_rules.by_scaffold(smiles, shares, self.seed, progress),
            "cluster": lambda: split_rules.by_cluster(smiles, shares, least, self.seed, progress),
            "similarity": lambda: split_rules.by_similarity(smiles, shares, least, self.seed, progress),
        }

    def describe(self, splits: Splits, notes: dict[str, str], progress: Progress) -> None:
        found = similarity.to_training(splits, progress)
        for part in ("ood_test", "id_test", "ood_val", "id_val"):
            if part in found:
                notes["similarity"] = similarity.described(found[part], part)
                break


datasets.alias("csv", "molecules")
