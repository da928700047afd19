"""The paper's figures, read from `paper.toml`, and one of ours over all its tables."""

from __future__ import annotations

from functools import cache
from typing import Any

from ciga.bench.exhibit import Cell, Figure, Line, Panel, Picture
from ciga.bench.paper import Ranks, source


@cache
def figures() -> tuple[Figure, ...]:
    """All of them."""
    return (_failure(), _sensitivity("alpha"), _sensitivity("beta"), _subgraphs(), _ranks(), _theory())


def _failure() -> Figure:
    raw = source()["failure"]
    seeds = tuple(range(1, raw["seeds"] + 1))

    def line(picture: dict[str, Any], kind: str, spec: dict[str, Any]) -> Line:
        dataset = "failure-struc" if kind == "Struc" else picture["mixed"]
        points = []
        for bias in raw["biases"]:
            data = {"bias": bias, "size_shift": picture["size_shift"], **raw["data"]}
            settings = spec.get("settings", {})
            points.append((bias, Cell(dataset, spec["method"], data=data, settings=settings, seeds=seeds)))
        return Line(f"{kind}-{spec['label']}", tuple(points))

    pictures = []
    for picture in raw["figures"]:
        panels = []
        for panel in raw["panels"]:
            lines = tuple(line(picture, kind, spec) for kind in ("Struc", "Mixed") for spec in panel["lines"])
            panels.append(Panel(panel["key"], panel["title"], "bias", "accuracy", 100, lines))
        pictures.append(Picture(picture["key"], picture["title"], tuple(panels)))
    return Figure(
        "figure-failure",
        "Failures of existing objectives and architectures",
        "appendix (fig:good_fail_*_appdx): 4 figures of 3 panels",
        "lines",
        tuple(pictures),
        numbers=raw["numbers"],
        quick=raw["quick"],
    )


def _sensitivity(name: str) -> Figure:
    """CIGAv1 over alpha; CIGAv2 over beta at a fixed alpha."""
    raw = source()["sensitivity"]
    method, label = ("ciga-v1", "CIGAv1") if name == "alpha" else ("ciga-v2", "CIGAv2")
    panels = []
    for spec in raw["panels"]:
        fixed = {} if name == "alpha" else {"alpha": spec["alpha"]}
        seeds = tuple(range(1, spec["seeds"] + 1))
        points = tuple(
            (
                x,
                Cell(
                    spec["dataset"],
                    method,
                    data=spec.get("data", {}),
                    settings={**fixed, name: x},
                    seeds=seeds,
                ),
            )
            for x in raw["grid"]
        )
        title = spec["title"] + "".join(f", {k} = {v}" for k, v in fixed.items())
        lines, extra = (Line(label, points),), spec.get("extra", False)
        panels.append(Panel(spec["dataset"], title, name, spec["metric"], spec["scale"], lines, extra))
    weight = "contrastive loss" if name == "alpha" else "hinge loss"
    picture = Picture(name, f"Sensitivity to {name}, the weight of the {weight}", tuple(panels))
    numbers = raw["numbers"][name]
    return Figure(
        f"figure-{name}",
        picture.title,
        f"fig:hp_sen_{name}",
        "lines",
        (picture,),
        numbers=numbers,
        quick=raw["quick"],
    )


def _subgraphs() -> Figure:
    raw = source()["subgraphs"]
    pictures = [
        Picture(
            s["key"],
            s["title"],
            cell=Cell(s["dataset"], raw["method"], data=s.get("data", {})),
            extra=s.get("extra", False),
        )
        for s in [*raw["motifs"], *raw["molecules"]]
    ]
    return Figure(
        "figure-subgraphs",
        "What CIGAv2 keeps of a graph",
        "appendix (fig:spmotif_b6_appdx to fig:size_viz_inact_appdx)",
        "subgraphs",
        tuple(pictures),
        raw["examples"],
        numbers=raw["numbers"],
        quick=raw["quick"],
    )


def _ranks() -> Figure:
    return Ranks(
        "figure-ranks",
        "Average ranks over the sixteen datasets, with their critical difference",
        "ours, from the paper's three main tables",
        "ranks",
    )


def _theory() -> Figure:
    return Figure(
        "figure-theory",
        "The theorems on worlds that are enumerated exactly",
        "ours, on Theorem 3.1 and its appendix",
        "theory",
    )
