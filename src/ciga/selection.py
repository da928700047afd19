"""Which epoch counts. The rule is an object, and every run is scored under every rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ciga.metrics import LOWER_IS_BETTER

#: One epoch of a run: {"epoch": 0, "terms": {...}, "metrics": {split: {metric: value}}, "seconds": 1.0}
Epoch = Mapping[str, Any]


@dataclass(frozen=True)
class Selector:
    """The epoch with the best metric on one split, the earlier of equals; without a split, the last one."""

    name: str
    split: str | None

    def pick(self, history: Sequence[Epoch], metric: str) -> int | None:
        """The chosen epoch's place in the history; None if the data has not what the rule looks at."""
        if not history:
            return None
        if self.split is None:
            return len(history) - 1
        if self.split not in history[0]["metrics"]:
            return None
        sign = -1 if metric in LOWER_IS_BETTER else 1
        best, chosen = float("-inf"), 0
        for place, epoch in enumerate(history):
            value = sign * epoch["metrics"][self.split][metric]
            if value > best:  # NaN is never better
                best, chosen = value, place
        return chosen


SELECTORS = {
    s.name: s
    for s in (
        Selector("id-val", "id_val"),
        Selector("ood-val", "ood_val"),
        # Looks at test data: an upper bound to compare with, never a way to choose.
        Selector("oracle", "ood_test"),
        Selector("last", None),
    )
}


def default_selector(splits: Sequence[str]) -> Selector:
    """The rule a table uses unless told otherwise: shifted validation data where there are any."""
    if "ood_val" in splits:
        return SELECTORS["ood-val"]
    return SELECTORS["id-val"] if "id_val" in splits else SELECTORS["last"]
