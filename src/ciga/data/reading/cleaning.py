"""From the cells of a table to rows that can be used: what is empty, misspelt or unlearnable is set aside."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ciga.data.reading import dates, split_rules, tables
from ciga.data.reading.tables import Rejected, is_missing
from ciga.errors import CigaError
from ciga.graphs.store import GraphStore

#: Raised when `clean_order` orders some rows in another way, so that caches of older ones are not taken.
ORDER_VERSION = 1
#: A column with more different numbers than this, some of them fractions, holds measurements.
MOST_FRACTIONS = 10
ROLES = {"smiles": "SMILES", "label": "label", "env": "environment"}


@dataclass
class Rows:
    """The rows still in play: their cells by role (`smiles`, `label`, `env`, `key`), and those set aside."""

    cells: dict[str, list[str]]
    at: list[tuple[str, int]] = field(default_factory=list)  # (file, line) of each row
    part: list[str] = field(default_factory=list)  # the part of each row; empty where a rule decides
    rejected: list[Rejected] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # in the order they were given
    graphs: GraphStore | None = None  # of these rows, where the file holds graphs

    def __len__(self) -> int:
        return len(self.at)

    @property
    def open(self) -> list[int]:
        """The rows whose part a rule has to decide."""
        return [i for i, part in enumerate(self.part) if not part]

    def drop(self, bad: Mapping[int, tuple[str, str, str]]) -> list[int]:
        """Set rows aside: row -> (reason, value, what to do). Returns which rows stay."""
        for row, (reason, value, advice) in sorted(bad.items()):
            file, line = self.at[row]
            self.rejected.append(Rejected(line, reason, value, advice, file))
        keep = [row for row in range(len(self)) if row not in bad]
        if not keep:
            listed = tables.summary(self.rejected)
            raise CigaError(f"No row can be used: {listed}. The first is {self.rejected[0]}.")
        if bad:
            self.cells = {role: [column[row] for row in keep] for role, column in self.cells.items()}
            self.at, self.part = [self.at[row] for row in keep], [self.part[row] for row in keep]
            self.graphs = self.graphs.subset(keep) if self.graphs is not None else None
        return keep

    def listed(self) -> list[Rejected]:
        """The rows set aside, in the order of the files."""
        return sorted(self.rejected, key=lambda bad: (self.files.index(bad.file), bad.row))


def drop_empty(rows: Rows, key: str | None) -> None:
    """Set aside rows with an empty cell; `key` is the name of the column the split looks at."""
    bad: dict[int, tuple[str, str, str]] = {}
    for role in reversed([*rows.cells]):
        for row, cell in enumerate(rows.cells[role]):
            if is_missing(cell):
                bad[row] = (f"missing {ROLES.get(role, key)}", cell, "fill it in or delete the row")
    rows.drop(bad)


def clean_labels(rows: Rows, column: str, threshold: float | None) -> None:
    """Labels in one spelling (or cut in two at `threshold`), those nobody else has set aside."""
    labels = rows.cells["label"]
    if threshold is None:
        rows.cells["label"] = [canonical(label) for label in labels]
    else:
        values = [number(label) for label in labels]
        advice = "with threshold=… every label is a number"
        bad = [i for i, value in enumerate(values) if value is None]
        rows.drop({i: ("label is not a number", labels[i], advice) for i in bad})
        rows.cells["label"] = [str(int(v >= threshold)) for v in values if v is not None]
    labels = rows.cells["label"]
    refuse_measurements(labels, column)
    advice = "a class needs at least two rows"
    rows.drop({i: ("label occurs once only", labels[i], advice) for i in lone(labels, column)})
    if len(set(rows.cells["label"])) < 2:
        only = rows.cells["label"][0]
        raise CigaError(f"Column '{column}' holds one class only ('{only}'): there is nothing to tell apart.")


def clean_split_names(rows: Rows) -> None:
    """Set aside rows whose split column says nothing known."""
    _, odd = split_rules.by_column(rows.cells["key"])
    advice = "write train, val, test, id_val, id_test, ood_val or ood_test"
    cut = set(rows.open)
    rows.drop({i: ("unknown split name", rows.cells["key"][i], advice) for i in odd if i in cut})


def clean_order(rows: Rows, column: str, time: bool = False) -> None:
    """Numbers are ordered as numbers, dates by time, and text as text unless the column tells the `time`.

    A few words among numbers are bad rows. What is no date among dates could stand anywhere: it is an error.
    """
    cells, cut = rows.cells["key"], rows.open
    words = [i for i in cut if number(cells[i]) is None]
    if 2 * len(words) < len(cut):
        advice = "most other rows hold numbers"
        rows.drop({i: (f"{column} is not a number", cells[i], advice) for i in words})
        return
    known = {text: dates.sortable(text) for text in {cells[i] for i in cut}}
    dated = [i for i in words if known[cells[i]] is not None or dates.is_unsure(cells[i])]
    if not time and 2 * len(dated) <= len(words):
        return
    for i in cut:
        text = known[cells[i]]
        if text is None:
            file, line = rows.at[i]
            cell = f"{tables.short(cells[i])!r} in column '{column}'"
            wrong = (
                "is a date whose day and month can be confused"
                if dates.is_unsure(cells[i])
                else "is not a date that can be read for certain"
            )
            raise CigaError(f"{file}, row {line}: {cell} {wrong}: write dates as YYYY-MM-DD.")
        cells[i] = text


def drop_unseen(rows: Rows) -> list[int]:
    """Set aside rows of classes without a training row; returns which rows stay."""
    labels = rows.cells["label"]
    trained = {label for label, part in zip(labels, rows.part, strict=True) if part == "train"}
    if len(trained) < 2:
        raise CigaError(f"All training rows are of class '{min(trained)}': split in another way.")
    advice = "no training row has this label"
    return rows.drop(
        {
            i: ("label never in training", label, advice)
            for i, label in enumerate(labels)
            if label not in trained
        }
    )


# ---------------------------------------------------------------- single cells


def number(text: str) -> float | None:
    """The finite number a cell holds, if it is one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def canonical(label: str) -> str:
    """One spelling for equal labels: `1`, `1.0` and `01` are the same; a word stays as it is."""
    try:
        return str(int(label))  # exact, however many digits
    except ValueError:
        value = number(label)
    if value is None:
        return label
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def names_of(cells: Sequence[str]) -> tuple[str, ...]:
    """The different cells, in the order of numbers if all are, else of the alphabet."""
    values = {cell: number(cell) for cell in set(cells)}
    if None in values.values():
        return tuple(sorted(values))
    return tuple(sorted(values, key=lambda cell: (values[cell] or 0.0, cell)))


def refuse_measurements(labels: Sequence[str], column: str) -> None:
    """Refuse a column of measured values: more than a few different numbers, and not all of them whole."""
    kinds = set(labels)
    values = [number(kind) for kind in kinds]
    measured = any(value is not None and not value.is_integer() for value in values)
    if measured and len(kinds) > MOST_FRACTIONS:
        low, *_, high = sorted(value for value in values if value is not None)
        raise CigaError(
            f"Column '{column}' holds {len(kinds)} different numbers from {low:g} to {high:g}: measurements, "
            f"not classes. Cut them in two, for example with --data threshold={(low + high) / 2:g}."
        )


def lone(labels: Sequence[str], column: str) -> list[int]:
    """The rows whose label no other row has: nothing can be learnt of it or checked on it.

    If that is so for most rows, the column holds measurements or names instead of classes: an error.
    """
    counts = Counter(labels)
    rows = [row for row, label in enumerate(labels) if counts[label] == 1]
    if len(rows) > len(labels) / 2 and len(counts) > 2:
        raise CigaError(
            f"{len(rows)} of {len(labels)} labels in column '{column}' occur once only: it holds no classes. "
            "Name another column, or cut measured values in two with threshold=…."
        )
    return rows
