"""Predictions for a file of any size, in constant memory: a chunk in, a chunk out.

The output has the columns of the input, in their order, then those of `added_columns`. A row that cannot be
used keeps its cells and says why in the column `error`; it does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from ciga.data.reading import featurise as molecules
from ciga.data.reading import tables
from ciga.data.reading.graph_files import is_graph_file, read_graph_chunks
from ciga.data.reading.row_names import name_column
from ciga.data.reading.smiles_column import find_smiles_column
from ciga.errors import UsageError, unknown
from ciga.graphs.store import GraphStore
from ciga.models.model import Model
from ciga.models.output import check_output, writer
from ciga.models.shift import Gauge, Shift

#: Rows in memory at a time.
CHUNK = 4096
#: `report(rows, bad)`: rows written so far, and how many of them have an error.
Report = Callable[[int, int], None]


@dataclass
class Chunk:
    """Some rows of the input: all cells in order, the graphs of the good ones, what is wrong with the bad."""

    cells: list[list[str]]
    lines: list[int]  # where each row stands in the file, as an editor shows it
    store: GraphStore | None
    places: list[int]  # the row of each graph
    errors: dict[int, str] = field(default_factory=dict)


@dataclass
class Totals:
    """What went through."""

    rows: int = 0
    errors: int = 0
    flagged: int = 0
    seen: int | None = None  # rows that are in the training data; None where the model does not remember them
    classes: dict[str, int] = field(default_factory=dict)
    similarity: list[int] = field(default_factory=lambda: [0] * 101)  # rows by their nearest, in per cent

    @property
    def nearest(self) -> float | None:
        """The median similarity of the rows to their nearest training graphs; None where it is not known."""
        total = sum(self.similarity)
        below = 0
        for per_cent, rows in enumerate(self.similarity):
            below += rows
            if total and 2 * below >= total:
                return per_cent / 100
        return None


def added_columns(model: Model) -> list[str]:
    """What is written beside the input's own columns."""
    each = [f"p({name})" for name in model.names]
    shift = ["shift", "shift_score", "shift_reason"] if model.gauge is not None else []
    if model.gauge is not None and model.gauge.neighbours is not None:
        shift += ["nearest", "nearest_row", "similarity"]
    return ["prediction", "probability", *each, "uncertainty", *shift, "error"]


def predict_file(
    model: Model,
    source: str | Path,
    out: str | Path,
    *,
    smiles: str | None = None,
    chunk: int = CHUNK,
    workers: int | None = None,
    report: Report | None = None,
) -> Totals:
    """Read `source`, write predictions to `out` (CSV, TSV, also .gz, Parquet; `-` is standard output).

    Args:
        model: The model.
        source: A table of SMILES, or a file of graphs.
        out: The file to write; `-` is standard output.
        smiles: The column of SMILES; None for the model's, or the obvious one.
        chunk: The number of rows in memory at a time.
        workers: Processes that read molecules; None: as many as pay.
        report: Told how far it is.
    """
    check_output(out)
    header, chunks = read_chunks(model, Path(source), smiles, chunk, workers)
    if str(out) != "-" and Path(out).exists() and Path(out).resolve() == Path(source).resolve():
        raise UsageError("The predictions would replace the file they are made from: choose another --out.")
    taken = set(header)
    added = [f"ciga_{name}" if name in taken else name for name in added_columns(model)]
    totals = Totals()
    with writer(out, header, added) as write:
        for piece in chunks:
            found = _predict(model, piece, totals)
            write([[*cells, *values] for cells, values in zip(piece.cells, found, strict=True)])
            totals.rows += len(piece.cells)
            totals.errors += len(piece.errors)
            if report is not None:
                report(totals.rows, totals.errors)
    return totals


def predict_smiles(model: Model, smiles: Sequence[str]) -> list[dict[str, str]]:
    """For each molecule what `predict_file` would write, by column."""
    if model.featuriser["kind"] != "smiles":
        raise UsageError("The model was fitted on graphs, not on molecules: give it a file of graphs.")
    found = molecules.featurise(smiles)
    errors = {e.row: f"{e.reason}: {e.detail}".rstrip(": ") for e in found.errors}
    cells = [[text] for text in smiles]
    store = found.store if found.rows else None
    piece = Chunk(cells, list(range(1, len(cells) + 1)), store, found.rows, errors)
    header = ["smiles", *added_columns(model)]
    answers = zip(piece.cells, _predict(model, piece, Totals()), strict=True)
    return [dict(zip(header, [*own, *values], strict=True)) for own, values in answers]


