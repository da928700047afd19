"""Every reader of files, with sound files to damage and a function that reads them.

A reader returns what it understood. Where a checksum guards the file (`guarded`), anything but the original
is a silent error; elsewhere the graphs have to be well formed.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import json
import lzma
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from faults import model_readers as models
from faults.commands import write_molecules


@dataclass(frozen=True)
class Reader:
    """`make(folder)` writes sound files, `victims` are those to be damaged, `read(folder)` reads."""

    name: str
    make: Callable[[Path], None]
    victims: tuple[str, ...]  # patterns
    read: Callable[[Path], Any]
    guarded: bool = False


def readers() -> list[Reader]:
    """All of them."""
    table = partial(_dataset, "csv")
    graphs = partial(_dataset, "pyg")
    out = [
        Reader("csv", _table("t.csv"), ("t.csv",), lambda f: table(f, path=str(f / "t.csv"), label="active")),
        Reader(
            "tsv.gz",
            _table("t.tsv.gz"),
            ("t.tsv.gz",),
            lambda f: table(f, path=str(f / "t.tsv.gz"), label="active"),
        ),
        Reader(
            "csv.xz",
            _table("t.csv.xz"),
            ("t.csv.xz",),
            lambda f: table(f, path=str(f / "t.csv.xz"), label="active"),
        ),
        Reader(
            "csv.bz2",
            _table("t.csv.bz2"),
            ("t.csv.bz2",),
            lambda f: table(f, path=str(f / "t.csv.bz2"), label="active"),
        ),
        Reader(
            "smi.gz",
            _table("t.smi.gz"),
            ("t.smi.gz",),
            lambda f: table(f, path=str(f / "t.smi.gz"), label="active"),
        ),
        Reader(
            "parquet", _parquet, ("t.parquet",), lambda f: table(f, path=str(f / "t.parquet"), label="active")
        ),
        Reader("graphs .json", _graphs("g.json"), ("g.json",), lambda f: graphs(f, path=str(f / "g.json"))),
        Reader(
            "graphs .jsonl.gz",
            _graphs("g.jsonl.gz"),
            ("g.jsonl.gz",),
            lambda f: graphs(f, path=str(f / "g.jsonl.gz")),
        ),
        Reader("graphs .pt", _pt, ("g.pt",), lambda f: graphs(f, path=str(f / "g.pt"))),
        Reader(
            "graphs .safetensors",
            _store,
            ("g.safetensors",),
            lambda f: graphs(f, path=str(f / "g.safetensors")),
            True,
        ),
        Reader("ego", _ego, ("nodes.pt", "nodes.npz"), _read_ego),
        Reader("TU", _tu, ("TU/NCI1/raw/*.txt",), _read_tu),
        Reader("TU archive", _tu_zip, ("TU/NCI1/NCI1.zip",), _read_tu),
        Reader("DrugOOD", _drugood, ("DrugOOD/*.json",), lambda f: _dataset("drugood-ec50-assay", f)),
        Reader("idx", _idx, ("images.gz",), _read_idx, True),
        Reader(
            "sentences",
            _sentences,
            ("Graph-SST5/raw/*.txt", "Graph-SST5/raw/*.json"),
            lambda f: _dataset("graph-sst5", f),
        ),
        Reader("pickles", _sentences, ("Graph-SST5/raw/*.pkl",), lambda f: _dataset("graph-sst5", f)),
        Reader(
            "npz", _npz, ("Graph-SST5/raw/*.npz",), lambda f: _dataset("graph-sst5", f, features="minilm")
        ),
        Reader("model folders", models.write_model, ("model/*.json", "model/*.safetensors"), models.predict),
        Reader(
            "weights",
            models.write_model,
            ("model/weights-1.safetensors", "model/shift.safetensors"),
            models.predict,
            True,
        ),
        Reader(
            "mixtures",
            models.write_mixture,
            ("model/model.json", "model/nearest.safetensors", "model/members/*/*"),
            models.predict,
        ),
        Reader("report data", models.write_mixture, ("model/report.json",), models.report),
        Reader(
            "records", _records, ("runs/*/record.json", "runs/*/error.json", "runs/more.jsonl"), _read_records
        ),
        Reader("checkpoints", _checkpoint, ("checkpoint.safetensors",), _read_checkpoint, True),
        Reader("settings", _settings, ("s.toml",), _read_settings),
        Reader("plugins", _plugin, ("mine.py",), _read_plugin),
        Reader("journals", _journal, ("tune.journal",), _read_journal),
        Reader("caches", _cache, ("cache/*/*",), _read_cache, True),
    ]
    return out


# ---------------------------------------------------------------- datasets


def _dataset(name: str, folder: Path, **values: Any) -> Any:
    from ciga.data.dataset import make

    shutil.rmtree(folder / "cache", ignore_errors=True)
    return check(make(name, values).build())


def check(splits: Any) -> str:
    """A fingerprint of graphs that are well formed; an assertion error for those that are not."""
    for part in splits:
        store = splits[part]
        assert bool(store.x.isfinite().all()), f"{part} has features that are not numbers"
        assert store.edge_attr is None or bool(store.edge_attr.isfinite().all()), f"{part}: edge features"
        assert int(store.y.min()) >= 0, f"{part} has a negative class"
        assert int(store.y.max()) < splits.task.classes, f"{part} has a class beyond the last"
        sizes = store.num_nodes.repeat_interleave(store.num_edges)
        assert bool(((store.edge_index >= 0) & (store.edge_index < sizes)).all()), f"{part}: edges lead out"
    names = splits.task.class_names
    assert len(set(names)) == len(names), f"two classes are called the same: {names}"
    return str(splits.fingerprint())


def _table(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        write_molecules(folder / "plain.csv")
        text = (folder / "plain.csv").read_bytes()
        (folder / "plain.csv").unlink()
        text = text.replace(b",", b"\t") if ".tsv" in name else text
        if ".smi" in name:  # the molecule first, and white space between the cells
            cells = [line.split(",") for line in text.decode().splitlines()]
            text = "".join(f"{smiles} {active}\n" for _, smiles, active in cells).encode()
        packed = (
            gzip.compress(text)
            if name.endswith(".gz")
            else lzma.compress(text)
            if name.endswith(".xz")
            else bz2.compress(text)
            if name.endswith(".bz2")
            else text
        )
        (folder / name).write_bytes(packed)

    return make


def _parquet(folder: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    write_molecules(folder / "plain.csv")
    lines = (folder / "plain.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines[1:-1]]
    columns = {
        "smiles": [r[1] for r in rows],
        "active": [int(r[2]) for r in rows],
        "mass": [float(i) for i in range(len(rows))],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "t.parquet")


def _examples() -> list[dict[str, Any]]:
    return [
        {
            "x": [[float(i), 1.0, 0.5 * k] for k in range(4 + i % 3)],
            "edge_index": [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]],
            "edge_attr": [[1.0], [1.0], [0.0], [0.0], [2.0], [2.0]],
            "y": i % 2,
            "name": f"g{i}",
        }
        for i in range(20)
    ]


def _graphs(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        if ".jsonl" in name:
            text = "\n".join(json.dumps(graph) for graph in _examples()) + "\n"
        else:
            text = json.dumps(_examples())
        (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())

    return make


def _pt(folder: Path) -> None:
    from torch_geometric.data import Data

    graphs = [
        Data(
            x=torch.tensor(g["x"]),
            edge_index=torch.tensor(g["edge_index"]),
            edge_attr=torch.tensor(g["edge_attr"]),
            y=torch.tensor([g["y"]]),
        )
        for g in _examples()
    ]
    torch.save(graphs, folder / "g.pt")


def _store(folder: Path) -> None:
    from torch_geometric.data import Data

    from ciga.data import GraphStore

    graphs = [
        Data(x=torch.tensor(g["x"]), edge_index=torch.tensor(g["edge_index"]), y=torch.tensor([g["y"]]))
        for g in _examples()
    ]
    GraphStore.from_pyg(graphs).save(folder / "g.safetensors")


def _ego(folder: Path) -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 30, (2, 90))
    arrays = {"edge_index": edges, "x": rng.random((30, 3)).astype(np.float32), "y": rng.integers(0, 2, 30)}
    np.savez(folder / "nodes.npz", **arrays)
    torch.save({k: torch.from_numpy(v) for k, v in arrays.items()}, folder / "nodes.pt")


def _read_ego(folder: Path) -> Any:
    changed = max((folder / "nodes.pt", folder / "nodes.npz"), key=lambda p: p.stat().st_mtime_ns)
    return _dataset("ego", folder, path=str(changed))


def _tu(folder: Path) -> None:
    raw = folder / "TU" / "NCI1" / "raw"
    raw.mkdir(parents=True)
    sizes = [3 + i % 9 for i in range(60)]
    starts = np.cumsum([0, *sizes])
    edges = [(s + k + 1, s + k + 2) for s, n in zip(starts, sizes, strict=False) for k in range(n - 1)]
    edges += [(b, a) for a, b in edges]
    (raw / "NCI1_A.txt").write_text("".join(f"{a}, {b}\n" for a, b in edges))
    (raw / "NCI1_graph_indicator.txt").write_text("".join(f"{i + 1}\n" * n for i, n in enumerate(sizes)))
    (raw / "NCI1_graph_labels.txt").write_text("".join(f"{i % 2}\n" for i in range(60)))
    (raw / "NCI1_node_labels.txt").write_text("".join(f"{k % 4}\n" for n in sizes for k in range(n)))


def _tu_zip(folder: Path) -> None:
    _tu(folder)
    shutil.make_archive(str(folder / "NCI1"), "zip", folder / "TU", "NCI1")
    import zipfile

    with zipfile.ZipFile(folder / "TU" / "NCI1" / "NCI1.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((folder / "TU" / "NCI1" / "raw").iterdir()):
            archive.write(file, f"NCI1/{file.name}")
    (folder / "NCI1.zip").unlink()
    shutil.rmtree(folder / "TU" / "NCI1" / "raw")


def _read_tu(folder: Path) -> Any:
    from ciga.data.datasets import tu

    tu.digest_of = lambda numbers: tu.NCI1.content  # the checksum would hide what lies behind it
    archive = folder / "TU" / "NCI1" / "NCI1.zip"
    if archive.exists():
        shutil.rmtree(archive.parent / "raw", ignore_errors=True)
    return _dataset("nci1", folder)


def _drugood(folder: Path) -> None:
    (folder / "DrugOOD").mkdir()
    tails = ["C", "N", "O", "CC", "CN", "CO", "F", "Cl"]
    entries = [
        {
            "smiles": f"c1ccccc1{t}",
            "cls_label": i % 2,
            "reg_label": 1.5 * i,
            "assay_id": i % 3,
            "domain_id": i % 4,
        }
        for i, t in enumerate(tails)
    ]
    names = ("train", "ood_val", "ood_test", "iid_val", "iid_test")
    body = {"cfg": {}, "split": dict.fromkeys(names, entries)}
    for measure in ("ec50_assay",):
        (folder / "DrugOOD" / f"lbap_core_{measure}.json").write_text(json.dumps(body))


def _idx(folder: Path) -> None:
    head = b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (10, 28, 28))
    (folder / "images.gz").write_bytes(gzip.compress(head + bytes(range(256)) * 30 + bytes(160)))


def _read_idx(folder: Path) -> Any:
    from ciga.data.datasets.cmnist import read_idx

    head = b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (10, 28, 28))
    known = hashlib.sha256(head + bytes(range(256)) * 30 + bytes(160)).hexdigest()
    return read_idx(folder / "images.gz", known, (10, 28, 28)).sum().item()


def _sentences(folder: Path, features: str = "pkl") -> None:
    raw = folder / "Graph-SST5" / "raw"
    raw.mkdir(parents=True)
    sizes = [4 + g % 7 for g in range(40)]
    starts = np.cumsum([0, *sizes])
    stem = str(raw / "Graph-SST5_")
    nodes = int(starts[-1])
    edges = [(s + k, s + k + 1) for s, n in zip(starts, sizes, strict=False) for k in range(n - 1)]
    Path(stem + "edge_index.txt").write_text("".join(f"{a} {b}\n" for a, b in edges))
    Path(stem + "node_indicator.txt").write_text("".join(f"{g + 1}\n" * n for g, n in enumerate(sizes)))
    Path(stem + "graph_labels.txt").write_text("".join(f"{g % 5}\n" for g in range(40)))
    Path(stem + "split_indices.txt").write_text("".join(f"{g % 3}\n" for g in range(40)))
    words = {str(g): ["a", "b", "c"] for g in range(40)}
    Path(stem + "sentence_tokens.json").write_text(json.dumps(words))
    x = np.arange(nodes * 4, dtype=np.float32).reshape(nodes, 4)
    if features == "pkl":
        import pickle

        Path(stem + "node_features.pkl").write_bytes(pickle.dumps(x, protocol=4))
    else:
        np.savez_compressed(
            stem + "node_features_minilm128_q8.npz", q=x.astype(np.int8), scale=np.ones(4, np.float32)
        )


def _npz(folder: Path) -> None:
    _sentences(folder, "npz")
    from ciga.data.datasets import sentiment

    made = next((folder / "Graph-SST5" / "raw").glob("*.npz"))
    made.rename(made.with_name(f"Graph-SST5_{sentiment.MINILM}"))


# ---------------------------------------------------------------- what ciga writes itself


def _records(folder: Path) -> None:
    from ciga.runs.plan import execute, plan

    given = {"train_per_class": 4, "val_per_class": 2, "test_per_class": 2}
    short = {"layers": 1, "width": 4, "epochs": 1}
    for seed in (1, 2):
        execute(plan("spmotif-struc", "erm", seed=seed, data=given, settings=short), folder / "runs")
    first, second = sorted((folder / "runs").glob("*/record.json"))
    (folder / "runs" / "more.jsonl").write_text(json.dumps(json.loads(first.read_text())) + "\n")
    shutil.rmtree(first.parent)
    (second.parent / "error.json").write_text(json.dumps({"error": "it failed", "time": "2026-01-01"}))


def _read_records(folder: Path) -> Any:
    from ciga.cli import main

    codes = []
    name = next((folder / "runs").glob("*/record.json")).parent.name
    where = ["--runs-dir", str(folder / "runs")]
    for words in (
        ["runs"],
        ["runs", "--failed"],
        ["runs", "show", name],
        ["runs", "compare", name, name],
        ["runs", "export", str(folder / "out.csv")],
    ):
        codes.append(_in_process(main, [*words, *where]))
    return codes


def _in_process(main: Callable[[], None], words: list[str]) -> int:
    import contextlib
    import io
    import sys

    sys.argv = ["ciga", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


def _checkpoint(folder: Path) -> None:
    from ciga.runs.settings import resolve
    from ciga.training.loop import fit
    from tests.small_models import toy_splits

    chosen = resolve("ciga-v2", {"layers": 1, "width": 4, "epochs": 2}, preset="none")

    class Stop(Exception):
        """After the first epoch."""

    def stop(row: dict[str, Any], epochs: int) -> None:
        if row["epoch"] == 1:
            raise Stop

    with contextlib.suppress(Stop):
        fit(
            chosen.method,
            toy_splits(),
            backbone=chosen.backbone,
            training=chosen.training,
            folder=folder,
            device="cpu",
            on_epoch=stop,
        )
    assert (folder / "checkpoint.safetensors").is_file()


def _read_checkpoint(folder: Path) -> Any:
    from ciga.runs.settings import resolve
    from ciga.training.loop import fit
    from tests.small_models import toy_splits

    chosen = resolve("ciga-v2", {"layers": 1, "width": 4, "epochs": 2}, preset="none")
    found = fit(
        chosen.method,
        toy_splits(),
        backbone=chosen.backbone,
        training=chosen.training,
        folder=folder,
        device="cpu",
    )
    return [{k: v for k, v in row.items() if k != "seconds"} for row in found.history]


def _settings(folder: Path) -> None:
    (folder / "s.toml").write_text(
        'layers = 2\nwidth = 16\nlr = 0.003\nepochs = 7\nreadout = "mean"\nbalanced = true\n'
    )


def _read_settings(folder: Path) -> Any:
    from ciga.runs.settings import read_settings, resolve

    return len(resolve("ciga-v2", read_settings(folder / "s.toml"), dataset="spmotif-struc").flat())


PLUGIN = '''
from dataclasses import dataclass
from ciga.methods.base import Method, register
from ciga.options import tunable

@register("mine")
@dataclass
class Mine(Method):
    """Mine."""
    summary = "mine"
    strength: float = tunable(1.0, [1.0, 2.0], low=0.0)
    def loss(self, network, batch, step):
        return {"risk": network(batch).square().mean()}
'''


def _plugin(folder: Path) -> None:
    (folder / "mine.py").write_text(PLUGIN)


def _read_plugin(folder: Path) -> Any:
    from ciga.methods.base import methods
    from ciga.registry import load_plugin

    known = {name: methods[name] for name in methods}
    try:
        load_plugin(folder / "mine.py")
    finally:
        methods._members.clear()
        methods._members.update(known)


def _journal(folder: Path) -> None:
    from ciga.runs.tune import tune

    tune(_task(), folder / "tune.journal", 2, folder / "runs", workers=1, device="cpu")


def _task() -> Any:
    from ciga.runs.tune import Search

    given = {"train_per_class": 4, "val_per_class": 2, "test_per_class": 2}
    short = {"layers": 1, "width": 4, "epochs": 1}
    return Search(
        "spmotif-struc", "erm", over={"lr": (0.001, 0.01)}, data=given, settings=short, preset="none"
    )


def _read_journal(folder: Path) -> Any:
    from ciga.runs.tune import tune

    tune(_task(), folder / "tune.journal", 2, folder / "runs", workers=1, device="cpu")


def _cache(folder: Path) -> None:
    write_molecules(folder / "mols.csv")
    _build_cache(folder)


def _build_cache(folder: Path) -> Any:
    import os

    from ciga.data.dataset import make

    os.environ["CIGA_CACHE"] = str(folder / "cache")
    return make("csv", {"path": str(folder / "mols.csv"), "label": "active"}).build()


def _read_cache(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(_build_cache(folder))
