"""Hand-made records, and a tiny table to run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ciga.bench.exhibit import Cell, PaperTable
from ciga.bench.grid import Variation, configs, plans
from ciga.bench.paper import exhibit
from ciga.files import write_json
from ciga.runs.records import Config, Records

TINY = Variation(
    data={"train_per_class": "6", "val_per_class": "3", "test_per_class": "3"},
    settings={"epochs": "2", "layers": "2", "width": "8"},
)


@pytest.fixture(scope="session", autouse=True)
def shared_bytecode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes that tests start compile torch once, not each on its own, whatever the surroundings say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        if "PYTHONPYCACHEPREFIX" not in os.environ:
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        yield


RULES = ("id-val", "ood-val", "oracle", "last")


def record_of(
    config: Config, test: float, *, seconds: float = 2.0, rules: Sequence[str] = RULES
) -> dict[str, Any]:
    """A finished record of this configuration whose test scores are all `test`; each rule adds 0.01."""
    selected = {}
    for place, rule in enumerate(rules):
        value = test + 0.01 * (place - rules.index("ood-val") if "ood-val" in rules else place)
        scores = dict.fromkeys(("accuracy", "roc_auc", "mcc"), value)
        selected[rule] = {"epoch": 3, "ood_val": scores, "ood_test": scores}
    return {
        "hash": config.hash,
        "dataset": config.dataset,
        "method": config.method,
        "seed": config.seed,
        "protocol": config.protocol,
        "data": dict(config.data),
        "settings": dict(config.settings),
        "identity": {},
        "fingerprint": "0" * 32,
        "notes": {},
        "metric": "accuracy",
        "selection": "ood-val" if "ood-val" in rules else rules[0],
        "selected": selected,
        "epochs": 4,
        "seconds": seconds,
        "peak_memory_mb": 1.0,
        "device": "cpu",
        "threads": 1,
        "versions": {},
        "finished": "2026-01-01T00:00:00Z",
        "history": [],
    }


@pytest.fixture
def book(tmp_path: Path) -> Callable[..., Records]:
    """Write records: `book({(row, column): [score of each seed]})` for a table of the paper."""

    def write(table: PaperTable, scores: dict[tuple[str, str], Sequence[float]], **more: Any) -> Records:
        rows = {r.key: r for r in table.rows}
        columns = {c.key: c for c in table.columns}
        for (row, column), values in scores.items():
            cell = table.cell(rows[row], columns[column])
            assert cell is not None
            for config, value in zip(configs(cell, Variation(preset="published")), values, strict=False):
                write_json(tmp_path / "runs" / config.hash / "record.json", record_of(config, value, **more))
        return Records([tmp_path / "runs"])

    return write


def tiny_plans(methods: Sequence[str] = ("erm", "ciga-v1"), seeds: Sequence[int] = (1, 2)) -> list[Any]:
    """A grid of a few seconds: two cells of the SPMotif table."""
    table = exhibit("table-spmotif")
    cells: list[Cell] = table.cells(list(methods), ["spmotif-struc-0.60"])
    return plans(TINY.apply(cells), TINY, seeds)
