"""Per-graph columns of a store, tensors or strings, and their form in a file of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor

Column = Tensor | list[str]


def take(column: Column, rows: Tensor) -> Column:
    """The column's values at `rows`."""
    return column[rows] if isinstance(column, Tensor) else [column[i] for i in rows.tolist()]


def join(parts: list[Column]) -> Column:
    """One column after the other; strings, if any of them holds strings."""
    tensors = [p for p in parts if isinstance(p, Tensor)]
    if len(tensors) == len(parts):
        return torch.cat(tensors)
    return [str(v) for p in parts for v in (p.tolist() if isinstance(p, Tensor) else p)]


def to_tensors(columns: Mapping[str, Column]) -> dict[str, Tensor]:
    """Columns as named tensors: strings are UTF-8 bytes, and where each ends."""
    out: dict[str, Tensor] = {}
    for key, column in columns.items():
        if isinstance(column, Tensor):
            out[f"column.{key}"] = column
        else:
            raw = [v.encode() for v in column]
            out[f"text.{key}"] = torch.tensor(list(b"".join(raw)), dtype=torch.uint8)
            out[f"ends.{key}"] = torch.tensor([len(r) for r in raw], dtype=torch.int64).cumsum(0)
    return out


def from_tensors(tensors: dict[str, Tensor]) -> dict[str, Column]:
    """The columns among named tensors, which are taken out of the dictionary."""
    columns: dict[str, Column] = {}
    for name in list(tensors):
        kind, _, key = name.partition(".")
        if kind == "column":
            columns[key] = tensors.pop(name)
        elif kind == "text":
            columns[key] = _decode(tensors.pop(name), tensors.pop(f"ends.{key}"))
    return columns


def _decode(text: Tensor, ends: Tensor) -> list[str]:
    raw, stops = text.numpy().tobytes(), [0, *ends.tolist()]
    if any(a > b for a, b in pairwise([*stops, len(raw)])):  # or a few bytes could be read over and over
        raise ValueError("the ends of texts are not in order")
    return [raw[a:b].decode() for a, b in pairwise(stops)]
