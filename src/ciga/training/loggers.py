"""Other places that want to see a run go by. Off unless asked for; each is a function of one epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ciga.errors import MissingExtra, unknown

#: `on_epoch(row, epochs)`: what `ciga.training.loop.fit` calls after every epoch.
Hook = Callable[[dict[str, Any], int], None]


def tensorboard(folder: Path) -> Hook:
    """Scalars of every loss term and metric in `folder/tensorboard`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtra("tensorboard", "log") from None
    writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def write(row: dict[str, Any], epochs: int) -> None:
        for name, value in scalars(row).items():
            writer.add_scalar(name, value, row["epoch"])
        writer.flush()

    return write


LOGGERS: dict[str, Callable[[Path], Hook]] = {"tensorboard": tensorboard}


def scalars(row: dict[str, Any]) -> dict[str, float]:
    """One epoch of a history as flat numbers: `loss/risk`, `ood_val/accuracy`, `seconds`."""
    out = {f"loss/{name}": value for name, value in row["terms"].items()}
    for split, found in row["metrics"].items():
        out |= {f"{split}/{name}": value for name, value in found.items()}
    return {**out, "seconds": row["seconds"]}


def hooks(names: Iterable[str], folder: Path, *others: Hook) -> Hook:
    """One hook that calls `others` and the loggers of these names, which write below `folder`."""
    chosen = list(others)
    for name in names:
        if name not in LOGGERS:
            raise unknown("logger", name, LOGGERS)
        chosen.append(LOGGERS[name](folder))

    def call(row: dict[str, Any], epochs: int) -> None:
        for hook in chosen:
            hook(row, epochs)

    return call
