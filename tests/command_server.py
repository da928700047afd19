"""`ciga …` many times for one import of torch: each command is a fork of a process that only imported.

A page of the documentation types one command after the other, and half the time of each went into imports.
What a page's Python code does to its own process stays there: the server was forked before it began.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from multiprocessing.connection import Connection
from typing import Any

FORK: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else None)


class CommandServer:
    """Runs command lines where this process is, with its environment; starts with the first of them."""

    def __init__(self) -> None:
        self.mine, theirs = multiprocessing.Pipe()
        if os.fork() == 0:
            self.mine.close()
            _serve(theirs)
            os._exit(0)
        theirs.close()

    def __call__(self, words: list[str]) -> None:
        """Run `ciga` with these words; a CalledProcessError where its exit code is not 0."""
        self.mine.send((words, os.getcwd(), dict(os.environ)))
        if code := self.mine.recv():
            raise subprocess.CalledProcessError(code, words)


def _serve(asked: Connection) -> None:
    loaded = False
    while True:
        try:
            request = asked.recv()
        except EOFError:  # the page has come to its end
            return
        if not loaded:
            import ciga.models.fit
            import ciga.runs.tune  # noqa: F401 (imported for the forks)

            loaded = True
        child = FORK.Process(target=_command, args=request)
        child.start()
        child.join()
        asked.send(child.exitcode)


def _command(words: list[str], folder: str, environment: dict[str, str]) -> None:
    from ciga.cli import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    main()
