"""Signals and disks: each command is struck, given again, and compared with the undisturbed result."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from faults.attempt import Attempt, ciga, fresh
from faults.commands import COMMANDS, Command, left_overs, prepare, result
from faults.tally import Tally, judged


class Arena:
    """A working folder that is set up again for each attempt, and the undisturbed result of each command."""

    def __init__(self, home: Path) -> None:
        self.home, self.work = home, home / "here"
        self.base = prepare(home)
        self.known: dict[str, tuple[dict[str, str], int, float]] = {}

    def undisturbed(self, command: Command) -> tuple[dict[str, str], int, float]:
        """The result, the number of changes of the disk, and the seconds."""
        if command.name not in self.known:
            self.set_up()
            counter = self.work.with_name(f"{self.work.name}.changes")
            counter.unlink(missing_ok=True)
            found = ciga(command.words, self.work, fault="count", place=1)
            if found.code or judged(found.err):
                raise SystemExit(f"Undisturbed, `ciga {command.name}` fails: {found.err}")
            changes = counter.stat().st_size
            self.known[command.name] = result(self.work, command.results), changes, found.seconds
        return self.known[command.name]

    def set_up(self) -> None:
        fresh(self.base, self.work)

    def judge(self, command: Command, first: Attempt, tally: Tally, what: str) -> None:
        """Give the command again and look at what is there."""
        wanted = self.undisturbed_result(command)
        said = f"{command.name}, {what}"
        if judged(first.err):
            tally.add("traceback", f"{said}: {first.err[-1500:]}")
            return
        if first.left:
            tally.add("lost", f"{said}: it left {len(first.left)} processes running")
            return
        if first.code == 124:
            tally.add("lost", f"{said}: it hangs")
            return
        model = self.work / "model" / "model.json"
        if (
            first.code == 0
            and "cache" not in command.results
            and result(self.work, command.results) != wanted
        ):
            tally.add(
                "silent",
                f"{said}: exit code 0 with {_difference(wanted, result(self.work, command.results))}",
            )
            return
        again = ciga(command.words, self.work)
        if judged(again.err):
            tally.add("traceback", f"{said}, given again: {again.err[-1500:]}")
        elif again.code or not model.is_file():
            tally.add("lost", f"{said}: given again it ends with {again.code}: {again.err[-600:]}")
        elif left_overs(self.work):
            tally.add("lost", f"{said}: left behind {left_overs(self.work)}")
        elif result(self.work, command.results) != wanted:
            tally.add("silent", f"{said}: {_difference(wanted, result(self.work, command.results))}")
        else:
            tally.add("survived")

    def undisturbed_result(self, command: Command) -> dict[str, str]:
        return self.known[command.name][0]


def _difference(wanted: dict[str, str], found: dict[str, str]) -> str:
    lacking = sorted(wanted.keys() - found.keys())
    surplus = sorted(found.keys() - wanted.keys())
    other = sorted(k for k in wanted.keys() & found.keys() if wanted[k] != found[k])
    return f"files lacking {lacking}, surplus {surplus}, different {other}"


def signals(arena: Arena, rng: random.Random, tries: int, commands: Sequence[Command] = COMMANDS) -> Tally:
    """kill -9, SIGTERM and SIGINT, half of them at a change of the disk, half at a moment."""
    tally, began = Tally("signals"), time.monotonic()
    for number in range(tries):
        command = commands[number % len(commands)]
        _, changes, seconds = arena.undisturbed(command)
        fault = ("kill", "term", "int")[number % 3] if number >= len(commands) else "kill"
        arena.set_up()
        if command.slow or rng.random() < 0.5:
            after = rng.uniform(0.02, 0.95) * seconds
            first = ciga(command.words, arena.work, fault=fault, after=after)
            what = f"{fault} after {after:.2f} of {seconds:.2f} s"
        else:
            place = rng.randint(1, max(changes, 1))
            first = ciga(command.words, arena.work, fault=fault, place=place)
            what = f"{fault} at change {place} of {changes}"
        arena.judge(command, first, tally, what)
    tally.seconds = time.monotonic() - began
    return tally


def disks(arena: Arena, rng: random.Random, tries: int, commands: Sequence[Command] = COMMANDS) -> Tally:
    """A disk that is full from some change on, one that is read-only, and files that may not grow."""
    tally, began = Tally("disks"), time.monotonic()
    for number in range(tries):
        command = commands[number % len(commands)]
        _, changes, _ = arena.undisturbed(command)
        fault = ("full", "read-only", "limit")[(number // len(commands) + number) % 3]
        arena.set_up()
        if fault == "limit":
            size = rng.choice([2000, 5000, 20_000])  # the output needs some room, too
            first = ciga(command.words, arena.work, file_size=size)
            what = f"no file beyond {size} bytes"
        else:
            place = 1 if fault == "read-only" else rng.randint(1, max(changes, 1))
            first = ciga(command.words, arena.work, fault=fault, place=place)
            what = f"{fault} from change {place} of {changes} on"
        if first.code not in (0, 1, 2) and not judged(first.err):
            tally.add("lost", f"{command.name}, {what}: exit code {first.code}: {first.err[-600:]}")
            continue
        if first.code and not _one_sentence(first.err):
            tally.add("traceback", f"{command.name}, {what}: not one sentence: {first.err[-1500:]}")
            continue
        arena.judge(command, first, tally, what)
    tally.seconds = time.monotonic() - began
    return tally


def _one_sentence(err: str) -> bool:
    return not judged(err) and any(line.startswith(("ciga: ", "failed: ")) for line in err.splitlines())


def small_disks(arena: Arena, rng: random.Random, tries: int) -> Tally:
    """A real disk of a few kilobytes, where this process may mount one."""
    tally, began = Tally("small disks (mounted)"), time.monotonic()
    commands = [c for c in COMMANDS if not c.slow]
    for command in commands:
        arena.undisturbed(command)
    shutil.rmtree(arena.work)
    arena.work.mkdir()
    for number in range(tries):
        command = commands[number % len(commands)]
        size = 4096 * rng.choice([30, 40, 60, 90, 150, 300])
        if not _mount(arena.work, size):
            break  # not root: the injected faults have to do
        try:
            try:
                shutil.copytree(arena.base, arena.work, dirs_exist_ok=True)
            except (OSError, shutil.Error):
                continue
            first = ciga(command.words, arena.work)
            if first.code and not _one_sentence(first.err):
                tally.add("traceback", f"{command.name}, disk of {size} bytes: {first.err[-1500:]}")
                continue
            subprocess.run(["mount", "-o", f"remount,size={2**28}", str(arena.work)], check=True)
            arena.judge(command, first, tally, f"disk of {size} bytes, then a larger one")
        finally:
            subprocess.run(["umount", "-l", str(arena.work)], check=False)
    tally.seconds = time.monotonic() - began
    return tally


def _mount(folder: Path, size: int) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
