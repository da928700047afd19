"""The attack notices what it is there to notice, and strikes the same places again."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ciga.errors import CigaError
from faults import attempt
from faults import fuzz as attack
from faults.commands import left_overs, result
from faults.fuzz import fuzz
from faults.interruptions import _one_sentence
from faults.lines import lines
from faults.mutate import mutated
from faults.readers import Reader, readers
from faults.strike import KILLED, in_child
from faults.tally import Tally, judged, table


def planted(fault: str) -> Reader:
    """A reader with a fault for every damaged file."""

    def make(folder: Path) -> None:
        (folder / "file").write_text("1 2 3 4 5 6 7 8")

    def read(folder: Path) -> str:
        text = (folder / "file").read_bytes()
        if text != b"1 2 3 4 5 6 7 8":
            if fault == "crash":
                faulthandler.disable()  # pytest's would print pages about a crash that is meant
                os.kill(os.getpid(), signal.SIGSEGV)
            if fault == "memory":
                bytearray(2**33)
            if fault == "endless":
                while True:
                    pass
            if fault == "asleep":
                time.sleep(60)
            if fault == "traceback":
                raise KeyError("inside")
            if fault == "sentence":
                raise CigaError("one sentence")
        return text.decode(errors="replace") if fault == "silent" else "fine"

    return Reader("planted", make, ("file",), read, guarded=True)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("crash", "lost"),
        ("memory", "lost"),
        ("traceback", "traceback"),
        ("silent", "silent"),
        ("sentence", "survived"),
    ],
)
def test_a_planted_fault_is_found(fault: str, outcome: str, tmp_path: Path) -> None:
    tally = fuzz(planted(fault), tmp_path / "fuzz", seed=1, tries=6)
    assert tally.tries == 6
    assert tally.counts[outcome] >= 5  # a damage may leave the file as it was
    assert tally.sound == (outcome == "survived")


@pytest.mark.parametrize(
    "name", ["TU archive", "DrugOOD", "model folders", "records", "journals", "graphs .pt", "parquet"]
)
def test_what_broke_a_reader_once_is_one_sentence_now(name: str, tmp_path: Path) -> None:
    reader = next(reader for reader in readers() if reader.name == name)
    tally = fuzz(reader, tmp_path / "fuzz", seed=0, tries=0)
    assert tally.tries >= 1
    assert tally.sound, tally.notes


@pytest.mark.parametrize(
    ("fault", "processor", "clock", "outcome"),
    [("endless", 0.2, 60, "lost"), ("asleep", 60, 0.2, "lost"), ("sentence", 0.2, 60, "survived")],
)
def test_a_reader_that_does_not_end_is_found(
    fault: str,
    processor: float,
    clock: float,
    outcome: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attack, "SECONDS", processor)
    monkeypatch.setattr(attack, "PATIENCE", clock)
    tally = attack.fuzz(planted(fault), tmp_path / "fuzz", seed=1, tries=4)
    assert tally.tries == 4
    assert tally.counts[outcome] >= 3


def test_waiting_for_a_busy_machine_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is stopped from outside takes seconds by the clock and none of the processor."""
    monkeypatch.setattr(attack, "SECONDS", 0.3)

    def read(folder: Path) -> str:
        time.sleep(0.6)
        return "fine"

    slow = Reader("planted", planted("sentence").make, ("file",), read)
    assert attack.fuzz(slow, tmp_path / "fuzz", seed=1, tries=2).sound


def test_a_command_is_ended_when_it_waits_or_computes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for longest, busy in ((60.0, False), (1.0, True)):
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            os.setsid()
            while True:
                if not busy:
                    time.sleep(1)
        monkeypatch.setattr(attempt, "PATIENCE", 0.3)
        assert attempt._wait(child, None, None, longest) == 124
        assert not busy or time.monotonic() - began >= longest  # what computes does not wait


def test_the_same_seed_damages_in_the_same_way() -> None:
    sound = json.dumps([{"x": [1.5, 2], "name": "a"}] * 20).encode()
    some = [[mutated(sound, random.Random(f"{seed} {i}")) for i in range(50)] for seed in (1, 1, 2)]
    assert some[0] == some[1]
    assert some[0] != some[2]
    assert sum(content != sound for content in some[0]) > 45


def test_every_kind_of_file_is_attacked() -> None:
    names = {reader.name for reader in readers()}
    wanted = {
        "csv", "parquet", "graphs .json", "graphs .pt", "TU", "DrugOOD", "idx", "sentences", "pickles", "npz",
        "csv.xz", "csv.bz2", "smi.gz", "settings", "plugins", "journals", "caches",
        "model folders", "mixtures", "report data", "records", "checkpoints",
    }  # fmt: skip
    assert wanted <= names
    assert len(lines()) >= 200
    assert len({tuple(line) for line in lines()}) == len(lines())


@pytest.mark.parametrize(
    ("fault", "code"), [("kill", KILLED), ("term", -signal.SIGTERM), ("full", 1), ("read-only", 1)]
)
def test_a_strike_hits_the_change_it_is_meant_for(tmp_path: Path, fault: str, code: int) -> None:
    def work() -> None:
        for i in range(5):
            (tmp_path / str(i)).write_text("x")

    found, text = in_child(work, place=3, below=tmp_path, fault=fault)
    assert found == code
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]
    if code == 1:
        assert text.startswith("OSError")


def test_results_are_compared_without_their_times(tmp_path: Path) -> None:
    for name, seconds, score in (("a", 1, 0.5), ("b", 2, 0.5), ("c", 1, 0.6)):
        (tmp_path / name).mkdir()
        record = {"seconds": seconds, "selected": {"last": {"id_val": {"accuracy": score}}}}
        (tmp_path / name / "record.json").write_text(json.dumps(record))
        (tmp_path / name / "lock").write_text(name)
    one, two, three = (next(iter(result(tmp_path, (name,)).values())) for name in "abc")
    assert one == two != three
    assert list(result(tmp_path, ("a",))) == ["a/record.json"]


def test_left_overs_are_seen(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    assert left_overs(tmp_path) == []
    (tmp_path / ".x.part").write_text("")
    (tmp_path / "tmp" / "y").write_text("")
    assert sorted(left_overs(tmp_path)) == [".x.part", "tmp/y"]


def test_the_table_fails_for_anything_but_survival() -> None:
    tally = Tally("some")
    tally.add("survived")
    assert tally.sound
    tally.add("silent", "why")
    assert not tally.sound
    assert "some: silent: why" in tally.notes
    assert table([tally]).splitlines()[2].split() == ["some", "2", "1", "0", "1", "0", "0"]
    assert judged("Traceback (most recent call last):\n")
    assert not judged("ciga: There is no file x.")
    assert _one_sentence("ciga: the disk is full.\n")
    assert not _one_sentence("")


def test_an_unknown_attack_is_refused() -> None:
    words = [sys.executable, "-m", "faults", "--quick", "--only", "nope"]
    found = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert found.returncode == 1
    assert "There is no attack called nope" in found.stderr
