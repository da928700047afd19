"""How long and with what training goes on: the options every method shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ciga.errors import UsageError
from ciga.methods.base import Method
from ciga.options import tunable


@dataclass
class Training:
    """The schedule: the same for every method on a dataset."""

    epochs: int = tunable(100, low=1, help="maximum number of epochs")
    warmup: int = tunable(20, low=0, help="epochs before early stopping may count (the paper's pretraining)")
    patience: int = tunable(5, low=1, help="epochs without a better validation score before stopping")
    batch_size: int = tunable(32, [32, 64, 128], low=1)
    lr: float = tunable(1e-3, [1e-4, 3e-4, 1e-3, 3e-3], low=0.0, help="Adam's learning rate")
    balanced: bool = tunable(False, help="every class equally often in each epoch, the rarer ones repeated")
    weight_decay: float = tunable(0.0, [0.0, 1e-5, 1e-4], low=0.0)
    averaging: float = tunable(
        0.0,
        [0.0, 0.99, 0.999],
        low=0.0,
        high=0.99999,
        help="decay of the mean of weights that is scored and kept",
    )
    trial: int = tunable(0, low=0, help="epochs after which training returns to the best of them; 0: never")
    starts: int = tunable(1, low=1, help="such trials, each from weights of its own; the best goes on")
    members: int = tunable(
        1, [1, 3, 5], low=1, help="networks, trained one after the other; their mean answers"
    )

    def __post_init__(self) -> None:
        if self.starts > 1 and not self.trial:
            raise UsageError(
                f"starts={self.starts} takes trials: say how many epochs each has, like trial=5."
            )

    @property
    def rounds(self) -> int:
        """Epochs at most, those of all members together."""
        return self.epochs * self.members

    @property
    def trials_end(self) -> int:
        """The epoch that begins at the best of all trials."""
        return self.starts * self.trial

    def begun(self, epoch: int) -> int:
        """The epoch in which the weights that `epoch` trains were new."""
        return epoch - epoch % self.trial if epoch < self.trials_end else 0

    def age(self, epoch: int) -> int:
        """Epochs for which the weights that `epoch` trains have been trained before."""
        return epoch - self.begun(epoch)


def check_schedule(method: Method[Any], training: Training) -> None:
    """Refuse what a method can do nothing with: no trials where it waits for their end, several members where
    all would be the same."""
    if method.needs_trials and not training.trial:
        raise UsageError("settle holds the best of some trial epochs: say how many, like --set trial=5.")
    if method.closed_form and training.members > 1:
        raise UsageError(f"members={training.members}: {method.name} has one solution, leave members at 1.")
