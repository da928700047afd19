"""A check's report in the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ciga.data.reading.feature_names import with_names

if TYPE_CHECKING:
    from ciga.data.check.report import Report

#: The number of rows that are shown of each reason.
LISTED_ROWS = 5
#: Notes that have their own place above.
SAID = ("similarity", "rejected")


def view(report: Report) -> Any:
    """The report as one rich renderable; columns of molecules have their names."""
    from rich.console import Group
    from rich.text import Text

    say: Callable[[str], str] = with_names if report.similarity else str
    blocks = [_splits(report), Text(), _duplicates(report), Text(), *_shifts(report, say)]
    if report.similarity:
        blocks += [Text(), *_similarity(report.similarity)]
    if report.environments:
        blocks += [Text(), _environments(report.environments)]
    if report.rejected:
        blocks += [Text(), _rejected(report)]
    warnings = report.warnings()
    blocks += [Text(), Text("Look at" if warnings else "Nothing to look at.", style="bold")]
    blocks += [Text(f"! {say(warning)}", style="yellow") for warning in warnings]
    shown = {k: note for k, note in report.notes.items() if k[:4] != "all." and k not in SAID}
    blocks += [Text(f"{key}: {note}", style="dim") for key, note in shown.items()]
    return Group(*blocks)


def _table(title: str, *columns: str, words: int = 1) -> Any:
    """An open table; the first `words` columns are words, the others numbers."""
    from rich import box
    from rich.table import Table

    look = {"title_justify": "left", "title_style": "bold", "box": box.SIMPLE_HEAD, "show_edge": False}
    table = Table(title=title, padding=(0, 1, 0, 0), **look)  # type: ignore[arg-type]
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < words else "right")
    return table


def _splits(report: Report) -> Any:
    table = _table(report.name, "split", "graphs", "nodes", "edges", "class: share", "differs by", "p")
    for part, stats in report.splits.items():
        shares = [n / stats["graphs"] for n in stats["class_counts"].values()]
        shift = report.label_shift.get(part)
        table.add_row(
            part,
            f"{stats['graphs']:,}",
            f"{stats['nodes_mean']:.2f}",
            f"{stats['edges_mean']:.2f}",
            "  ".join(f"{c}: {s:.2f}" for c, s in zip(stats["class_counts"], shares, strict=True)),
            f"{shift['effect']:.2f}" if shift else "",
            f"{shift['p_holm']:.2g}" if shift else "",
        )
    return table


def _duplicates(report: Report) -> Any:
    from rich.text import Text

    kinds = list(report.duplicates)
    pairs = list(report.duplicates["exact"])
    found = [report.duplicates[kind].get(pair, {"graphs": 1}) for kind in kinds for pair in pairs]
    if not any(one["graphs"] for one in found):
        return Text(f"No graph is in two parts (compared by: {', '.join(kinds)}).")
    table = _table("In two parts (with another label)", "split", *kinds)
    for pair in pairs:
        cells = []
        for kind in kinds:
            found = report.duplicates[kind].get(pair)
            conflict = f" ({found['other_label']})" if found and found["other_label"] else ""
            cells.append(f"{found['graphs']:,}{conflict}" if found else "?")
        table.add_row(pair, *cells)
    return table


def _shifts(report: Report, say: Callable[[str], str]) -> list[Any]:
    from rich.text import Text

    title = "The largest differences from train"
    table = _table(title, "split", "what", "train", "here", "distance", "d", "p", words=2)
    shifted = []
    for part, shift in report.shifts.items():
        features = shift["features"]
        entries = [shift["nodes"], shift["edges"], shift["degree"], *features["largest"][:3]]
        for entry in entries:
            d = entry["cohens_d"]
            table.add_row(
                part,
                say(entry["what"]),
                f"{entry['train_mean']:.3g}",
                f"{entry['mean']:.3g}",
                f"{entry['effect']:.2f}",
                "-" if d is None else f"{d:+.2f}",
                f"{entry['p_holm']:.2g}",
                style="bold" if entry["shifted"] else "",
                end_section=entry is entries[-1],
            )
        shifted.append(f"{features['shifted']} of {features['tested']} in {part}")
    legend = (
        "Bold: sure, and large enough to matter. distance: Kolmogorov-Smirnov, from 0 to 1; d: Cohen's, in "
        "standard deviations; p: after Holm's correction for the number of tests."
    )
    return [table, Text(f"Features that shifted: {', '.join(shifted)}."), Text(legend, style="dim")]


def _similarity(found: dict[str, Any]) -> list[Any]:
    from rich.text import Text

    title = "Tanimoto similarity to the nearest in train"
    table = _table(title, "split", "10 % are below", "median", "90 % are below")
    for part, values in found.items():
        table.add_row(part, *(f"{values[key]:.2f}" for key in ("low", "median", "high")))
    # The sentence speaks of test molecules: those of the last part, which are test rows where there are any.
    tested = next(found[part] for part in ("ood_test", "id_test", *reversed(found)) if part in found)
    return [table, Text(tested["verdict"])]


def _environments(found: dict[str, Any]) -> Any:
    from rich.text import Text

    unseen = ", ".join(f"{count:,} of {part}" for part, count in found["graphs_in_unseen"].items() if count)
    return Text(
        f"{found['environments']:,} training environments of {found['graphs_least']:,} to "
        f"{found['graphs_most']:,} graphs (median {found['graphs_median']:g}); "
        f"{len(found['single_class']):,} have one class only "
        f"({found['single_class_share']:.0%} of the graphs)."
        + (f" Graphs in environments that train has not: {unseen}." if unseen else "")
    )


def _rejected(report: Report) -> Any:
    from rich.text import Text

    title = f"Set aside: {report.notes.get('rejected', len(report.rejected))}"
    table = _table(title, "file", "row", "reason", "value", "what to do", words=5)
    for reason in dict.fromkeys(bad.reason for bad in report.rejected):
        rows = [bad for bad in report.rejected if bad.reason == reason]
        for bad in rows[:LISTED_ROWS]:
            # Text, because a value may hold what rich takes for markup: C[C@H]
            cells = (bad.file, str(bad.row), bad.reason, bad.value, bad.detail)
            table.add_row(*(Text(cell) for cell in cells))
        if len(rows) > LISTED_ROWS:
            table.add_row("…", "", f"{len(rows) - LISTED_ROWS:,} more")
    return table
