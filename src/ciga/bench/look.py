"""One look for every figure: colours for colour-blind eyes and grey printers, SVG and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ciga.bench.grid import Variation
from ciga.explain.draw import pyplot
from ciga.files import atomic

# Okabe and Ito's colours, in an order of falling lightness contrast between neighbours.
COLOURS = ("#0072B2", "#E69F00", "#000000", "#CC79A7", "#009E73", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
NAMES = {"accuracy": "test accuracy (%)", "roc_auc": "test ROC-AUC (%)", "mcc": "test MCC"}
#: One look for every figure: as wide as a page, letters of its footnotes, no ink that says nothing.
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "figure.titlesize": 10,
    "figure.titleweight": "bold",
    "svg.fonttype": "none",
    "svg.hashsalt": "ciga",
}


def save(figure: Any, stem: Path) -> list[Path]:
    """Both formats, whole or not at all."""
    paths = []
    for suffix in ("svg", "png"):
        path = stem.with_name(f"{stem.name}.{suffix}")
        about = {"Date": None} if suffix == "svg" else None
        with atomic(path) as temporary:
            figure.savefig(temporary, format=suffix, dpi=200, metadata=about)
        paths.append(path)
    pyplot().close(figure)
    return paths


def named(title: str, variation: Variation) -> str:
    """A title that says what is not as in the paper."""
    return f"{title} ({variation})" if str(variation) else title


def greek(text: str) -> str:
    """A label with the paper's letters."""
    return text.replace("alpha", "α").replace("beta", "β")
