"""A process that does runs for someone else: JSON jobs on standard input, JSON messages on standard output.

It ends when its input does, also in the middle of a run: if the process that started it dies, for whatever
reason, it does not stay behind.
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

from ciga.runs.pool.job import Job

Report = Callable[[dict[str, Any]], None]


class Stopped(Exception):
    """Nobody wants to know how this run ends."""


def perform(job: Job, report: Report, stopped: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Do one job and say how it ended: done, busy, failed, stopped, or no-data.

    A failure of the `machine` (disk, memory) is none of the run's: it is not written down, and the same run
    is tried again next time.

    Args:
        job: what to do.
        report: hears of every epoch: its number, their number, and the scores on validation data.
        stopped: asked after every epoch whether to give up.
    """
    from ciga.errors import no_memory
    from ciga.runs.plan import execute, plan
    from ciga.runs.records import Busy, Runs

    if job.kind == "prepare":
        return _prepare(job)
    runs = Runs(job.runs_dir)

    def on_epoch(row: dict[str, Any], epochs: int) -> None:
        scores = {k: v["accuracy"] for k, v in row["metrics"].items() if k.endswith("_val")}
        report(
            {"epoch": row["epoch"] + 1, "epochs": epochs, "validation": row["validation"], "scores": scores}
        )
        if stopped():
            raise Stopped

    try:
        planned = plan(job.spec)
    except Exception as error:
        return {"status": "failed", "error": _text(error)}
    if job.splits:
        from ciga.runs.pool.sent import Sent

        planned.dataset = Sent(job.splits)
    elif job.ask_for_data and planned.dataset.missing_files():
        return {"status": "no-data", "error": f"{', '.join(planned.dataset.missing_files())} not here"}
    try:
        record = execute(planned, runs.root, device=job.device, threads=job.threads, on_epoch=on_epoch)
    except Busy as error:
        return {"status": "busy", "error": str(error)}
    except Stopped:
        return {"status": "stopped"}
    except Exception as error:
        text = _text(error)
        if isinstance(error, OSError) or no_memory(error):
            return {"status": "failed", "error": text, "machine": True}
        runs.write_failure(
            planned.config, {"error": text, "time": now(), "traceback": traceback.format_exc()}
        )
        return {"status": "failed", "error": text}
    runs.clear_failure(planned.config)
    return {"status": "done", "record": record}


def _prepare(job: Job) -> dict[str, Any]:
    """Build a dataset, so that its cache is there before many runs want it at once."""
    from ciga.data.dataset import make
    from ciga.registry import load_plugin

    try:
        for plugin in job.spec.plugins:
            load_plugin(plugin)
        make(job.spec.dataset, job.spec.data).build()
    except Exception as error:
        return {"status": "no-data", "error": _text(error)}
    return {"status": "done"}


def _text(error: Exception) -> str:
    from ciga.errors import sentence

    return sentence(error) or f"{type(error).__name__}: {error}"


def now() -> str:
    """The time, as logs and failures state it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def main() -> None:
    """Serve until the input ends."""
    # Ctrl-C reaches the whole group: the one who started us decides, by closing our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever a library prints must not disturb the messages: it goes where errors go.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    unwanted: set[int] = set()

    def listen() -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "stop" in message:
                unwanted.add(message["stop"])
            else:
                waiting.put(message)
        os._exit(0)  # also in the middle of a run: its checkpoint is on disk

    def say(message: Mapping[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    threading.Thread(target=listen, daemon=True).start()
    print(f"{now()} worker {os.getpid()} is ready", file=sys.stderr, flush=True)
    while True:
        message = waiting.get()
        job, number = Job.from_dict(message["job"]), message["number"]
        print(f"{now()} {job.kind} {job.spec}", file=sys.stderr, flush=True)
        try:
            outcome = perform(job, say, stopped=lambda number=number: number in unwanted)  # type: ignore[misc]
        except Exception as error:
            traceback.print_exc()
            outcome = {"status": "failed", "error": _text(error)}
        print(f"{now()} {outcome['status']} {outcome.get('error', '')}", file=sys.stderr, flush=True)
        if not job.want_record:
            outcome.pop("record", None)
        say(outcome)


if __name__ == "__main__":
    main()
