"""The guided attack judges as the blind one does, whatever the fuzzer is that chooses its inputs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import guided
from tests.faults.test_attack import planted


class Fuzzer:
    """Stands in for atheris: damages the seeds of the corpus a few times."""

    def Setup(  # noqa: N802 - atheris calls it so
        self,
        words: list[str],
        test: Callable[[bytes], None],
        custom_mutator: Callable[[bytes, int, int], bytes],
    ) -> None:
        self.seeds = [file.read_bytes() for file in sorted(Path(words[-1]).iterdir())]
        self.test, self.mutator = test, custom_mutator

    def Fuzz(self) -> None:  # noqa: N802
        print("#1 INITED cov: 5 ft: 6", file=sys.stderr, flush=True)
        for number in range(8):
            for seed in self.seeds:
                self.test(self.mutator(seed, 100, number))

    def Mutate(self, data: bytes, longest: int) -> bytes:  # noqa: N802
        return (data + b"9")[:longest]


@pytest.mark.parametrize(
    ("fault", "outcome", "notes"),
    [
        ("sentence", "survived", 0),
        ("traceback", "traceback", 1),  # told once, however often
        ("silent", "silent", 1),
        ("crash", "lost", guided.DEATHS),
        ("memory", "lost", 1),
    ],
)
def test_every_fault_is_noticed(fault: str, outcome: str, notes: int, tmp_path: Path) -> None:
    tally = guided.guide(Fuzzer(), planted(fault), tmp_path, seed=0, seconds=60)
    assert tally.counts[outcome] >= (5 if fault != "crash" else guided.DEATHS)
    assert len(tally.notes) == notes
    assert tally.sound == (outcome == "survived")
    assert bool(list(tmp_path.glob("*@file"))) == (notes == 1)
    assert bool(list(tmp_path.glob("killed-*/file"))) == (fault == "crash")


def test_it_ends_when_the_time_is_up(tmp_path: Path) -> None:
    class Endless(Fuzzer):
        def Fuzz(self) -> None:  # noqa: N802
            while True:
                super().Fuzz()

    tally = guided.guide(Endless(), planted("sentence"), tmp_path, seed=0, seconds=1)
    assert tally.sound
    assert tally.tries > 0


def test_one_defect_is_one_place() -> None:
    note = 'Traceback:\n  File "a.py", line 3, in f\n    g()\n  File "b.py", line 5, in g\n{}: {}'
    one, two = (guided.place_of("traceback", note.format("KeyError", key)) for key in "xy")
    assert one == two
    assert one != guided.place_of("traceback", note.format("ValueError", "x"))
    assert one != guided.place_of("lost", note.format("KeyError", "x"))


def test_what_was_reached_is_read_off_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("#3\tINITED cov: 526 ft: 9\n#9\tNEW    cov: 530 ft: 10\n#12\tpulse  cov: 529 ft: 10\n")
    assert guided.covered(log) == (526, 530)
    log.write_text("nothing")
    assert guided.covered(log) == (0, 0)


@pytest.mark.parametrize(
    ("before", "words", "says"),
    [
        ("sys.modules['atheris'] = None", [], "--guided needs atheris: pip install atheris"),
        ("sys.modules['atheris'] = Nothing()", ["--only", "nope"], "There is no reader called nope"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(before: str, words: list[str], says: str) -> None:
    program = (
        "import contextlib, sys\n"
        "class Nothing:\n    instrument_imports = lambda self, include: contextlib.nullcontext()\n"
        f"{before}\nfrom faults.__main__ import main\nsys.argv[1:] = ['--guided', *{words!r}]\nmain()"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert found.returncode == 1
    assert found.stderr.strip().splitlines()[-1].startswith(says)
    assert "Traceback" not in found.stderr
