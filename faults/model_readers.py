"""Readers of model folders: one method alone, and a mixture of methods with all that may stand beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_model(folder: Path) -> None:
    """A model of one method."""
    from tests.small_models import toy_model

    toy_model(seeds=1).save(folder / "model")


def write_mixture(folder: Path) -> None:
    """Two methods that answer together, fingerprints of the training graphs, and what the report shows."""
    from dataclasses import replace

    from tests.small_models import toy_model

    whole = toy_model(seeds=2, rival=True)
    replace(whole, shares={whole.method_name: 0.25, "erm": 0.75}).save(folder / "model")


def predict(folder: Path) -> Any:
    """What the model says of four graphs."""
    from ciga.models.model import Model
    from tests.small_models import toy_splits

    model = Model.load(folder / "model")
    batch = toy_splits().train.subset(slice(0, 4)).batch(slice(None))
    seen = model.predict(batch)
    assert bool(seen.probability.isfinite().all()), "probabilities that are not numbers"
    assert bool((seen.probability >= 0).all()), "probabilities below zero"
    assert bool((seen.probability.sum(1) - 1).abs().max() < 1e-4), "probabilities that do not add up"
    shift = model.gauge.measure(batch, seen.embedded) if model.gauge else None
    if model.gauge and model.gauge.neighbours and shift and shift.nearest:
        [model.gauge.neighbours.name(place) for place in shift.nearest.place.tolist()]
    return [seen.probability.tolist(), shift.score.tolist() if shift else []]


def report(folder: Path) -> Any:
    """The page that `ciga explain` writes of a model alone."""
    from ciga.explain.report import report_model
    from ciga.models.model import Model

    model = Model.load(folder / "model")
    report_model(model, None, folder / "report.html", title="a model")
