"""The top of a report: one verdict in plain words, the three numbers that matter, four graphs to look at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ciga.explain.examine import Examined
from ciga.explain.render import known, number, percent, signed
from ciga.explain.words import GUESSING, Words, method_name, metric_name
from ciga.models.model import Model
from ciga.models.report_data import YARDSTICK, rule_of
from ciga.models.summary import beyond, interval
from ciga.models.types import ReportData
from ciga.scoring.stats import LEAST, Verdict

SHOWN = 4
#: From this share of flagged graphs on, a set is called unlike the training data.
MANY = 0.2


def verdict(model: Model, method: str, words: Words) -> dict[str, str]:
    """What to make of the model: its tone (good, fair, poor or open), a headline, and what to do."""
    report_data = model.report_data
    comparison, where = report_data.get("comparison"), words.part(str(report_data.get("where", "")))
    if not report_data.get("scores"):
        return {
            "tone": "open",
            "headline": "This model comes without a record of its training.",
            "advice": "What it makes of these data is below; how well it does on others is not known.",
        }
    if _several(model) and len(model.seeds) >= LEAST:
        return _among(model, where)
    if not comparison or comparison["difference"] is None:
        return {
            "tone": "open",
            "headline": f"Tested on {where}, not compared with a simpler method.",
            "advice": "The score alone does not say whether another method would do as well.",
        }
    difference = signed(comparison["difference"])
    if len(model.seeds) < LEAST:
        runs = "One training run is" if len(model.seeds) == 1 else f"{len(model.seeds)} training runs are"
        return {
            "tone": "open",
            "headline": f"{runs} too few to judge {'the mixture' if model.shares else method} on {where}.",
            "advice": f"It differs from a plain network by {difference}: fit with --seeds {LEAST} or more "
            "to see how much of that is chance.",
        }
    low, high = (math.nan if comparison[end] is None else comparison[end] for end in ("low", "high"))
    gap = f"{difference}, 95 % interval {signed(low)} to {signed(high)}"
    if low > 0:
        return {
            "tone": "good",
            "headline": f"Better than a plain network on {where}.",
            "advice": f"The lead is larger than chance explains ({gap}): use this model.",
        }
    if high < 0:
        return {
            "tone": "poor",
            "headline": f"A plain network does better on {where}.",
            "advice": f"The gap is larger than chance explains ({gap}): fit with --method erm instead.",
        }
    use = "Use it for the parts it shows, not for its score" if model.method.extracts else "Either will do"
    return {
        "tone": "fair",
        "headline": f"No better than a plain network on {where}.",
        "advice": f"The difference may be chance ({gap}). {use}.",
    }


def _known(report_data: ReportData) -> dict[str, Verdict]:
    """The comparisons that came to a number; in JSON, None stands for what is none."""
    found = report_data.get("comparisons", {})
    return {name: c for name, c in found.items() if c["difference"] is not None}


def _several(model: Model) -> bool:
    """Is there more to compare with than a plain network?"""
    return bool(_known(model.report_data).keys() - ({YARDSTICK} if not model.shares else set()))


def _among(model: Model, where: str) -> dict[str, str]:
    """The verdict against the best of several methods, as the advice of `ciga fit` has it."""
    found = _known(model.report_data)
    rival, gap = min(found.items(), key=lambda item: item[1]["difference"])
    low, high = (math.nan if gap[end] is None else gap[end] for end in ("low", "high"))
    told = f"{signed(gap['difference'])}, 95 % interval {signed(low)} to {signed(high)}"
    best, others = method_name(rival), "its methods" if model.shares else "the methods beside it"
    if low > 0:
        return {
            "tone": "good",
            "headline": f"Better than each of {others} on {where}.",
            "advice": f"The lead over the best of them, {best}, is larger than chance explains ({told}).",
        }
    if (gap["worse"] or 0.0) >= beyond(len(found)):
        return {
            "tone": "poor",
            "headline": f"One of {others}, {best}, does better alone on {where}.",
            "advice": f"The gap is larger than chance explains ({told}): use --member {rival}.",
        }
    use = "Either will do"
    if model.shares:
        use = "Use the mixture: which method will be best on the next data is not known beforehand"
    elif model.method.extracts:
        use = "Use it for the parts it shows, not for its score"
    return {
        "tone": "fair",
        "headline": f"No clear difference from the best of {others} on {where}.",
        "advice": f"The difference from that one, {best}, may be chance ({told}). {use}.",
    }


def figures(model: Model, examined: Examined | None, words: Words) -> list[dict[str, str]]:
    """The three numbers: score, whether the highlights are reasons, share unlike training.

    Fewer where the model or the data do not have them.
    """
    found = [_score(model, words), _reason(examined), _calibration(model, examined, words)]
    chosen = [figure for figure in found if figure][:2]
    shift = _shift(model, examined, words)
    return [*chosen, shift] if shift else chosen


def _score(model: Model, words: Words) -> dict[str, str]:
    report_data, metric = model.report_data, model.metric
    where = report_data.get("where", "")
    runs = len(model.seeds)
    every = _averaged(report_data, where)
    over = f"{runs} training runs averaged; 95 % interval over {words.many}"
    if not every:
        every, over = _single(report_data, where, metric), f"95 % interval over {runs} training runs"
    if not every:
        return {}
    (_, mine), *others = every.items()
    said = [f"{method_name(name)} {number(found['mean'])}" for name, found in others]
    said += [GUESSING[metric]] if metric in GUESSING else _commonest(report_data, metric)
    if runs >= LEAST and not math.isnan(mine["low"]):
        said.insert(0, f"{over} {mine['low']:.3f} to {mine['high']:.3f}")
    comparison = report_data.get("comparison")
    low, high = (comparison["low"], comparison["high"]) if comparison else (None, None)
    tone = _tone(low, high, len(model.seeds))
    if _several(model) and len(model.seeds) >= LEAST:
        tone = _among(model, "")["tone"]
    name = f"{metric_name(metric)} on {words.part(where)}"
    return {"name": name, "value": number(mine["mean"]), "about": "; ".join(said), "tone": tone}


def _averaged(report_data: ReportData, where: str) -> dict[str, Mapping[str, float]]:
    """What each method scores as it is shipped: its training runs averaged."""
    told = {m: parts[where] for m, parts in report_data.get("ensembles", {}).items() if where in parts}
    return {m: dict(zip(found, known(found.values()), strict=True)) for m, found in told.items()}


def _single(report_data: ReportData, where: str, metric: str) -> dict[str, Mapping[str, float]]:
    """The mean score of each method's training runs, for a record that does not have them averaged."""
    found: dict[str, Mapping[str, float]] = {}
    for method, selected in report_data.get("scores", {}).items():
        values = selected.get(rule_of(report_data, method), {}).get(where, {}).get(metric)
        if values:
            found[method] = interval(known(values), metric)
    return found


