"""The name of each row of a table (a compound's, mostly), where a column holds one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ciga.data.reading import tables
from ciga.errors import CigaError
from ciga.graphs.store import GraphStore

#: Columns that name a compound, the best first; spelling, blanks and underscores do not matter.
COLUMNS = (
    "name", "compoundname", "moleculename", "drugname", "compound", "molecule", "drug", "title", "compoundid",
    "moleculechemblid", "chemblid", "moleculeid", "molid", "cid", "cas", "id",
)  # fmt: skip


def name_column(header: Sequence[str], taken: Sequence[str] = ()) -> str | None:
    """The column of a table that names its rows, if there is one; `taken` columns mean something else."""
    plain = {re.sub(r"[\W_]", "", name.lower()): name for name in reversed(header) if name not in taken}
    return next((plain[name] for name in COLUMNS if name in plain), None)


def row_names(store: GraphStore, source: Mapping[str, Any]) -> list[str] | None:
    """The names of these molecules, read again from the table they came from; empty where a cell is.

    Names are not part of the data: None where the file has gone or has no such column.

    Args:
        store: graphs with the column `row`, the line in the file, and `file` where there are several.
        source: the dataset's name and options.
    """
    lines, files, options = store.columns.get("row"), store.columns.get("file"), source.get("options", {})
    if source.get("dataset") not in ("molecules", "csv") or lines is None:
        return None
    places = [str(f) for f in files] if files is not None else [str(options["path"])] * store.num_graphs
    taken = [str(options.get(role)) for role in ("smiles", "label", "env")]
    known: dict[tuple[str, int], str] = {}
    for place in dict.fromkeys(places):
        path = Path(place).expanduser()
        try:
            column = name_column(tables.columns_of(path), taken)
            table = tables.read_table(path, [column]) if column is not None else tables.Table({})
        except (CigaError, OSError):
            continue
        cells = table.values[column] if column is not None else []
        known |= {(place, row): cell for row, cell in zip(table.rows, cells, strict=True)}
    if not known:
        return None
    return [known.get((place, int(row)), "") for place, row in zip(places, lines, strict=True)]
