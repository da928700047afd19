"""`ciga figure theory`: what the enumeration says, in four panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ciga.bench.theory.featurizers import BITS, featurizers, solutions_v1, solutions_v2
from ciga.bench.theory.lemma import count_violations
from ciga.bench.theory.linear import share_that_generalises
from ciga.bench.theory.world import KINDS, make_world

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#BBBBBB"
#: Label noise of the worlds of the middle panels; with 0.1 and above S can know more of Y than C does (PIIF).
NOISES = (0.0, 0.1, 0.3)
TEST_SIZES = (2, 4, 8, 16, 32)


def draw_theory(out: Path) -> list[Path]:
    """Write figure-theory.svg and .png into `out`; returns their paths."""
    from ciga.bench.look import STYLE, save
    from ciga.explain.draw import pyplot

    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(9.5, 7.5), layout="constrained")
        _contrast(axes[0, 0])
        _solutions(axes[0, 1])
        _lemma(axes[1, 0])
        _linear(axes[1, 1])
        paths: list[Path] = save(figure, out / "figure-theory")
        plt.close(figure)
    return paths


def _name(kept: tuple[str, ...]) -> str:
    return " ".join(kept) or "nothing"


def _contrast(axis: Any) -> None:
    """I(G_c; G~_c | Y) of every featurizer, by how the partner is drawn."""
    world = make_world("PIIF")
    by_cause, by_label = featurizers(world, "cause"), featurizers(world, "label")
    order = sorted(range(len(by_cause)), key=lambda i: by_cause[i].contrast)
    places = range(len(order))
    colours = [BLUE if {"c1", "c2"} <= set(by_cause[i].kept) else GREY for i in order]
    axis.barh(places, [by_cause[i].contrast for i in order], color=colours, height=0.7)
    axis.plot([by_label[i].contrast for i in order], places, "o", ms=4, color=ORANGE, zorder=3)
    axis.set_xlim(left=-0.04)  # the dots are at 0
    axis.set_yticks(places, [_name(by_cause[i].kept) for i in order], fontsize=7)
    axis.set_xlabel("I(G_c; G~_c | Y) in bits")
    axis.set_title("Contrast of every featurizer, with partners\nof the same cause (bars) or label (dots)")
    axis.grid(axis="y", visible=False)


def _solutions(axis: Any) -> None:
    """Does the solution equal C? For both objectives, kinds of world, and label noise."""
    rows = [f"{kind}, label noise {noise:g}" for kind in KINDS for noise in NOISES]
    columns = ["v1, size 1", "v1, size 2", "v1, size 3", "v2"]
    for y, (kind, noise) in enumerate((k, n) for k in KINDS for n in NOISES):
        world = make_world(kind, label_noise=noise)
        found = [*(solutions_v1(world, size) for size in (1, 2, 3)), solutions_v2(world)]
        for x, solutions in enumerate(found):
            right = [s.is_cause for s in solutions]
            shade = BLUE if all(right) else ORANGE if any(right) else GREY
            axis.add_patch(_square(x, y, shade))
            text = "C" if all(right) else "C or more" if any(right) else _name(solutions[0].kept)
            axis.text(
                x, y, text, ha="center", va="center", fontsize=7, color="white" if shade == BLUE else "black"
            )
    axis.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows, fontsize=7)
    axis.grid(visible=False)
    axis.set_title(f"What solves the objective\nC is two of the {len(BITS)} bits of a graph")


def _square(x: int, y: int, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, color=colour)


def _lemma(axis: Any) -> None:
    """I(C;Y) - I(S;Y) over random worlds."""
    counts = count_violations()
    axis.boxplot(
        [c.gap for c in counts],
        orientation="horizontal",
        widths=0.6,
        showfliers=False,
        whis=(0, 100),
        medianprops={"color": BLUE, "lw": 1.8},
    )
    axis.axvline(0, color=ORANGE, lw=1.8, zorder=1)
    names = [
        f"{c.kind}, {'label noise' if c.label_noise else 'no noise'}\n{c.violated} of {c.worlds} below 0"
        for c in counts
    ]
    axis.set_yticks(range(1, len(counts) + 1), names, fontsize=7)
    axis.set_xlabel("I(C;Y) − I(S;Y) in bits")
    axis.set_title("The lemma on random worlds\nwith H(C|Y) ≤ H(S|Y)")


def _linear(axis: Any) -> None:
    """The share of accepted classifiers that generalise, over the size of S in test."""
    axis.plot(TEST_SIZES, [100 * share_that_generalises(s) for s in TEST_SIZES], "o-", color=BLUE)
    axis.set_xscale("log", base=2)
    axis.set_xticks(TEST_SIZES, [str(s) for s in TEST_SIZES])
    axis.set_ylim(0, 100)
    axis.set_xlabel("largest |S| in test (training: 3, with the other sign)")
    axis.set_ylabel("% that generalise")
    axis.set_title("Linear FIIF: of all classifiers\nthat ERM and IRM accept")
