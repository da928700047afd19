"""Which epoch counts. The rule is an object, and every run is scored under every rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ciga.scoring.metrics import LOWER_IS_BETTER

#: One epoch of a run: {"epoch": 0, "terms": {...}, "metrics": {split: {metric: value}}, "seconds": 1.0}
Epoch = Mapping[str, Any]


@dataclass(frozen=True)
class Selector:
    """The epoch with the best metric on one split, the earlier of equals; without a split, the last one.

    With `rest`, the score on G_c minus the probe's score on G_s decides (`ciga.scoring.probe`): the best
    epoch is the one that left nothing behind.
    """

    name: str
    split: str | None
    rest: bool = False

    def value(self, found: Mapping[str, float], metric: str) -> float:
        """What the rule goes by, from the metrics of its split: more is better."""
        sign = -1 if metric in LOWER_IS_BETTER else 1
        return sign * (found[metric] - (found["rest"] if self.rest else 0.0))

    def pick(
        self, history: Sequence[Epoch], metric: str, selectable: Callable[[int], bool] = lambda epoch: True
    ) -> int | None:
        """The chosen epoch's place in the history; None if the data has not what the rule looks at.

        `selectable` says whether the epoch at a place may be chosen; where none may, the last one counts.
        """
        if not history:
            return None
        if self.split is None:
            return len(history) - 1
        first = history[0]["metrics"].get(self.split)
        if first is None or (self.rest and "rest" not in first):
            return None
        places = [place for place in range(len(history)) if selectable(place)] or [len(history) - 1]
        best, chosen = float("-inf"), places[0]
        for place in places:
            epoch = history[place]
            value = self.value(epoch["metrics"][self.split], metric)
            if value > best:  # NaN is never better
                best, chosen = value, place
        return chosen


SELECTORS = {
    s.name: s
    for s in (
        Selector("id-val", "id_val"),
        Selector("ood-val", "ood_val"),
        Selector("id-val-rest", "id_val", rest=True),
        Selector("ood-val-rest", "ood_val", rest=True),
        # Looks at test data: an upper bound to compare with, never a way to choose.
        Selector("oracle", "ood_test"),
        Selector("last", None),
    )
}


def default_selector(splits: Sequence[str], rest: bool = False) -> Selector:
    """The rule a table uses unless told otherwise: shifted validation data where there are any.

    `rest`: for a method that answers for G_s too (`Method.selects_by_rest`).
    """
    suffix = "-rest" if rest else ""
    if "ood_val" in splits:
        return SELECTORS[f"ood-val{suffix}"]
    return SELECTORS[f"id-val{suffix}"] if "id_val" in splits else SELECTORS["last"]
