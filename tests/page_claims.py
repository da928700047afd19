"""What pages say of the runs they show, checked against the records that running a page left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def scores(folder: Path, method: str, **settings: Any) -> dict[str, Any]:
    """The scores of the one run of a method with these settings, at the epoch that its own rule chose."""
    records = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("runs/*/record.json")]
    found = [
        record["selected"][record["selection"]]
        for record in records
        if record["method"] == method and settings.items() <= record["settings"].items()
    ]
    assert len(found) == 1, f"{len(found)} runs of {method} with {settings}"
    return dict(found[0])


def readme(folder: Path) -> None:
    """The first example learns, and finds the motif; ERM in the same network follows the shortcut."""
    ours, plain = scores(folder, "ciga-v1"), scores(folder, "erm")
    assert ours["ood_test"]["accuracy"] > 0.9
    assert ours["ood_test"]["edge_auroc"] > 0.8
    assert plain["ood_test"]["accuracy"] < 0.7
    assert min(ours["id_test"]["accuracy"], plain["id_test"]["accuracy"]) > 0.98


def your_method(folder: Path) -> None:
    """Both learn, and both follow the shortcut."""
    for method in ("confidence-penalty", "erm"):
        found = scores(folder, method)
        assert found["id_test"]["accuracy"] > 0.95, method
        assert 0.4 < found["ood_test"]["accuracy"] < 0.7, method


def your_dataset(folder: Path) -> None:
    """A maximum over the nodes finds the ends of a long path, a mean drowns them."""
    best, mean = (scores(folder, "erm", epochs=10, readout=how) for how in ("max", "mean"))
    assert best["id_val"]["accuracy"] == mean["id_val"]["accuracy"] == 1.0
    assert best["ood_test"]["accuracy"] == 1.0
    assert mean["ood_test"]["accuracy"] < 0.7


CLAIMS: dict[str, Callable[[Path], None]] = {
    "README.md": readme,
    "docs/your-method.md": your_method,
    "docs/your-dataset.md": your_dataset,
}
