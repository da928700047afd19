"""The shape of report data: what a model remembers of its training, as `report.json` holds it."""

from __future__ import annotations

from typing import Any, TypedDict, cast

from ciga.scoring.stats import Interval, Verdict

#: split -> metric -> one value for each seed; and "epoch": the chosen epoch of each seed.
ScoresOfRule = dict[str, Any]


class RepeatedFits(TypedDict):
    """What several splits of one table say together (`ciga fit --repeats`)."""

    splits: int
    where: str
    shipped: str
    overlap: float  # test rows over training rows, on average
    scores: dict[str, list[float]]  # method -> score of its ensemble on each split
    intervals: dict[str, Interval]
    comparisons: dict[str, Verdict]  # of what is shipped with each method
    advice: str


class ReportData(TypedDict, total=False):
    """Scores, comparisons and curves, as plain values; numbers that do not exist are None.

    Models of earlier versions, and models without a record of their training, lack some keys.
    """

    metric: str
    selection: str
    rules: dict[str, str]  # method -> the rule that chose its epochs
    scores: dict[str, dict[str, ScoresOfRule]]  # method -> rule -> scores
    histories: dict[str, list[list[dict[str, Any]]]]  # method -> seed -> epoch
    seconds: dict[str, list[float]]  # method -> one for each seed
    hashes: dict[str, list[str]]  # method -> its runs
    closed_features: dict[str, list[int]]  # method -> columns of x behind a closed gate
    pictures: dict[str, dict[str, Any]]  # part -> confusion table and reliability
    flagged: dict[str, dict[str, float]]  # part -> share of graphs unlike training, by measure
    where: str  # the part that decides
    comparison: Verdict | None  # with ERM
    comparisons: dict[str, Verdict]  # with each method
    ensembles: dict[str, dict[str, Interval]]  # method -> part -> score of the averaged seeds
    calibration: dict[str, dict[str, float]]  # method -> part -> calibration error of the averaged seeds
    advice: str
    caveats: dict[str, str]  # method -> what of the graphs it could not use
    data: dict[str, Any]  # what `ciga data check` says
    finished: str
    made_of: str
    shares: dict[str, float]
    repeats: RepeatedFits


def of_one(report_data: ReportData, method: str, own: bool) -> ReportData:
    """What was recorded of one method, and of the data; not what was said of others.

    Args:
        report_data: Of all methods.
        method: The one.
        own: Was the data flagged by its embeddings?
    """
    common = {"metric", "selection", "where", "data", "finished", "flagged"}
    by_method = {"scores", "histories", "seconds", "hashes", "rules", "ensembles", "calibration"}
    out: dict[str, Any] = {key: value for key, value in report_data.items() if key in common}
    for key, value in report_data.items():
        if key in by_method and isinstance(value, dict) and method in value:
            out[key] = {method: value[method]}
    if not own:
        theirs = ("any", "embedding")
        out["flagged"] = {
            part: {name: share for name, share in found.items() if name not in theirs}
            for part, found in out.get("flagged", {}).items()
        }
    return cast(ReportData, out)


def training_graphs(report_data: ReportData) -> int | None:
    """The number of training graphs, where the record of the training says it."""
    found: Any = report_data
    for key in ("data", "splits", "train", "graphs"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, int) else None
