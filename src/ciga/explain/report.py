"""The report: one HTML file that needs nothing else, for a model and what it makes of some graphs."""

from __future__ import annotations

from pathlib import Path

from ciga.errors import CigaError
from ciga.explain import sections
from ciga.explain.bench_page import report_bench
from ciga.explain.examine import Examined
from ciga.explain.render import write_page
from ciga.explain.verdict import figures, highlights, reason, verdict
from ciga.explain.words import PARTS, words_of
from ciga.models.model import Model

__all__ = ["report_bench", "report_model"]


def report_model(
    model: Model,
    examined: Examined | None,
    path: str | Path,
    *,
    title: str,
    subject: str = "",
    command: str = "",
) -> None:
    """Write the page of a model: the verdict, graphs with the part it looks at, and how it was trained.

    Args:
        model: with the record of its training, as far as there is one.
        examined: what it makes of some graphs; None leaves the gallery out.
        path: of the HTML file.
        title: the heading.
        subject: which graphs were examined: a file, a part of the data.
        command: what was typed, for whoever wants to repeat it.
    """
    report_data = model.report_data
    try:
        data = report_data.get("data") or {}
        words = words_of(model.source, model.featuriser.get("kind") == "smiles", data.get("notes", {}))
        cards = [] if examined is None else examined.cards
        context = {
            "title": words.titled(title),
            "subject": words.titled(subject),
            "command": command,
            "model": model,
            "method": model.label,
            "extracts": model.method.extracts,
            "decider": _decider(model),
            "report_data": report_data,
            "words": words,
            "names": {part: words.part(part) for part in PARTS if part in data.get("splits", {})},
            "verdict": verdict(model, model.label, words),
            "reason": reason(examined),
            "figures": figures(model, examined, words),
            "highlights": highlights(cards, model.names),
            "notes": [words.sentence(note) for note in examined.notes] if examined else [],
            "examined": examined,
            "data": sections.data_section(model, report_data, words),
            "scores": sections.score_section(report_data, words),
            "mistakes": sections.mistakes_section(model, report_data, examined, words),
            "curves": sections.curve_section(report_data, words),
            "pieces": sections.piece_section(model, examined),
            "settings": sorted(model.settings.items()),
        }
        write_page(path, "report.html", context, scripts=("page.js", "gallery.js"))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CigaError(
            f"The model's report.json cannot be read ({error!r}): fit the model again."
        ) from error


def _decider(model: Model) -> str:
    """Whose decision the highlighted part is: in a mixture, that of one of the methods."""
    share = model.shares.get(model.method_name)
    return "the model" if share is None else f"{model.method_name} ({100 * share:.0f} % of the answer)"
