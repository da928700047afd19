"""Processes that tests start, kill and wait for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def wait_for(what: Callable[[], Any], seconds: float = 1200) -> Any:
    """What comes true in the end; the time is only there so that a broken test ends."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "nothing happened for too long"
        time.sleep(0.05)
    return found


def is_running(process: int) -> bool:
    """Is there such a process, and more of it than an exit code that nobody has asked for?"""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # no /proc here, or it has just gone
        return Path("/proc/self").exists() is False
    return state not in ("Z", "X")
