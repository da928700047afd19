"""What many tests need: tiny data, the raw files (or the reason why they are not used), plugin files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ciga.data import Splits, load
from ciga.data.dataset import datasets
from ciga.methods.base import methods

# A test has one core, and so has every process it starts: workers take longer to start than what tests have
# them do. Tests of workers say how many they want.
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")


@pytest.fixture(scope="session")
def toy() -> Splits:
    """SPMotif with twenty training graphs per class, test graphs no larger than the others."""
    return load("spmotif-struc", train_per_class=20, val_per_class=6, test_per_class=6, size_shift=False)


@pytest.fixture(scope="session")
def raw_data() -> Callable[[str], Path]:
    """`raw_data("tu/NCI1")`: that folder or file among the raw data; skips the test where it is not."""

    def find(name: str) -> Path:
        home = os.environ.get("CIGA_DATA")
        if not home:
            pytest.skip(f"needs {name}: set CIGA_DATA to the folder of the raw data")
        path = Path(home) / name
        if not path.exists():
            pytest.skip(f"needs {name}, which is not in CIGA_DATA ({home})")
        return path

    return find


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """`plugin(text)` writes a plugin file; what it registers is forgotten after the test."""
    registries = (methods, datasets)
    known = [{name: registry[name] for name in registry} for registry in registries]
    modules = set(sys.modules)

    def write(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    yield write
    for registry, before in zip(registries, known, strict=True):
        registry._members.clear()
        registry._members.update(before)
    for name in set(sys.modules) - modules:
        if name.startswith("ciga_plugin_"):
            del sys.modules[name]
