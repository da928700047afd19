"""TU datasets under a size shift: train on the smaller half, test on the largest tenth.

| name     | train | id_val | ood_test | node labels | nodes  | directed edges |
|----------|-------|--------|----------|-------------|--------|----------------|
| nci1     | 1,942 | 215    | 412      | 37          | 29.87  | 64.60          |
| nci109   | 1,872 | 207    | 421      | 38          | 29.68  | 64.26          |
| proteins | 511   | 56     | 112      | 3           | 39.06  | 145.63         |
| dd       | 533   | 59     | 118      | 89          | 284.32 | 1,431.32       |

Nodes and edges are means over all graphs of the original dataset, as in the paper's table.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from ciga import options
from ciga.data.cache import cached, download, find_raw
from ciga.data.dataset import Dataset, data_home, register
from ciga.data.reading import limits
from ciga.data.reading.text_graphs import digest_of, read_numbers, store_of, whole
from ciga.errors import CigaError, UsageError
from ciga.files import atomic
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress, silent

URL = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"
SOURCE = "the TUDataset collection (chrsmrrs.github.io/datasets)"
FILES = ("A", "graph_indicator", "graph_labels", "node_labels")
VERSION = 1
#: What unpacking raises where an archive is damaged, encrypted, or packed in a way of its own.
DAMAGE = (zipfile.BadZipFile, zlib.error, LookupError, OSError, EOFError, ValueError, RuntimeError)


@dataclass
class TU(Dataset):
    """Base of the four: fields are the options, class variables say which files."""

    split_seed: int = tunable(0, low=0, help="which tenth of the small graphs is the validation set")
    ood_val: float = tunable(
        0.0, low=0.0, high=0.9, help="share of the training graphs, the largest, held out as ood_val"
    )

    shift: ClassVar[str] = "graph size"
    classes: ClassVar[int] = 2
    metric: ClassVar[str] = "mcc"
    original: ClassVar[str] = ""
    #: Of the numbers in the four files, edges sorted (copies of the files differ in their order and spacing).
    content: ClassVar[str] = ""

    def _paths(self) -> dict[str, str]:
        return {file: f"TU/{self.original}/raw/{self.original}_{file}.txt" for file in FILES}

    def missing_files(self) -> list[str]:
        return [path for path in self._paths().values() if find_raw(path) is None]

    def build(self, progress: Progress = silent) -> Splits:
        if self.missing_files():
            self._fetch()
        folder = data_home() / f"TU/{self.original}/raw"
        sources = [data_home() / path for path in self._paths().values()]
        key = {"version": VERSION, **options.as_dict(self)}
        return cached(self.name, key, sources, lambda: self._split(folder))

    def _fetch(self) -> None:
        """Download the archive and unpack the four files."""
        folder = data_home() / f"TU/{self.original}/raw"
        archive = folder.parent / f"{self.original}.zip"
        wanted = [Path(path).name for path in self._paths().values()]
        by_hand = f"get {self.original}.zip from {SOURCE} and put its files {', '.join(wanted)} into {folder}"
        if not archive.is_file():
            download(URL.format(name=self.original), archive, None, by_hand)
        try:
            with zipfile.ZipFile(archive) as unpack:
                contents = {name: unpack.read(f"{self.original}/{name}") for name in wanted}
        except DAMAGE as error:
            raise CigaError(f"{archive} cannot be unpacked ({error}): delete it and {by_hand}.") from error
        for name, content in contents.items():
            with atomic(folder / name) as temporary:
                temporary.write_bytes(content)

    def read(self, folder: Path) -> tuple[GraphStore, tuple[str, ...]]:
        """All graphs of the files in `folder`, and the names of the classes."""
        paths = {file: folder / f"{self.original}_{file}.txt" for file in FILES}
        numbers = {file: read_numbers(path, 2 if file == "A" else 1) for file, path in paths.items()}
        edges = numbers["A"]
        numbers["A"] = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
        if digest_of(numbers) != self.content:
            raise CigaError(
                f"The files in {folder} do not hold {self.original} as published (cut short or altered): "
                f"delete them and get them again from {SOURCE}."
            )
        names, y = np.unique(numbers["graph_labels"], return_inverse=True)
        labels = torch.from_numpy(numbers["node_labels"] - numbers["node_labels"].min())
        limits.check(paths["node_labels"], 12 * labels.numel() * (int(labels.max()) + 1))
        x = torch.nn.functional.one_hot(labels).float()
        store = store_of(numbers["A"] - 1, numbers["graph_indicator"] - 1, x, y, folder)
        store.columns["original_index"] = torch.arange(store.num_graphs)
        return store, tuple(map(str, names.tolist()))

    def _split(self, folder: Path) -> Splits:
        store, names = self.read(folder)
        sizes = store.num_nodes.numpy()
        small = np.flatnonzero(sizes <= np.percentile(sizes, 50))
        large = np.flatnonzero(sizes >= np.percentile(sizes, 90))
        held_out = np.random.default_rng(self.split_seed).permutation(small)[: int(0.1 * len(small))]
        train = np.setdiff1d(small, held_out)
        rows = {"train": train, "id_val": np.sort(held_out), "ood_test": large}
        if self.ood_val:
            # A threshold, not a number of graphs: graphs of one size stay on one side of it.
            largest = sizes[train] > np.percentile(sizes[train], 100 * (1 - self.ood_val))
            if not largest.any():
                raise UsageError(
                    f"ood_val={self.ood_val} holds out no graph of {self.name}: use a larger share."
                )
            rows |= {"train": train[~largest], "ood_val": train[largest]}
        notes = {
            "validation": "in distribution: a tenth of the small graphs (the paper's own choice is lost)",
            "left out": f"{len(sizes) - len(small) - len(large)} graphs of the sizes between",
            **whole(store),
        }
        parts = {part: store.subset(torch.from_numpy(index)) for part, index in rows.items()}
        return Splits(parts, Task(self.classes, self.metric, names), notes)


@register("nci1")
@dataclass
class NCI1(TU):
    """4,110 compounds screened against lung cancer cells."""

    summary: ClassVar[str] = "compounds active against lung cancer cells; small -> large"
    original: ClassVar[str] = "NCI1"
    content: ClassVar[str] = "678d8a92e1f72d00afa35329efd3239a39fbdc60d9abc7ce04463e735ab2a07a"


@register("nci109")
@dataclass
class NCI109(TU):
    """4,127 compounds screened against ovarian cancer cells."""

    summary: ClassVar[str] = "compounds active against ovarian cancer cells; small -> large"
    original: ClassVar[str] = "NCI109"
    content: ClassVar[str] = "6fb93a57617dbf7a386224a2ae0ffa338c69b175788ddd795f100f0438fae427"


@register("proteins")
@dataclass
class Proteins(TU):
    """1,113 proteins, nodes are secondary structure elements."""

    summary: ClassVar[str] = "proteins: enzyme or not, from secondary structure; small -> large"
    original: ClassVar[str] = "PROTEINS"
    content: ClassVar[str] = "0ab82fc4a20fa0e81319e581cba4631a5c55c2f514b91c2677ad0c8e5ae202ca"


@register("dd")
@dataclass
class DD(TU):
    """1,178 proteins, nodes are amino acids."""

    summary: ClassVar[str] = "proteins: enzyme or not, from amino acids; small -> large"
    original: ClassVar[str] = "DD"
    content: ClassVar[str] = "8c30bbf895a5bcb479e2697444eca3aa8f8a5a9fc5920ed8540dbc1c2cb46a53"
