"""What importing costs and offers: `import ciga` is light, heavy extras wait until they are used."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ciga
import ciga.data
from tests.helpers import in_own_process

#: Optional packages, none of which the library may import before it needs them.
EXTRAS = {
    "rdkit", "skimage", "grakel", "igraph", "pandas", "pyarrow", "matplotlib", "optuna", "distributed",
    "jinja2",
    "onnx", "onnxruntime", "pytorch_metric_learning",
}  # fmt: skip


def loaded_by(code: str, before: str = "") -> set[str]:
    """Which packages this code loads in a fresh interpreter that has run `before`."""
    packages = "{m.partition('.')[0] for m in sys.modules}"
    script = f"import sys\n{before}\nthere = {packages}\n{code}\nprint(*sorted({packages} - there))"
    _, environment = in_own_process()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_ciga_is_light() -> None:
    loaded = loaded_by("import ciga")
    assert "ciga" in loaded
    assert not loaded & {"torch", "numpy", "sklearn", "torch_geometric", "typer", "rich", *EXTRAS}


def test_records_are_read_without_torch() -> None:
    loaded = loaded_by("import ciga.runs.records, ciga.cli\nciga.cli.app(['runs'], standalone_mode=False)")
    assert "ciga" in loaded
    assert not loaded & {"torch", "numpy", "torch_geometric", *EXTRAS}


def test_a_damaged_file_of_graphs_is_refused_without_torch(tmp_path: Path) -> None:
    """The sentence does not wait for seconds of imports."""
    (tmp_path / "deep.json").write_text("[" * 100_000)
    packed = gzip.compress(b'{"num_nodes": 2, "edges": [[0, 1]], "y": 1}\n' * 500)
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    for file in ("deep.json", "cut.jsonl.gz"):
        for words in (["data", "check", file], ["fit", file, "--out", "model"]):
            words = [str(tmp_path / word) if word in (file, "model") else word for word in words]
            loaded = loaded_by(
                "import ciga.cli\nfrom ciga.errors import CigaError\n"
                f"try:\n    ciga.cli.app({words!r}, standalone_mode=False)\n"
                "except CigaError as error:\n    assert 'is not JSON, or is cut short' in str(error)\n"
                "else:\n    raise SystemExit('not refused')"
            )
            assert "ciga" in loaded
            assert not loaded & {"torch", "numpy", "torch_geometric", *EXTRAS}


def test_json_graphs_are_read_without_pyg(tmp_path: Path) -> None:
    file = tmp_path / "g.json"
    file.write_text(json.dumps([{"x": [[1.0], [2.0]], "edges": [[0, 1]]}, {"num_nodes": 2, "edges": []}]))
    loaded = loaded_by(
        "from pathlib import Path\nfrom ciga.data.reading.graph_files import read_graphs\n"
        f"found = read_graphs(Path({str(file)!r}))\n"
        "assert found.store.edge_index.tolist() == [[0, 1], [1, 0]]\n"
        "assert found.rejected[0].reason == 'wrong number of features'"
    )
    assert "torch" in loaded
    assert "torch_geometric" not in loaded


def test_every_method_and_dataset_is_there_without_any_extra() -> None:
    """(PyG and scikit-learn load some by themselves, where they are installed.)"""
    loaded = loaded_by(
        "from ciga.methods.base import methods\nfrom ciga.data.dataset import datasets\n"
        "import ciga.estimator, ciga.runs.plan\nassert list(methods) and list(datasets)",
        before="import torch_geometric.nn, sklearn.model_selection",
    )
    assert "ciga" in loaded
    assert not loaded & EXTRAS


@pytest.mark.parametrize("module", [ciga, ciga.data])
def test_every_public_name_is_there(module: Any) -> None:
    assert set(module.__all__) == set(module._HOME)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing
