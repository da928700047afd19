"""Your own graphs: a file of graphs, or a folder with one file for each part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from ciga.data.cache import file_hash
from ciga.data.dataset import datasets, register
from ciga.data.datasets.own_data import OwnData
from ciga.data.reading.cleaning import Rows
from ciga.data.reading.graph_files import is_graph_file, read_graphs
from ciga.errors import UsageError, unknown
from ciga.graphs.columns import Column
from ciga.graphs.splits import SPLIT_NAMES
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress

VERSION = 2


@register("graphs")
@dataclass
class OwnGraphs(OwnData):
    """Graphs from a file (see `ciga.data.reading.graph_files`), or a folder with one file for each part."""

    path: str = tunable("", help="file of graphs, or a folder with train.*, ood_val.*, ood_test.* …")
    label: str = tunable("y", help="the value of a graph that is its class")
    env: str | None = tunable("env", help="the value that is its environment; 'env' need not be there")
    split: str = tunable(
        "size", help="size, degree, random, order:NAME, time:NAME, group:NAME or column:NAME of a value"
    )
    order_column: str | None = tunable("", help="split=order: low values to train, high ones to test")
    split_column: str | None = tunable("split", help="split=column: the value that says train, val or test")

    summary: ClassVar[str] = "your own graphs: PyG .pt, JSON or safetensors"
    example: ClassVar[str] = "path=FILE (or a folder with one file for each part)"

    def identity(self) -> dict[str, str]:
        return {path.name: file_hash(path) for path in self.files().values() if path.is_file()}

    def files(self) -> dict[str, Path]:
        if not self.path:
            return {}
        path = Path(self.path).expanduser()
        if not path.is_dir():
            return {"": path}
        found = {p.name.split(".")[0]: p for p in sorted(path.iterdir()) if is_graph_file(p)}
        parts = {name: found[name] for name in SPLIT_NAMES if name in found}
        if "train" not in parts:
            raise UsageError(f"{path} has no train.safetensors, train.jsonl or the like: name the file.")
        return parts

    def versions(self) -> list[Any]:
        return [VERSION]

    def rule(self) -> tuple[str, str | None]:
        rule, name = super().rule()
        return ("files", None) if self.path and "" not in self.files() else (rule, name)

    def read(self, column: str | None, notes: dict[str, str]) -> Rows:
        """The graphs of all files, and the text of the values that cleaning looks at."""
        files = self.files()
        read = {part: read_graphs(path, self.strict) for part, path in files.items()}
        names = dict.fromkeys(name for file in read.values() for name in file.values)
        values = {k: [v for f in read.values() for v in f.values.get(k, [None] * len(f.rows))] for k in names}
        roles = {"label": self.label, "env": self.env, "key": column}
        if self.env == "env" and None in values.get("env", [None]):
            del roles["env"]
        for name in roles.values():
            if name and name not in values:
                raise unknown(f"value in {self.path}", name, values)
        store = GraphStore.concat([file.store for file in read.values()])
        others = {name: column for name, column in values.items() if name not in (self.label, self.env)}
        store.columns = {name: _column(column) for name, column in others.items() if None not in column}
        return Rows(
            {role: [_text(v) for v in values[name]] for role, name in roles.items() if name},
            [(str(files[part]), row) for part, file in read.items() for row in file.rows],
            [part for part, file in read.items() for _ in file.rows],
            [bad for file in read.values() for bad in file.rejected],
            [str(path) for path in files.values()],
            graphs=store,
        )

    def graphs(self, rows: Rows, progress: Progress) -> GraphStore:
        assert rows.graphs is not None
        return rows.graphs


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _column(values: list[Any]) -> Column:
    """Whole numbers, numbers or texts, whichever all values are; one too large for 64 bits is a text."""
    if all(isinstance(v, (bool, int)) and abs(v) < 1 << 63 for v in values):
        return torch.tensor(values, dtype=torch.long)
    if all(isinstance(v, float) or (isinstance(v, (bool, int)) and abs(v) < 1 << 53) for v in values):
        return torch.tensor(values, dtype=torch.double)
    return [str(v) for v in values]


datasets.alias("pyg", "graphs")
