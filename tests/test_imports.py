"""What importing costs and offers: `import ciga` is light, heavy extras wait until they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ciga
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


def test_every_method_and_dataset_is_there_without_any_extra() -> None:
    """(PyG and scikit-learn load some by themselves, where they are installed.)"""
    loaded = loaded_by(
        "from ciga.methods.base import methods\nfrom ciga.data.dataset import datasets\n"
        "import ciga.estimator, ciga.runs.plan\nassert list(methods) and list(datasets)",
        before="import torch_geometric.nn, sklearn.model_selection",
    )
    assert "ciga" in loaded
    assert not loaded & EXTRAS


def test_every_public_name_is_there() -> None:
    assert set(ciga.__all__) == set(ciga._HOME)
    for name in ciga.__all__:
        assert getattr(ciga, name) is not None
        assert name in dir(ciga)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ciga.nothing
