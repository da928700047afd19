"""What an import costs, beside importing torch, which nothing here can make faster."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

from benchmarks.timing import Ratio, Section, Times

HELP = """
import sys
sys.argv = ["ciga", "--help"]
from ciga.cli import main
try:
    main()
except SystemExit:
    pass
"""
COMMANDS = {
    "torch": "import torch",
    "ciga": "import ciga",
    "estimator": "from ciga import GraphOODClassifier",
    "help": HELP,
    "runs": HELP.replace("--help", "runs"),
}


def cpu_seconds(command: str, environment: dict[str, str]) -> float:
    """CPU seconds of a fresh interpreter that runs `command`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", command], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(repeat: int, quick: bool) -> Section:
    del quick  # an import has no smaller size
    with tempfile.TemporaryDirectory() as folder:
        # Compiled files where this user can write them: otherwise every import would compile.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        for command in COMMANDS.values():  # compiles
            cpu_seconds(command, environment)
        found = {name: Times() for name in COMMANDS}
        for _ in range(repeat):
            for name, command in COMMANDS.items():
                began = time.perf_counter()
                found[name].cpu.append([cpu_seconds(command, environment)])
                found[name].wall.append([time.perf_counter() - began])
        loaded = subprocess.run(
            [sys.executable, "-c", HELP + "print('torch' in sys.modules, file=sys.stderr)"],
            env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
    section = Section(extra={"help_imports_torch": loaded.stderr.strip().endswith("True")})
    section.note("import", found)
    for key, name, meaning, aim in (
        ("import_ciga_over_torch", "ciga", "import ciga / import torch", "< 1.5"),
        (
            "import_estimator_over_torch",
            "estimator",
            "from ciga import GraphOODClassifier / import torch",
            "",
        ),
        ("help_over_torch", "help", "ciga --help / import torch", "< 1"),
        ("runs_over_torch", "runs", "ciga runs, which reads records / import torch", "< 1"),
    ):
        section.ratios.append(Ratio.of(key, found[name].cpu, found["torch"].cpu, meaning, aim))
    return section
