"""One command as a process that may be struck: forked from this one, so that it starts at once.

Importing torch takes seconds, and an attack starts hundreds of commands. This process imports everything once
and never computes anything; each attempt is a fork of it.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: No command of the attack takes more processor time than this, its workers included.
LONGEST = 100.0
#: Seconds in which none of its processes has anything to do, against a command that waits for ever. Waiting
#: for a processor that others use does not count.
PATIENCE = 120.0
#: The same for what a command leaves behind.
LEAVING = 30.0
HERE = Path(__file__).resolve().parent


@dataclass
class Attempt:
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float
    left: list[int]  # processes that outlived it


def warm() -> None:
    """Import what commands use."""
    import torch

    from ciga.data.dataset import datasets
    from ciga.methods.base import methods

    torch.set_num_threads(1)
    list(datasets), list(methods)
    for name in ("rdkit.Chem", "pandas", "pyarrow.parquet", "optuna", "onnxscript", "onnxruntime", "skimage"):
        try:
            __import__(name)
        except ImportError:  # an extra that is not installed is not attacked
            continue


def ciga(
    words: Sequence[object],
    folder: Path,
    *,
    fault: str | None = None,
    place: int = 0,
    after: float | None = None,
    file_size: int | None = None,
    environment: Mapping[str, str] | None = None,
    longest: float = LONGEST,
) -> Attempt:
    """Run `ciga words…` in `folder`.

    Args:
        words: what a user types after `ciga`.
        folder: the working folder; its cache and its temporary files are in it.
        fault, place: the fault (`faults.strike`), and at which change of the folder.
        after: with `kill`, `term` or `int`: send the signal after this number of seconds instead.
        file_size: no file may grow beyond this number of bytes.
        environment: further variables.
        longest: seconds of the processor after which the command counts as hanging, and is ended.
    """
    for name in ("tmp", "cache"):
        (folder / name).mkdir(exist_ok=True)
    logs = [folder.with_name(f"{folder.name}.{name}") for name in ("out", "err")]
    began = time.monotonic()
    sys.stdout.flush(), sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os._exit(
            _child(words, folder, logs, fault, place if after is None else 0, file_size, environment or {})
        )
    code = _wait(child, fault if after is not None else None, after, longest)
    left = _left_behind(child)
    out, err = (log.read_text(encoding="utf-8", errors="replace") for log in logs)
    return Attempt(code, out, err, time.monotonic() - began, left)


def _child(
    words: Sequence[object],
    folder: Path,
    logs: Sequence[Path],
    fault: str | None,
    place: int,
    file_size: int | None,
    environment: Mapping[str, str],
) -> int:
    os.setsid()
    for number, log in enumerate(logs, 1):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(folder)
    import tempfile

    tempfile.tempdir = None
    os.environ |= {
        "TMPDIR": str(folder / "tmp"),
        "CIGA_CACHE": str(folder / "cache"),
        "LOKY_MAX_CPU_COUNT": "1",
        "COLUMNS": "200",
        **environment,
    }
    tempfile.gettempdir()  # tries the folder out with a file: not to be struck
    if file_size is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, resource.RLIM_INFINITY))
    if fault is not None and place:
        from faults.strike import strike_at

        inject = os.pathsep.join([str(HERE / "inject"), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        os.environ |= {"CIGA_FAULT": f"{fault}:{place}:{folder}", "PYTHONPATH": inject}
        strike_at(place, folder, fault)
    sys.argv = ["ciga", *map(str, words)]
    from ciga.cli import main

    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1
    return code


def _wait(child: int, signal_name: str | None, after: float | None, longest: float) -> int:
    from faults.strike import SIGNALS

    began, spent = time.monotonic(), _Spent(child)
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if after is not None and time.monotonic() - began >= after:
            os.kill(child, {"kill": signal.SIGKILL, **SIGNALS}[str(signal_name)])
            after = None
        if spent.more_than(longest, PATIENCE):
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 124
        time.sleep(0.005)


class _Spent:
    """What a session has had since: seconds of the processor, and seconds in which it wanted none."""

    def __init__(self, session: int) -> None:
        self.session, self.looked, self.idle = session, time.monotonic(), 0.0
        self.before = _processor_time(session)

    def more_than(self, processor: float, idle: float) -> bool:
        now = time.monotonic()
        if now - self.looked < 0.1:  # to look costs time, too
            return False
        if not any(state in "RD" for _, state in _session(self.session)):
            self.idle += now - self.looked
        self.looked = now
        return self.idle > idle or _processor_time(self.session) - self.before > processor


def _processor_time(session: int) -> float:
    """Seconds of the processor that the processes of a session have used, and those they have waited for."""
    used = 0
    for pid, _ in _session(session):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used += sum(map(int, fields[11:15]))
    return used / os.sysconf("SC_CLK_TCK")


def _left_behind(session: int) -> list[int]:
    """Processes of a command's session that live on although it has ended; they are ended, too."""
    spent = _Spent(session)
    while (living := [pid for pid, _ in _session(session)]) and not spent.more_than(LEAVING, LEAVING):
        time.sleep(0.05)
    for pid in living:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return living


def _session(session: int) -> list[tuple[int, str]]:
    """The processes of a session, each with its state."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((int(entry.name), fields[0]))
    return found


def fresh(base: Path, folder: Path) -> None:
    """`folder` as a copy of `base`, whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder, symlinks=True)
