"""Optional loggers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ciga.errors import MissingExtra, UsageError
from ciga.training import loggers

ROW: dict[str, Any] = {
    "epoch": 2,
    "terms": {"risk": 0.5},
    "metrics": {"ood_val": {"accuracy": 0.75}},
    "seconds": 1.5,
}


def test_hooks_call_everyone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setitem(loggers.LOGGERS, "mine", lambda folder: lambda row, n: seen.append((folder, row, n)))
    call = loggers.hooks(["mine"], tmp_path, lambda row, n: seen.append("bar"))
    call(ROW, 10)
    assert seen == ["bar", (tmp_path, ROW, 10)]
    with pytest.raises(UsageError, match="tensorboard"):
        loggers.hooks(["tensorbord"], tmp_path)


def test_scalars() -> None:
    assert loggers.scalars(ROW) == {"loss/risk": 0.5, "ood_val/accuracy": 0.75, "seconds": 1.5}


def test_tensorboard_writes_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (extra: log)")
    loggers.tensorboard(tmp_path)(ROW, 10)
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert b"ood_val/accuracy" in file.read_bytes()


def test_tensorboard_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"ciga\[log\]"):
        loggers.tensorboard(tmp_path)
