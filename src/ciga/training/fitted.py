"""What training has made so far: the history, and the weights of the epochs that were chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ciga.graphs.splits import Splits
from ciga.methods.base import Method
from ciga.nn.encoder import Backbone, Spec
from ciga.scoring.selection import SELECTORS, Selector, default_selector
from ciga.training.ensemble import unpack
from ciga.training.evaluation import evaluate
from ciga.training.schedule import Training

#: Splits scored after every epoch: those a selector looks at. The others are scored once, at the end.
EVERY_EPOCH = tuple(dict.fromkeys(s.split for s in SELECTORS.values() if s.split))


@dataclass
class Fitted:
    """A trained method: its weights under each selector, and how it got there."""

    method: Method[Any]
    backbone: Backbone
    spec: Spec
    judging: tuple[str, ...]  # the parts that may choose an epoch
    metric: str = "accuracy"
    training: Training = field(default_factory=Training)
    history: list[dict[str, Any]] = field(default_factory=list)
    states: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # selector -> weights
    selected: dict[str, dict[str, Any]] = field(default_factory=dict)  # selector -> epoch and metrics
    seconds: float = 0.0
    members: int = 1  # networks; the weights of several are those of `ensemble.pack`

    @property
    def selector(self) -> Selector:
        """The rule that counts."""
        return default_selector(self.judging, self.method.selects_by_rest)

    def network(self, selector: str | None = None) -> nn.Module:
        """The network (the first of several) with the weights a selector chose, ready to predict."""
        return self.networks(selector)[0]

    def networks(self, selector: str | None = None) -> list[nn.Module]:
        """All networks with the weights a selector chose, ready to predict."""
        state = self.states[selector or self.selector.name]
        return unpack(self.method, self.spec, self.backbone, state, self.members)

    def chosen(self, selector: Selector) -> int | None:
        """The epoch this selector takes of those that the method lets it take."""
        return selector.pick(
            self.history, self.metric, lambda epoch: self.method.selectable(self.training.age(epoch))
        )

    def should_stop(self) -> bool:
        """No better validation score for `patience` epochs, counted from the end of the warm-up."""
        selector, training = self.selector, self.training
        best = self.chosen(selector)
        if best is None or selector.split is None:
            return False
        since = max(best, training.warmup - 1, training.trials_end)
        return len(self.history) - 1 - since >= training.patience

    def remember(self, network: nn.Module) -> None:
        """Keep the weights for every selector that would choose the epoch just finished."""
        latest = len(self.history) - 1
        for name, selector in SELECTORS.items():
            if self.chosen(selector) == latest:
                self.states[name] = {k: v.detach().cpu().clone() for k, v in network.state_dict().items()}

    def score_selected(self, splits: Splits, device: torch.device) -> None:
        """Metrics of every split at every selector's epoch; equal epochs are scored once."""
        scored: dict[int, dict[str, Any]] = {}
        for name, selector in SELECTORS.items():
            epoch = self.chosen(selector)
            if epoch is None:
                continue
            if epoch not in scored:
                network = self.network(name).to(device)
                known = self.history[epoch]["metrics"]
                missing = {s: evaluate(self.method, [network], splits[s]) for s in splits if s not in known}
                scored[epoch] = {"epoch": epoch, **{s: {**known, **missing}[s] for s in splits}}
            self.selected[name] = scored[epoch]
