"""How many epochs several runs take: early stopping ends most of them before their last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ciga.files import write_json
from ciga.progress import AtMost
from ciga.runs.plan import Plan, plan
from ciga.runs.pool.schedule import PoolState, Standing
from ciga.runs.pool.several import Outlook
from ciga.runs.records import Records
from ciga.runs.spec import RunSpec
from tests.bench.conftest import record_of


@pytest.fixture
def planned() -> list[Plan]:
    """Two methods that may stop before their 100 epochs, with two seeds each."""
    settings = {"epochs": 100, "warmup": 10, "patience": 5}
    return [
        plan(RunSpec("spmotif-struc", method, seed, {}, settings, "none"))
        for method in ("erm", "ciga-v2")
        for seed in (1, 2)
    ]


def recorder(root: Path) -> Callable[[Plan, int], None]:
    def write(done: Plan, epochs: int) -> None:
        record = record_of(done.config, 0.5) | {"epochs": epochs}
        write_json(root / done.config.hash / "record.json", record)

    return write


def test_finished_runs_say_where_the_others_end(planned: list[Plan], tmp_path: Path) -> None:
    record, state = recorder(tmp_path), PoolState(total=4)
    outlook = Outlook(planned, Records([tmp_path]))
    state.running = {planned[0].hash: Standing("", 12, 100)}
    done, total = outlook(state)
    assert (done, str(total)) == (12, "at most 400")
    # ERM stopped after 30 epochs: so will its second seed, as far as one can tell.
    record(planned[0], 30)
    state.ended, state.running = {planned[0].hash}, {planned[1].hash: Standing("", 10, 100)}
    done, total = outlook(state)
    assert (done, str(total)) == (40, "at most 260")
    record(planned[2], 50)
    state.ended = {planned[0].hash, planned[2].hash}
    done, total = outlook(state)
    assert (done, total) == (90, 160)
    assert not isinstance(total, AtMost)
    # One that outlasts the mean takes at least what it has taken.
    state.running = {planned[1].hash: Standing("", 45, 100)}
    assert outlook(state) == (125, 175)


def test_a_run_that_cannot_stop_early_takes_what_it_is_given(tmp_path: Path) -> None:
    fixed = plan(RunSpec("spmotif-struc", "erm", 1, {}, {"epochs": 20, "warmup": 20, "patience": 5}, "none"))
    done, total = Outlook([fixed], Records([tmp_path]))(PoolState(total=1))
    assert (done, str(total)) == (0, "20")
