"""From a table of molecules to a report, with the seconds of each command: `python -m benchmarks.commands`.

BACE, as `docs/practitioner.md` tells it: three seeds, everything else by default. Processor seconds stand
beside the clock's, because those say the same beside busy neighbours. Writes `benchmarks/commands.json`;
`python tools/results.py` puts it on the page.
"""

from __future__ import annotations

import gzip
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.molecules import TABLES, source
from ciga.files import write_json
from ciga.parallel import cores
from ciga.runs.records import versions

RECORD = Path(__file__).parent / "commands.json"
COMMANDS = (
    "ciga fit bace.csv --label Class --split cluster --out model",
    "ciga predict model bace.csv --out predictions.csv",
    "ciga explain model bace.csv --out report.html",
)


def main(file: Path = RECORD) -> None:
    """Run the commands one after the other in an empty folder."""
    path, label = Path(source("bace", "cluster", Path())[1]["path"]), TABLES["bace"][1]
    assert f"--label {label} " in COMMANDS[0]
    found = []
    with tempfile.TemporaryDirectory() as place:
        text = gzip.decompress(path.read_bytes())
        (Path(place) / "bace.csv").write_bytes(text)
        for command in COMMANDS:
            words = [sys.executable, "-m", *shlex.split(command)]
            begun, used = time.perf_counter(), spent()
            done = subprocess.run(words, cwd=place, capture_output=True, text=True, env=os.environ)
            if done.returncode:
                raise SystemExit(f"{command} failed:\n{done.stderr[-2000:]}")
            seconds, processor = time.perf_counter() - begun, spent() - used
            found.append({"command": command, "seconds": round(seconds, 1), "processor": round(processor, 1)})
            print(found[-1], flush=True)
    rows = len(text.decode().splitlines()) - 1
    write_json(file, {"commands": found, "rows": rows, "cores": cores(), "versions": versions()})


def spent() -> float:
    """Processor seconds of all commands that have ended, with their workers."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
