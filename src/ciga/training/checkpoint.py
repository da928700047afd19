"""A run in mid-flight on disk: weights, the optimisers' state, the history, and the best weights so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from ciga.errors import CigaError
from ciga.files import read_tensors, write_tensors
from ciga.training.adam import Adam
from ciga.training.averaging import WeightAverage


class Progressed(Protocol):
    """The part of `train.Fitted` that grows from epoch to epoch."""

    history: list[dict[str, Any]]
    states: dict[str, dict[str, Tensor]]
    seconds: float


def write_checkpoint(
    file: Path,
    fitted: Progressed,
    network: nn.Module,
    optimizers: tuple[Adam, ...],
    side: dict[str, Tensor],
    average: WeightAverage | None = None,
) -> None:
    """Write everything that training needs to go on from here.

    Args:
        file: Where it goes.
        fitted: History and best weights so far.
        network: In its present state.
        optimizers: With their moments.
        side: What the method's `prepare` found.
        average: The average of the weights, where one is kept.
    """
    tensors = {f"network/{k}": v for k, v in network.state_dict().items()}
    tensors |= {f"side/{k}": v for k, v in side.items()}
    tensors |= {f"average/{k}": v for k, v in (average.state() if average else {}).items()}
    for selector, state in fitted.states.items():
        tensors |= {f"best/{selector}/{k}": v for k, v in state.items()}
    for i, optimizer in enumerate(optimizers):
        tensors |= {f"adam/{i}/{k}": v for k, v in optimizer.state().items()}
    write_tensors(file, tensors, {"history": json.dumps(fitted.history), "seconds": repr(fitted.seconds)})


def read_checkpoint(
    file: Path,
    fitted: Progressed,
    network: nn.Module,
    optimizers: tuple[Adam, ...],
    average: WeightAverage | None = None,
) -> dict[str, Tensor]:
    """Put everything back as the checkpoint has it; returns what `prepare` had found.

    Args:
        file: What `write_checkpoint` wrote.
        fitted: Gets history and best weights.
        network: Gets its weights.
        optimizers: Get their moments.
        average: The average of the weights, where one is kept.
    """
    tensors, meta = read_tensors(file)
    try:
        return _restore(tensors, meta, fitted, network, optimizers, average)
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError):  # RecursionError is the fourth
        raise CigaError(
            f"{file} is damaged or belongs to another network: delete its folder to start afresh."
        ) from None


def _restore(
    tensors: dict[str, Tensor],
    meta: dict[str, str],
    fitted: Progressed,
    network: nn.Module,
    optimizers: tuple[Adam, ...],
    average: WeightAverage | None,
) -> dict[str, Tensor]:
    history = json.loads(meta["history"])
    for row in history:
        scores = [score for part in row["metrics"].values() for score in part.values()]
        numbers = [row["epoch"], row["seconds"], *scores, *row["terms"].values()]
        if not all(isinstance(number, (int, float)) for number in numbers):
            raise ValueError("history")
    fitted.history = history
    fitted.seconds = float(meta["seconds"])
    groups: dict[str, dict[str, Tensor]] = {"network": {}, "side": {}, "best": {}, "adam": {}, "average": {}}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        groups[kind][rest] = tensor
    for name, tensor in groups["best"].items():
        selector, _, key = name.partition("/")
        fitted.states.setdefault(selector, {})[key] = tensor
    network.load_state_dict(groups["network"])
    if average is not None:
        average.restore(groups["average"])
    for i, optimizer in enumerate(optimizers):
        mine = f"{i}/"
        optimizer.restore({k.removeprefix(mine): v for k, v in groups["adam"].items() if k.startswith(mine)})
    return groups["side"]
