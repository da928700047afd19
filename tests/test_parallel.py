"""Order, progress and errors of the process pool, and that it needs no guard in the caller's script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ciga.errors import CigaError
from ciga.parallel import alive, cores, parallel_map
from tests.processes import is_running, wait_for


def square(value: int) -> int:
    return value * value


def process(_: int) -> int:
    return os.getpid()


def fail_on_seven(value: int) -> int:
    if value == 7:
        raise CigaError("seven is bad")
    return value


@pytest.mark.parametrize("workers", [1, 2])
def test_results_keep_their_order(workers: int) -> None:
    seen: list[tuple[int, int, str]] = []
    out = parallel_map(
        square, range(50), lambda *args: seen.append(args), "squares", workers=workers, chunk=8
    )
    assert out == [n * n for n in range(50)]
    assert seen[0] == (0, 50, "squares")
    assert seen[-1] == (50, 50, "squares")
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)


def test_two_workers_are_other_processes_and_one_is_this_one() -> None:
    quiet = lambda *_: None  # noqa: E731
    assert os.getpid() not in parallel_map(process, range(4), quiet, "", workers=2, chunk=1)
    assert set(parallel_map(process, range(4), quiet, "", workers=1, chunk=1)) == {os.getpid()}
    assert set(parallel_map(process, range(4), quiet, "", workers=2, chunk=4)) == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_worker_arrives_as_itself(workers: int) -> None:
    with pytest.raises(CigaError, match="seven is bad"):
        parallel_map(fail_on_seven, range(10), lambda *_: None, "", workers=workers, chunk=2)


def test_nothing_to_do() -> None:
    assert parallel_map(square, [], lambda *_: None, "") == []
    assert cores() >= 1


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from ciga.parallel import parallel_map\n"
        "def half(x):\n    return x / 2\n"
        "print('started')\n"
        "print(parallel_map(half, range(4), lambda *a: None, '', workers=2, chunk=1))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "started\n[0.0, 0.5, 1.0, 1.5]\n", done.stderr


SLEEPERS = """
import os, sys, time
from pathlib import Path
from ciga.parallel import parallel_map

def sleep(place):
    (Path(place) / str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    parallel_map(sleep, [sys.argv[1]] * 2, lambda *news: None, "sleeping", workers=2, chunk=1)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(tmp_path: Path, how: signal.Signals) -> None:
    script, place = tmp_path / "sleepers.py", tmp_path / "workers"
    script.write_text(SLEEPERS)
    place.mkdir()
    parent = subprocess.Popen([sys.executable, str(script), str(place)], stderr=subprocess.DEVNULL)
    workers = wait_for(lambda: found if len(found := list(place.iterdir())) == 2 else None)
    parent.send_signal(how)
    parent.wait()
    wait_for(lambda: not any(is_running(int(worker.name)) for worker in workers))


def test_who_is_alive() -> None:
    assert alive(os.getpid())
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not alive(gone.pid)


def test_the_folders_of_a_killed_process_are_removed_by_the_next_one(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from ciga.parallel import parallel_map
killed = sys.argv[1] == "kill"

def end(done, total, what):
    if killed and done:
        os.kill(os.getpid(), signal.SIGKILL)

print(len(parallel_map(abs, list(range(400)), end, "numbers", workers=2, chunk=10)))
"""
    source = str(Path(__file__).parents[1] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "TMPDIR": str(tmp_path)}
    found = [
        subprocess.run(
            [sys.executable, "-c", program, how], env=environment, capture_output=True, text=True, check=False
        )
        for how in ("kill", "live")
    ]
    assert found[0].returncode == -signal.SIGKILL, found[0].stderr
    assert found[1].stdout.strip() == "400", found[1].stderr
    assert [p.name for p in tmp_path.iterdir() if "scratch" in p.name] == []