def _commonest(report_data: ReportData, metric: str) -> list[str]:
    """What always naming the commonest class would score."""
    parts = (report_data.get("data") or {}).get("splits", {})
    counts = parts.get(report_data.get("where"), {}).get("class_counts", {})
    if metric != "accuracy" or not counts:
        return []
    return [f"always the commonest class: {number(max(counts.values()) / sum(counts.values()))}"]


def _tone(low: float | None, high: float | None, seeds: int) -> str:
    if low is None or high is None or math.isnan(low) or seeds < LEAST:
        return "open"
    return "good" if low > 0 else "poor" if high < 0 else "fair"


def reason(examined: Examined | None) -> str:
    """Whether the highlighted part is the reason, against random parts of its size: good, fair or poor."""
    if examined is None or not examined.fidelity:
        return "open"
    f = examined.fidelity
    if not f["above_random"] - f["above_random_error"] > 0:
        return "poor"
    return "good" if f["agrees_above_random"] - f["agrees_above_random_error"] > 0 else "fair"


def _reason(examined: Examined | None) -> dict[str, str]:
    if examined is None or not examined.fidelity:
        return {}
    f, tone = examined.fidelity, reason(examined)
    said = {
        "good": "so the highlights carry the answer",
        "fair": "so the highlights say little more",
        "poor": "so do not read the highlights as reasons",
    }
    about = f"from a random part of that size: {percent(f['agrees_random'])}, {said[tone]}"
    name = "same answer from the highlighted part alone"
    return {"name": name, "value": percent(f["agrees_kept"]), "about": about, "tone": tone}


def _calibration(model: Model, examined: Examined | None, words: Words) -> dict[str, str]:
    """How far confidence is from accuracy: what there is to say of a method that highlights nothing."""
    if examined is None or "ece" not in examined.scores or model.method.extracts:
        return {}
    gap = examined.scores["ece"]
    said = f"on {words.count(examined.scored)}; 0 % is perfect"
    tone = "good" if gap < 0.05 else "fair" if gap < 0.15 else "poor"
    return {"name": "gap between confidence and accuracy", "value": percent(gap), "about": said, "tone": tone}


def _shift(model: Model, examined: Examined | None, words: Words) -> dict[str, str]:
    if examined is None or examined.flagged is None or model.gauge is None:
        return {}
    usual = model.gauge.chance
    tone = "good" if examined.flagged <= 2 * usual else "fair" if examined.flagged < MANY else "poor"
    about = f"of {words.count(examined.graphs)}; up to {100 * usual:.0f} % is usual. Doubt the flagged ones"
    return {
        "name": "unlike the training data",
        "value": percent(examined.flagged),
        "about": about,
        "tone": tone,
    }


def highlights(cards: Sequence[Mapping[str, Any]], classes: Sequence[str]) -> list[dict[str, Any]]:
    """Four telling cards, each with why it was chosen: sure and right, sure but wrong, unlike training."""
    # What the model was trained on tells less about it than what is new.
    surest = sorted(cards, key=lambda c: (c["seen"], -float(c["confidence"])))
    wrong = [c for c in surest if c["correct"] == "wrong"]
    odd = sorted((c for c in cards if c["flagged"]), key=lambda c: (c["seen"], -float(c["shift"])))
    wanted: list[tuple[str, Sequence[Mapping[str, Any]]]] = []
    for name in classes[: SHOWN - 1 if len(classes) > 2 else 2]:
        mine = [c for c in surest if c["predicted"] == name and c["correct"] != "wrong"]
        right = mine and mine[0]["correct"] == "right"
        label = f"class {name}" if name.isdigit() else name
        wanted.append((f"Surest {label}{', and right' if right else ''}", mine))
    wanted[2:2] = [("Sure, but wrong", wrong), ("Unlike the training data", odd)]
    wanted += [("Least sure", sorted(cards, key=lambda c: float(c["confidence"])))] * SHOWN
    out: list[dict[str, Any]] = []
    for why, found in wanted:
        taken = {c["row"] for c in out}
        fresh = next((c for c in found if c["row"] not in taken), None)
        if fresh is not None and len(out) < SHOWN:
            out.append({**fresh, "why": why})
    return out