def _predict(model: Model, piece: Chunk, totals: Totals) -> list[list[str]]:
    """The added cells of each row of a chunk."""
    width = len(added_columns(model))
    out = [[""] * (width - 1) + [piece.errors.get(i, "")] for i in range(len(piece.cells))]
    if piece.store is None:
        return out
    seen = None if model.gauge is None else model.gauge.seen(piece.store)
    if seen is not None:
        totals.seen = (totals.seen or 0) + int(seen.sum())
    for batch in piece.store.batches(256, chunk=4):
        answer = model.predict(batch)
        best = answer.probability.argmax(1).tolist()
        shift = None if model.gauge is None else model.gauge.measure(batch, answer.embedded, piece.store)
        flags, scores, reasons = (
            ([], [], []) if shift is None else (shift.flag.tolist(), shift.score.tolist(), shift.reasons())
        )
        probability, spread = answer.probability.tolist(), answer.spread.tolist()
        for i, graph in enumerate(batch.index.tolist()):
            name = model.names[best[i]]
            values = [name, f"{probability[i][best[i]]:.6f}", *(f"{p:.6f}" for p in probability[i])]
            values.append("" if spread[i] != spread[i] else f"{spread[i]:.6f}")
            if shift is not None:
                values += ["yes" if flags[i] else "no", f"{scores[i]:.4f}", reasons[i]]
                totals.flagged += flags[i]
                values += _nearest(model.gauge, shift, i, totals)
            totals.classes[name] = totals.classes.get(name, 0) + 1
            out[piece.places[graph]][:-1] = values
    return out


def _nearest(gauge: Gauge | None, shift: Shift, i: int, totals: Totals) -> list[str]:
    """The nearest training graph of a row: its name, its row in the training file, how similar it is."""
    if gauge is None or gauge.neighbours is None or shift.nearest is None:
        return []
    place, alike = int(shift.nearest.place[i]), float(shift.nearest.similarity[i])
    totals.similarity[round(100 * alike)] += 1
    return [gauge.neighbours.name(place), str(gauge.neighbours.rows[place]), f"{alike:.4f}"]


# ---------------------------------------------------------------- reading


def read_chunks(
    model: Model, path: Path, smiles: str | None = None, size: int = CHUNK, workers: int | None = None
) -> tuple[list[str], Iterator[Chunk]]:
    """The columns of a file, and its rows chunk by chunk as graphs the model can read.

    Args:
        model: The model that will read the graphs.
        path: A table of SMILES, or a file of graphs.
        smiles: The column of SMILES; None for the model's, or the obvious one.
        size: The number of rows in a chunk.
        workers: Processes that read molecules; None: as many as pay.
    """
    if not path.is_file():
        raise UsageError(f"There is no file {path}.")
    if model.featuriser["kind"] == "smiles":
        if not tables.is_table(path):
            raise UsageError(
                f"The model reads tables of SMILES (.csv, .tsv, .parquet …), which {path} is not."
            )
        header = tables.columns_of(path)
        column = smiles or find_smiles_column(path, str(model.featuriser["column"]))
        if column not in header:
            raise unknown(f"column in {path}", column, header)
        return header, _table_chunks(path, header, column, size, workers)
    if not is_graph_file(path):
        raise UsageError(f"The model reads graphs (.jsonl, .json, .safetensors, .pt), which {path} are not.")
    if not path.stat().st_size:
        raise UsageError(f"{path} is empty.")
    widths = (model.spec.features or -1, model.spec.edge_features or -1)
    first = next(read_graph_chunks(path, size, widths))
    if not first.rows:
        raise UsageError(f"The model cannot read the graphs of {path}. The first: {first.rejected[0]}.")
    header = ["row", *first.values]
    return header, _graph_chunks(model, path, header[1:], size, widths)


