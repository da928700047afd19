"""A process that does runs for someone else: JSON jobs on standard input, JSON messages on standard output.

It ends when its input does: if the process that started it dies, however, it does not stay behind.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Report = Callable[[dict[str, Any]], None]


def perform(spec: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Do one job and say how it ended: done, busy, failed, or no-data. Never raises."""
    from ciga.errors import CigaError
    from ciga.runs.plan import execute, plan
    from ciga.runs.records import Busy, Runs

    if spec.get("kind") == "prepare":
        return _prepare(spec)
    planned = plan(
        spec["dataset"],
        spec["method"],
        seed=spec["seed"],
        data=spec["data"],
        settings=spec["settings"],
        preset=spec["preset"],
        protocol=spec["protocol"],
        plugins=spec["plugins"],
    )
    runs = Runs(spec["runs_dir"])
    if spec.get("splits"):
        from ciga.runs.pool.sent import Sent

        planned.dataset = Sent(spec["splits"])
    elif spec.get("ask_for_data") and planned.dataset.missing_files():
        return {"status": "no-data", "error": f"{', '.join(planned.dataset.missing_files())} not here"}

    def on_epoch(row: dict[str, Any], epochs: int) -> None:
        report({"epoch": row["epoch"] + 1, "epochs": epochs})

    try:
        record = execute(
            planned, runs.root, device=spec["device"], threads=spec["threads"], on_epoch=on_epoch
        )
    except Busy as error:
        return {"status": "busy", "error": str(error)}
    except Exception as error:
        text = str(error) if isinstance(error, CigaError) else f"{type(error).__name__}: {error}"
        runs.write_failure(
            planned.config, {"error": text, "time": _now(), "traceback": traceback.format_exc()}
        )
        return {"status": "failed", "error": text}
    runs.clear_failure(planned.config)
    return {"status": "done", "record": record}


def _prepare(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Build a dataset, so that its cache is there before many runs want it at once."""
    from ciga.data.dataset import make
    from ciga.errors import CigaError
    from ciga.registry import load_plugin

    try:
        for plugin in spec["plugins"]:
            load_plugin(plugin)
        make(spec["dataset"], spec["data"]).build()
    except Exception as error:
        text = str(error) if isinstance(error, CigaError) else f"{type(error).__name__}: {error}"
        return {"status": "no-data", "error": text}
    return {"status": "done"}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def main() -> None:
    """Serve until the input ends."""
    # Ctrl-C reaches the whole group: the one who started us decides, by closing our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever a library prints must not disturb the messages: it goes where errors go.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            waiting.put(json.loads(line))
        os._exit(0)  # also in the middle of a run: its checkpoint is on disk

    def say(message: Mapping[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    threading.Thread(target=listen, daemon=True).start()
    print(f"{_now()} worker {os.getpid()} is ready", file=sys.stderr, flush=True)
    while True:
        spec = waiting.get()
        name = f"{spec.get('kind', 'run')} {spec['dataset']} {spec.get('method', '')} {spec.get('seed', '')}"
        print(f"{_now()} {name}", file=sys.stderr, flush=True)
        try:
            outcome = perform(spec, say)
        except Exception as error:
            traceback.print_exc()
            outcome = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        said = outcome.get("error", "")
        print(f"{_now()} {outcome['status']} {said}", file=sys.stderr, flush=True)
        if not spec.get("want_record"):
            outcome.pop("record", None)
        say(outcome)


if __name__ == "__main__":
    main()
