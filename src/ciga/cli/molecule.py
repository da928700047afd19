"""`ciga predict MODEL --smiles …`: what a model says of one molecule, as a small table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from ciga.errors import UsageError

if TYPE_CHECKING:
    from ciga.models.model import Model


def print_answer(model: Model, smiles: str, as_json: bool) -> None:
    """The columns of a file of predictions, one below the other, for one molecule."""
    from rich.console import Console

    from ciga.cli.screen import listing
    from ciga.models.stream import predict_smiles

    answer = predict_smiles(model, [smiles])[0]
    if wrong := answer.pop("error"):
        raise UsageError(f"The molecule {smiles[:80]!r} cannot be read: {wrong}.")
    if as_json:
        typer.echo(json.dumps(answer))
        return
    view = listing("", "answer")
    view.columns[0].no_wrap = True
    view.columns[1].overflow = "fold"
    for name, value in answer.items():
        if value:
            view.add_row(name, value)
    Console(markup=False, highlight=False).print(view)
