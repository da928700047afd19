"""What a method must return, checked where it is first used: a mistake is one sentence, not a traceback."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ciga.errors import UsageError
from ciga.methods.base import Inference, Method
from ciga.registry import source_of


def check_terms(method: Method[Any], terms: Any) -> None:
    """Refuse what is not a dict of scalar terms that can be minimised."""
    where = source_of(type(method))
    if not isinstance(terms, dict) or not terms:
        what = "an empty dict" if isinstance(terms, dict) else f"a {type(terms).__name__}"
        raise UsageError(
            f"{where}: loss returned {what}, write  return {{'risk': …}}  with a name for each term."
        )
    for name, term in terms.items():
        if not isinstance(term, Tensor):
            raise UsageError(
                f"{where}: the loss term '{name}' is a {type(term).__name__}, return the tensor itself "
                "(without .item() or float())."
            )
        if term.dim():
            raise UsageError(
                f"{where}: the loss term '{name}' has the shape {tuple(term.shape)}, write  .mean()."
            )
        if not term.requires_grad:
            raise UsageError(
                f"{where}: the loss term '{name}' has no gradient, compute it from what the network returns "
                "(without .detach() or torch.no_grad())."
            )


def check_inference(method: Method[Any], found: Any, graphs: int) -> None:
    """Refuse what is not an `Inference` on every graph of a batch, with a partition where one is promised."""
    where = source_of(type(method))
    if not isinstance(found, Inference):
        raise UsageError(
            f"{where}: infer returned a {type(found).__name__}, write  "
            "return Inference(logits, partition, representation)."
        )
    for name in ("logits", "representation"):
        shape = tuple(getattr(found, name).shape)
        if len(shape) != 2 or shape[0] != graphs:
            raise UsageError(f"{where}: {name} of infer has the shape {shape}, but needs a row per graph.")
    if (found.partition is not None) is not method.extracts:
        asked = "a partition of its edges" if method.extracts else "no partition"
        raise UsageError(f"{where}: with extracts = {method.extracts}, infer must return {asked}.")
