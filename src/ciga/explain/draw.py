"""Pictures of graphs with the kept subgraph drawn over them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ciga.errors import MissingExtra
from ciga.explain.layout import CAREFUL, stress_layout
from ciga.files import atomic

# Okabe-Ito colours: told apart by colour-blind readers, and by lightness in grey.
TRUE, KEPT, REST = "#E69F00", "#0072B2", "#BBBBBB"


def pyplot() -> Any:
    """matplotlib without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("matplotlib", "report") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_graph(axes: Any, edge_index: Tensor, nodes: int, kept: Tensor, truth: Tensor | None) -> None:
    """One graph: thick pale lines are the true subgraph, dark lines what was kept, thin lines the rest.

    Args:
        axes: Matplotlib axes to draw on.
        edge_index: The edges [2, E].
        nodes: The number of nodes.
        kept: Whether an edge was kept [E].
        truth: Whether an edge is in the true subgraph [E], where that is known.
    """
    at = stress_layout(edge_index, nodes, CAREFUL)
    ends = edge_index.t().tolist()

    def line(chosen: Sequence[bool], **style: Any) -> None:
        for (u, v), yes in zip(ends, chosen, strict=True):
            if yes:
                axes.plot(*zip(at[u], at[v], strict=True), solid_capstyle="round", **style)

    line([True] * len(ends), color=REST, lw=0.8, zorder=1)
    if truth is not None:
        line(truth.tolist(), color=TRUE, lw=6, alpha=0.8, zorder=2)
    line(kept.tolist(), color=KEPT, lw=2.2, zorder=3)
    axes.scatter(at[:, 0], at[:, 1], s=9, color="#333333", zorder=4)
    axes.set_aspect("equal")
    axes.axis("off")


def gallery(
    rows: Sequence[tuple[str, Sequence[dict[str, Any]]]], path: str | Path | Sequence[Path], title: str
) -> None:
    """A grid of graphs, one row per method, written as PNG or SVG by the ending of the path (or paths).

    Each graph is a dict with edge_index, nodes, kept, truth (or None) and caption.
    """
    plt = pyplot()
    from matplotlib.lines import Line2D

    columns = max(len(graphs) for _, graphs in rows)
    figure, axes = plt.subplots(
        len(rows),
        columns,
        figsize=(3.1 * columns, 3.1 * len(rows) + 0.9),
        squeeze=False,
        layout="constrained",
    )
    for line, (name, graphs) in zip(axes, rows, strict=True):
        for axis in line:
            axis.axis("off")
        for axis, graph in zip(line, graphs, strict=False):
            draw_graph(axis, graph["edge_index"], graph["nodes"], graph["kept"], graph["truth"])
            axis.set_title(graph["caption"], fontsize=9)
        line[0].text(-0.05, 0.5, name, transform=line[0].transAxes, rotation=90, va="center", ha="right")
    handles = [
        Line2D([], [], color=TRUE, lw=6, label="true motif"),
        Line2D([], [], color=KEPT, lw=2.2, label="kept edges"),
        Line2D([], [], color=REST, lw=1, label="other edges"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    for each in [path] if isinstance(path, str | Path) else path:
        suffix = Path(each).suffix.lstrip(".") or "png"
        with atomic(each) as temporary:
            figure.savefig(temporary, format=suffix, dpi=130)
    plt.close(figure)
