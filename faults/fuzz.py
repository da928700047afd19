"""Damaged files for every reader, under limits of memory and time, in a process reused until it dies."""

from __future__ import annotations

import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from faults.mutate import mutated
from faults.readers import Reader, readers
from faults.tally import Tally

#: What a reader may take beyond what the process has: generous for files of a few kilobytes.
MEMORY = 2**30
#: Processor time of one input: other programs on the machine do not count.
SECONDS = 10.0
#: Seconds by the clock, against a reader that sleeps or waits for what never comes.
PATIENCE = 180.0
#: Tells the parent of an outcome.
Say = Callable[[dict[str, Any]], Any]
SEEDS = Path(__file__).resolve().parent / "seeds"


def every(home: Path, seed: int, tries: int) -> list[Tally]:
    """The tally of each reader: its fixed seeds, then `tries` damaged files."""
    return [fuzz(reader, home / folder_of(reader), seed, tries) for reader in readers()]


def fuzz(reader: Reader, home: Path, seed: int, tries: int) -> Tally:
    tally, began = Tally(f"fuzz {reader.name}"), time.monotonic()
    home.mkdir(parents=True, exist_ok=True)
    done = 0
    total = tries + len(fixed_seeds(reader))
    while done < total:
        found, peak, how = in_child(partial(_serve, reader, home, seed, done, total))
        for outcome, note in found:
            tally.add(outcome, note)
        done += len(found)
        tally.peak_mb = max(tally.peak_mb, peak)
        if done < total:
            tally.add("lost", f"input {done}: {how}")
            done += 1
    tally.seconds = time.monotonic() - began
    return tally


def folder_of(reader: Reader) -> str:
    return reader.name.replace(" ", "-").replace("/", "-")


def fixed_seeds(reader: Reader) -> list[tuple[str, bytes]]:
    """(name of the victim, content): inputs that broke something once."""
    folder = SEEDS / folder_of(reader)
    files = sorted(p for p in folder.glob("*") if p.is_file()) if folder.is_dir() else []
    return [(file.name.split("@")[-1], file.read_bytes()) for file in files]


def in_child(serve: Callable[[Say], None]) -> tuple[list[tuple[str, str]], float, str]:
    """Outcomes that `serve` says in a process of its own, until it ends or dies; memory; and how it ended."""
    source, sink = os.pipe()
    sys.stdout.flush(), sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(source)
        code = 0
        try:
            serve(lambda said: os.write(sink, (json.dumps(said) + "\n").encode()))
        except BaseException:
            os.write(sink, (json.dumps({"dead": traceback.format_exc()[-1500:]}) + "\n").encode())
            code = 1
        os._exit(code)
    os.close(sink)
    found, peak, how = [], 0.0, ""
    with os.fdopen(source, "rb", 0) as lines:
        while select.select([lines], [], [], 2 * PATIENCE)[0]:
            if not (line := lines.readline()):
                break
            said = json.loads(line)
            peak = max(peak, said.get("peak", 0.0))
            if "dead" in said:
                how = said["dead"]
            elif "outcome" in said:
                found.append((said["outcome"], said["note"]))
        else:  # stuck where no signal is heard
            os.kill(child, signal.SIGKILL)
            how = f"no answer for {2 * PATIENCE:.0f} s"
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return found, peak, how or f"the process ended with {status}"


def _serve(reader: Reader, home: Path, seed: int, start: int, total: int, say: Say) -> None:
    target = Target(reader, home)
    fixed = fixed_seeds(reader)
    for number in range(start, total):
        rng = random.Random(f"{seed} {reader.name} {number}")
        victims = target.victims()
        if number < len(fixed):
            name, content = fixed[number]
            victim = next(v for v in victims if v.name == name)
        else:
            victim = rng.choice(victims)
            content = mutated(victim.read_bytes(), rng)
        outcome, note = target.attempt(victim, content)
        if outcome != "survived":
            kept = home / f"{number}@{victim.name}"
            kept.write_bytes(content)
            note = f"{kept}: {note}"
        say({"outcome": outcome, "note": note, "peak": target.peak_mb()})


class Target:
    """A reader with sound files, made ready in this process, which is limited from then on."""

    def __init__(self, reader: Reader, home: Path) -> None:
        self.reader, self.sound, self.work = reader, home / "sound", home / "work"
        with open(home / "log", "a", encoding="utf-8") as log:
            os.dup2(log.fileno(), 2)
            os.dup2(log.fileno(), 1)
        os.environ["LOKY_MAX_CPU_COUNT"] = "1"
        if not self.sound.exists():
            os.environ |= {"CIGA_DATA": str(self.sound), "CIGA_CACHE": str(self.sound / "cache")}
            self.sound.mkdir()
            reader.make(self.sound)
        os.environ |= {"CIGA_DATA": str(self.work), "CIGA_CACHE": str(self.work / "cache")}
        _fresh(self.sound, self.work)
        self.truth = reader.read(self.work)  # also warms up, before memory is limited
        signal.signal(signal.SIGPROF, _late)
        signal.signal(signal.SIGALRM, _late)
        grown = _memory("VmSize")
        resource.setrlimit(resource.RLIMIT_AS, (grown + MEMORY, resource.RLIM_INFINITY))
        self.before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew

    def victims(self) -> list[Path]:
        """The files to damage, all of them sound again."""
        _fresh(self.sound, self.work)
        return sorted(p for pattern in self.reader.victims for p in self.work.glob(pattern) if p.is_file())

    def attempt(self, victim: Path, content: bytes) -> tuple[str, str]:
        """How reading ends when `victim` has this content."""
        same = content == victim.read_bytes()
        victim.write_bytes(content)
        return _judge(self.reader, self.work, self.truth, same)

    def peak_mb(self) -> float:
        return max(0.0, (_memory("VmHWM") - self.before) / 2**20)


class LateError(BaseException):
    """Not an Exception, so that no reader takes it for a damaged file."""


def _late(*_: Any) -> None:
    raise LateError


def _judge(reader: Reader, work: Path, truth: Any, same: bool) -> tuple[str, str]:
    from ciga.errors import sentence

    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        found = reader.read(work)
    except LateError:
        return "lost", f"more than {SECONDS:.0f} s of the processor, or {PATIENCE:.0f} s by the clock"
    except AssertionError as error:
        if traceback.extract_tb(error.__traceback__)[-1].filename.endswith("readers.py"):
            return "silent", str(error)
        return "traceback", traceback.format_exc()[-1500:]
    except SystemExit as error:
        return ("survived", "") if reader.name == "plugins" else ("traceback", f"SystemExit: {error}")
    except MemoryError:
        return "lost", f"MemoryError: {traceback.format_exc()[-1500:]}"
    except Exception as error:
        said = sentence(error)
        if said is None:
            return "traceback", traceback.format_exc()[-1500:]
        if "not enough memory" in said:
            return "lost", f"unbounded memory: {traceback.format_exc()[-1500:]}"
        return "survived", ""
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    if reader.guarded and not same and json.dumps(found) != json.dumps(truth):
        return "silent", "read as if it were sound, with another content"
    return "survived", ""


def _fresh(sound: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(sound, work, symlinks=True)


def _memory(what: str) -> int:
    """A line of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) * 1024
    return 0
