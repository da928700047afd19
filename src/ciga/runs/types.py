"""The shapes of what runs leave behind: records, their histories, and failures."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class HistoryRow(TypedDict):
    """One epoch of a run."""

    epoch: int
    terms: dict[str, float]  # the loss, term by term
    metrics: dict[str, dict[str, float]]  # split -> metric -> value
    seconds: float


class Record(TypedDict):
    """A finished run, as `record.json` and a line of a list of records hold it."""

    hash: str
    dataset: str
    method: str
    seed: int
    protocol: str
    data: dict[str, Any]
    settings: dict[str, Any]
    identity: dict[str, Any]
    fingerprint: str
    notes: dict[str, Any]
    metric: str
    selection: str  # the rule to report
    selected: dict[str, dict[str, Any]]  # rule -> its epoch, and split -> metric -> value
    closed_features: NotRequired[list[int]]  # columns of x behind a closed gate, where there are gates
    epochs: int
    seconds: float
    peak_memory_mb: float | None  # None where the system does not tell
    device: str
    threads: int
    versions: dict[str, str]
    finished: str
    history: NotRequired[list[HistoryRow]]  # lists of records that are passed on leave it out


class Failure(TypedDict):
    """Why a run came to nothing, as `error.json` holds it."""

    error: str
    time: str
    traceback: NotRequired[str]


#: What every reader of records relies on, and its type.
REQUIRED: dict[str, type | tuple[type, ...]] = {
    "hash": str,
    "dataset": str,
    "method": str,
    "seed": int,
    "protocol": str,
    "data": dict,
    "settings": dict,
    "metric": str,
    "selection": str,
    "selected": dict,
    "epochs": int,
    "seconds": (int, float),
}


def is_record(value: Any) -> bool:
    """Whether a value read from a file has the shape of a record."""
    if not isinstance(value, dict) or not REQUIRED.keys() <= value.keys():
        return False
    if not all(isinstance(value[key], kind) for key, kind in REQUIRED.items()):
        return False
    rules = list(value["selected"].values())
    return all(_has_scores(scores, value["metric"]) and scores.keys() == rules[0].keys() for scores in rules)


def _has_scores(scores: Any, metric: str) -> bool:
    """Whether a rule's entry has numbers for each split, and the metric among them."""
    if not isinstance(scores, dict):
        return False
    parts = [part for key, part in scores.items() if key != "epoch"]
    return all(
        isinstance(part, dict) and metric in part and all(isinstance(v, (int, float)) for v in part.values())
        for part in parts
    )
