"""A check's report in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ciga.data.check.report import Report

#: The number of rows that are shown of each reason.
LISTED_ROWS = 5


def view(report: Report) -> Any:
    """The report as one rich renderable."""
    from rich.console import Group
    from rich.text import Text

    blocks = [_splits(report), _duplicates(report), _shifts(report)]
    if report.similarity:
        blocks.append(_similarity(report.similarity))
    if report.environments:
        blocks.append(_environments(report.environments))
    if report.rejected:
        blocks.append(_rejected(report))
    warnings = report.warnings()
    blocks.append(Text("Look at", style="bold") if warnings else Text("Nothing to look at."))
    blocks += [Text(f"  ! {warning}", style="yellow") for warning in warnings]
    shown = {k: note for k, note in report.notes.items() if k[:4] != "all." and k != "similarity"}
    blocks += [Text(f"  {key}: {note}", style="dim") for key, note in shown.items()]
    return Group(*blocks)


def _splits(report: Report) -> Any:
    from rich.table import Table

    table = Table(title=report.name, title_justify="left")
    for column in ("split", "graphs", "nodes", "edges", "class shares", "distance from train", "p (Holm)"):
        table.add_column(column, justify="left" if column == "split" else "right")
    for part, stats in report.splits.items():
        shares = [n / stats["graphs"] for n in stats["class_counts"].values()]
        shift = report.label_shift.get(part)
        table.add_row(
            part,
            f"{stats['graphs']:,}",
            f"{stats['nodes_mean']:.2f}",
            f"{stats['edges_mean']:.2f}",
            " ".join(f"{c}:{s:.2f}" for c, s in zip(stats["class_counts"], shares, strict=True)),
            f"{shift['effect']:.2f}" if shift else "",
            f"{shift['p_holm']:.1e}" if shift else "",
        )
    return table


def _duplicates(report: Report) -> Any:
    from rich.table import Table

    kinds = list(report.duplicates)
    table = Table("the same graph", *kinds, title="Duplicates (with another label)", title_justify="left")
    for pair in report.duplicates["exact"]:
        cells = []
        for kind in kinds:
            found = report.duplicates[kind].get(pair)
            conflict = f" ({found['other_label']})" if found and found["other_label"] else ""
            cells.append(f"{found['graphs']:,}{conflict}" if found else "?")
        table.add_row(pair, *cells)
    return table


def _shifts(report: Report) -> Any:
    from rich.table import Table

    table = Table(title="Shift from train (KS distance, Cohen's d)", title_justify="left")
    for column in ("split", "what", "train", "here", "KS", "d", "p (Holm)"):
        table.add_column(column, justify="left" if column in ("split", "what") else "right")
    for part, shift in report.shifts.items():
        features = shift["features"]
        for entry in [shift["nodes"], shift["edges"], shift["degree"], *features["largest"][:3]]:
            d = entry["cohens_d"]
            table.add_row(
                part,
                entry["what"],
                f"{entry['train_mean']:.3g}",
                f"{entry['mean']:.3g}",
                f"{entry['effect']:.2f}",
                "-" if d is None else f"{d:+.2f}",
                f"{entry['p_holm']:.1e}",
                style="bold" if entry["shifted"] else "",
            )
        table.add_row(
            part, f"{features['shifted']} of {features['tested']} features shifted", end_section=True
        )
    return table


def _similarity(found: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = "Tanimoto similarity to nearest in train"
    table = Table("split", title=title, title_justify="left")
    for column in ("10 % below", "median", "90 % below"):
        table.add_column(column, justify="right")
    for part, values in found.items():
        table.add_row(part, *(f"{values[key]:.2f}" for key in ("low", "median", "high")))
    # The sentence speaks of test molecules: those of the last part, which are test rows where there are any.
    tested = next(found[part] for part in ("ood_test", "id_test", *reversed(found)) if part in found)
    return Group(table, Text(tested["verdict"]))


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
    from rich.table import Table
    from rich.text import Text

    title = f"Set aside: {report.notes.get('rejected', len(report.rejected))}"
    table = Table("file", "row", "reason", "value", "what to do", title=title, title_justify="left")
    for reason in dict.fromkeys(bad.reason for bad in report.rejected):
        rows = [bad for bad in report.rejected if bad.reason == reason]
        for bad in rows[:LISTED_ROWS]:
            # Text, because a value may hold what rich takes for markup: C[C@H]
            cells = (bad.file, str(bad.row), bad.reason, bad.value, bad.detail)
            table.add_row(*(Text(cell) for cell in cells))
        if len(rows) > LISTED_ROWS:
            table.add_row("…", "", f"{len(rows) - LISTED_ROWS:,} more")
    return table