def _table_chunks(
    path: Path, header: list[str], column: str, size: int, workers: int | None
) -> Iterator[Chunk]:
    for table in tables.read_chunks(path, header, size):
        bad = {r.row: r for r in table.rejected}
        lines = sorted([*table.rows, *bad])
        places = {line: i for i, line in enumerate(lines)}
        values = zip(*(table.values[name] for name in header), strict=True)
        good = dict(zip(table.rows, values, strict=True))
        cells = [list(good[line]) if line in good else _fit(bad[line].cells, len(header)) for line in lines]
        errors = {places[r.row]: f"{r.reason}: {r.detail}".rstrip(": ") for r in table.rejected}
        texts = table.values[column]
        found = molecules.featurise(texts, workers=workers)
        errors |= {places[table.rows[e.row]]: f"{e.reason}: {e.detail}".rstrip(": ") for e in found.errors}
        rows = [places[table.rows[i]] for i in found.rows]
        yield Chunk(cells, lines, found.store if rows else None, rows, errors)


def _fit(cells: Sequence[str], width: int) -> list[str]:
    """A row of `width` cells: empty ones added, surplus ones cut off, what is not UTF-8 as an escape."""
    text = [c.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0") for c in cells[:width]]
    return text + [""] * (width - len(text))


def _graph_chunks(
    model: Model, path: Path, names: Sequence[str], size: int, widths: tuple[int, int]
) -> Iterator[Chunk]:
    for found in read_graph_chunks(path, size, widths):
        if found.rows:
            model.check(found.store)
        bad = {r.row: f"{r.reason}: {r.value}".rstrip(": ") for r in found.rejected}
        lines = sorted([*found.rows, *bad])
        places = {line: i for i, line in enumerate(lines)}
        cells = [[str(line)] + [""] * len(names) for line in lines]
        for i, line in enumerate(found.rows):
            own = [found.values[n][i] if n in found.values else None for n in names]
            cells[places[line]][1:] = ["" if v is None else str(v) for v in own]
        errors = {places[line]: why for line, why in bad.items()}
        rows = [places[line] for line in found.rows]
        yield Chunk(cells, lines, found.store if rows else None, rows, errors)


# ---------------------------------------------------------------- a file as labelled graphs


@dataclass
class Labelled:
    """The graphs of a file, their labels where it has them (-1 elsewhere), and the rows left out."""

    store: GraphStore
    rows: list[int]  # the row of each graph in the file, as an editor shows it: below a header the first is 2
    errors: list[tuple[str, str]]
    cut: bool  # whether there were more rows than were asked for
    names: list[str] | None = None  # of the rows, where a column holds them


def read_labelled(
    model: Model, path: Path, *, smiles: str | None = None, label: str | None = None, most: int = 5000
) -> Labelled:
    """The first `most` graphs of a file, with labels from the column the model was trained on, if there.

    Args:
        model: The model that will read the graphs.
        path: A table of SMILES, or a file of graphs.
        smiles: The column of SMILES; None for the model's, or the obvious one.
        label: The column of labels; None for the model's, if it is there.
        most: The largest number of graphs.
    """
    header, chunks = read_chunks(model, path, smiles)
    column = label or str(model.featuriser.get("label", "y"))
    if label is not None and label not in header:
        raise unknown(f"column in {path}", label, header)
    at = header.index(column) if column in header else None
    called = name_column(header, (column, smiles or str(model.featuriser.get("column"))))
    names: list[str] | None = None if called is None else []
    stores, labels, rows, errors, cut = [], [], [], [], False
    for piece in chunks:
        if piece.store is not None:
            stores.append(piece.store)
        rows += [piece.lines[place] for place in piece.places]
        if names is not None:
            names += [piece.cells[place][header.index(str(called))] for place in piece.places]
        labels += [_class(model, piece.cells[place][at]) if at is not None else -1 for place in piece.places]
        errors += [(str(piece.lines[place]), why) for place, why in sorted(piece.errors.items())]
        if len(rows) >= most:
            cut = True
            break
    if not stores:
        raise UsageError(f"No row of {path} can be used. The first: row {errors[0][0]}, {errors[0][1]}.")
    store = GraphStore.concat(stores).labelled(torch.tensor(labels))
    if store.num_graphs > most:
        store, rows = store.subset(slice(0, most)), rows[:most]
    return Labelled(store, rows, errors, cut, names if names is None else names[:most])


def _class(model: Model, cell: str) -> int:
    """The class a cell names, or -1 for none of them."""
    from ciga.data.reading.cleaning import canonical, number

    threshold = model.featuriser.get("threshold")
    if threshold is not None:
        value = number(cell)
        name = "" if value is None else str(int(value >= threshold))
    else:
        name = canonical(cell.strip())
    return model.names.index(name) if name in model.names else -1
