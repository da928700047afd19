"""Damaged files that learn: inputs that reach new lines of ciga are kept and damaged further (atheris).

The readers, the limits and the judgement are those of `faults.fuzz`; only the choice of inputs is another.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import random
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.fuzz import Say, Target, fixed_seeds, folder_of, in_child
from faults.mutate import mutated
from faults.readers import Reader, readers
from faults.tally import Tally

#: An input is never longer: files of a few kilobytes reach every line.
LONGEST = 1 << 17
#: After this number of deaths of the process a reader is given up.
DEATHS = 5


def instrument() -> Any:
    """Atheris, with every module of ciga imported so that its branches are counted; to be called first."""
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        raise SystemExit("--guided needs atheris: pip install atheris") from None
    told = io.StringIO()  # a line for every module
    with contextlib.redirect_stderr(told), atheris.instrument_imports(include=["ciga"]):
        import ciga

        for module in pkgutil.walk_packages(ciga.__path__, "ciga."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    return atheris


def every(atheris: Any, home: Path, seed: int, minutes: float, only: Sequence[str]) -> list[Tally]:
    """The tally of each reader, which share the time.

    Args:
        atheris: What `instrument` returned.
        home: A folder to work in.
        seed: Of the fuzzer.
        minutes: For all readers together.
        only: Names of readers; all of them if empty.
    """
    known = {reader.name: reader for reader in readers()}
    unknown = set(only) - known.keys()
    if unknown:
        raise SystemExit(
            f"There is no reader called {', '.join(sorted(unknown))}: choose from {', '.join(known)}."
        )
    chosen = [known[name] for name in only or known]
    seconds = 60 * minutes / len(chosen)
    return [guide(atheris, reader, home / folder_of(reader), seed, seconds) for reader in chosen]


def guide(atheris: Any, reader: Reader, home: Path, seed: int, seconds: float) -> Tally:
    """Attack one reader for so many seconds; a process that dies is a finding, and the next one goes on.

    Args:
        atheris: What `instrument` returned.
        reader: Whom to attack.
        home: A folder to work in; findings stay there.
        seed: Of the fuzzer.
        seconds: By the clock.
    """
    tally, began = Tally(f"guided {reader.name}"), time.monotonic()
    home.mkdir(parents=True, exist_ok=True)
    for death in range(DEATHS):
        left = int(seconds - (time.monotonic() - began))
        if death and left < 1:
            break
        found, peak, how = in_child(partial(_serve, atheris, reader, home, seed + death, max(left, 1)))
        for outcome, note in found:
            if note or outcome == "survived":
                tally.add(outcome, note)
            else:  # told before
                tally.counts[outcome] += 1
        tally.peak_mb = max(tally.peak_mb, peak)
        if how == "the process ended with 0":
            break
        killed = home / f"killed-{death}"
        if (home / "work").exists():
            (home / "work").rename(killed)
        tally.add("lost", f"{killed}: {how}")
    tally.seconds = time.monotonic() - began
    first, last = covered(home / "log")
    print(
        f"{tally.attack}: {tally.tries:,} inputs, branches of ciga reached: {first:,} to {last:,}", flush=True
    )
    return tally


def covered(log: Path) -> tuple[int, int]:
    """What the seeds reached, and what was reached in the end, as the fuzzer tells it."""
    told = re.findall(r"\b(?:INITED|NEW|REDUCE|pulse)\s+cov: (\d+)", log.read_text(errors="replace"))
    return (int(told[0]), max(map(int, told))) if told else (0, 0)


def _serve(atheris: Any, reader: Reader, home: Path, seed: int, seconds: int, say: Say) -> None:
    target = Target(reader, home)
    corpus = home / "corpus"
    corpus.mkdir(exist_ok=True)
    names = [victim.name for victim in target.victims()]
    sound = [(i, victim.read_bytes()) for i, victim in enumerate(target.victims())]
    broken = [(names.index(name), content) for name, content in fixed_seeds(reader)]
    for number, (place, content) in enumerate([*sound, *broken]):
        (corpus / f"seed-{number}").write_bytes(bytes([place]) + content)
    told: set[str] = set()
    until = time.monotonic() + seconds

    def test(data: bytes) -> None:
        """The first byte says which file the others are."""
        if time.monotonic() > until:
            os._exit(0)  # the fuzzer's own way out waits for threads that a fork does not have
        victims = target.victims()
        victim = victims[data[0] % len(victims)] if data else victims[0]
        outcome, note = target.attempt(victim, data[1:])
        if outcome != "survived":
            mark = place_of(outcome, note)
            if mark in told:
                note = ""
            else:
                kept = home / f"{len(told)}@{victim.name}"
                kept.write_bytes(data[1:])
                note = f"{kept}: {note}"
                told.add(mark)
        say({"outcome": outcome, "note": note, "peak": target.peak_mb()})

    def mutate(data: bytes, longest: int, number: int) -> bytes:
        """By turns our damage, which opens archives, and the fuzzer's."""
        rng = random.Random(number)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, longest))
        try:
            return (data[:1] + mutated(data[1:], rng))[:longest]
        except Exception:  # an archive too damaged to be opened
            return bytes(atheris.Mutate(data, longest))

    options = [
        f"-max_len={LONGEST}",
        f"-seed={seed + 1}",
        "-rss_limit_mb=0",  # memory and time have limits already
        "-timeout=0",
        "-len_control=0",
        f"-artifact_prefix={home}/",
    ]
    atheris.Setup(["faults", *options, str(corpus)], test, custom_mutator=mutate)
    atheris.Fuzz()


def place_of(outcome: str, note: str) -> str:
    """What two notes of one defect have in common: where it was raised, and as what."""
    lines = [line.strip() for line in note.splitlines()]
    places = [line for line in lines if line.startswith("File ")]
    kind = lines[-1].partition(":")[0] if lines else ""
    return "\n".join([outcome, *places[-1:], kind])
