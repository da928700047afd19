"""Dask on loopback: workers and schedulers that die, are of another version, lack a plugin, or speak TLS."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from faults.commands import SHORT, SMALL, result
from faults.tally import Tally, judged

ROOT = Path(__file__).resolve().parents[1]
BENCH = [
    "bench",
    "table-spmotif",
    "--methods",
    "erm",
    "--datasets",
    "spmotif-struc-0.33",
    "--seeds",
    "1-4",
    *SMALL,
    *SHORT,
    "--runs-dir",
    "benched",
]
#: By the clock: most of it is waiting, and the machine may be busy.
LONGEST = 600.0
#: Seconds for which a scheduler does not answer: longer than it may take to be found.
BUSY = 15.0
#: A method that is ERM, in a file that a worker may lack.
PLUGIN = """
from dataclasses import dataclass
from ciga.methods.base import register
from ciga.methods.erm import ERM

@register("mine")
@dataclass
class Mine(ERM):
    summary = "mine"
"""


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "CIGA_CACHE": str(folder / "cache"), "COLUMNS": "200", **more}


@contextmanager
def process(
    words: list[str], folder: Path, env: Mapping[str, str], name: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own group that ends with the block."""
    with (folder / f"{name}.log").open("ab") as log:
        started = subprocess.Popen(
            words, cwd=folder, env=dict(env), stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def certificates(folder: Path) -> dict[str, str]:
    """Dask's variables for a certificate that is made here, valid for a day."""
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=ciga -keyout key.pem -out cert.pem"
    subprocess.run(words.split(), cwd=folder, check=True, capture_output=True)
    tls = "DASK_DISTRIBUTED__COMM__TLS__"
    out = {f"{tls}CA_FILE": str(folder / "cert.pem")}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        out |= {f"{tls}{role}__CERT": str(folder / "cert.pem"), f"{tls}{role}__KEY": str(folder / "key.pem")}
    return out


class Dask:
    """A scheduler and workers, as processes."""

    def __init__(self, folder: Path, protocol: str = "tcp", **more: str) -> None:
        self.folder, self.env = folder, environment(folder, **more)
        self.stack = ExitStack()
        self.protocol, self.address, self.count = protocol, "", 0

    def __enter__(self) -> Dask:
        self.start_scheduler()
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def start_scheduler(self) -> None:
        self.count += 1
        file = self.folder / f"scheduler-{self.count}.json"
        words = [
            sys.executable,
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            f"{self.protocol}://127.0.0.1",
            "--port",
            "0",
        ]
        words += ["--no-dashboard", "--scheduler-file", str(file)]
        self.scheduler = self.stack.enter_context(process(words, self.folder, self.env, "scheduler"))
        wait_for(lambda: file.is_file() and file.stat().st_size > 0)
        time.sleep(0.2)
        self.address = json.loads(file.read_text())["address"]

    def start_worker(self, **more: str) -> subprocess.Popen[bytes]:
        words = [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            self.address,
            "--nthreads",
            "1",
            "--no-nanny",
        ]
        words += ["--no-dashboard", "--host", "127.0.0.1", "--memory-limit", "0"]
        words += ["--local-directory", str(self.folder / "dask")]
        return self.stack.enter_context(process(words, self.folder, {**self.env, **more}, "worker"))

    def bench(
        self, *more: str, meanwhile: Callable[[], None] | None = None, words: list[str] | None = None
    ) -> tuple[int, str]:
        """Run the bench on the cluster: exit code and standard error."""
        code = "from ciga.cli import main; main()"
        command = [sys.executable, "-c", code, *(words or BENCH), "--cluster", self.address, *more]
        with (self.folder / "bench.err").open("w+b") as err:
            running = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=err, stderr=err)
            if meanwhile is not None:
                meanwhile()
            try:
                status = running.wait(LONGEST)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
                status = 124
            err.seek(0)
            return status, err.read().decode(errors="replace")


def wait_for(true: Callable[[], bool], seconds: float = LONGEST) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.05)


def every(home: Path) -> Tally:
    """All of it; about four minutes."""
    tally, began = Tally("dask"), time.monotonic()
    home.mkdir(parents=True)
    plain = _folder(home, "plain")
    code = "from ciga.cli import main; main()"
    subprocess.run(
        [sys.executable, "-c", code, *BENCH, "--workers", "2"],
        cwd=plain,
        env=environment(plain),
        check=True,
        capture_output=True,
    )
    wanted = result(plain, ("benched",))
    wanted = {k: v for k, v in wanted.items() if k.endswith("record.json")}

    def judge(what: str, folder: Path, status: int, err: str, refused: bool = False) -> None:
        found = {k: v for k, v in result(folder, ("benched",)).items() if k.endswith("record.json")}
        if judged(err):
            tally.add("traceback", f"{what}: {err[-1500:]}")
        elif status == 124:
            tally.add("lost", f"{what}: it hangs")
        elif refused:
            tally.add(
                *(
                    ("survived", "")
                    if status in (1, 2)
                    else ("silent", f"{what}: exit code {status}: {err[-600:]}")
                )
            )
        elif status != 0:
            tally.add("lost", f"{what}: exit code {status}: {err[-600:]}")
        else:
            tally.add(
                *(
                    ("survived", "")
                    if found == wanted
                    else ("silent", f"{what}: {sorted(found)} != {sorted(wanted)}")
                )
            )

    def recorded(folder: Path) -> bool:
        return any(folder.glob("benched/*/record.json"))

    folder = _folder(home, "worker-killed")
    with Dask(folder) as dask:
        first = dask.start_worker()
        dask.start_worker()

        def kill() -> None:
            wait_for(lambda: recorded(folder))
            os.killpg(first.pid, signal.SIGKILL)

        judge("worker killed", folder, *dask.bench(meanwhile=kill))

    folder = _folder(home, "scheduler-killed")
    with Dask(folder) as dask:
        dask.start_worker()

        def stop() -> None:
            wait_for(lambda: recorded(folder))
            os.killpg(dask.scheduler.pid, signal.SIGKILL)

        judge("scheduler killed", folder, *dask.bench(meanwhile=stop), refused=True)
        dask.start_scheduler()
        dask.start_worker()
        judge("scheduler killed, given again", folder, *dask.bench())

    folder = _folder(home, "scheduler-busy")
    with Dask(folder) as dask:
        dask.start_worker()

        def freeze() -> None:
            wait_for(lambda: recorded(folder))
            os.killpg(dask.scheduler.pid, signal.SIGSTOP)
            time.sleep(BUSY)
            os.killpg(dask.scheduler.pid, signal.SIGCONT)

        judge("scheduler busy", folder, *dask.bench(meanwhile=freeze))

    folder = _folder(home, "other-version")
    shutil.copytree(ROOT / "src", folder / "other")
    records = folder / "other" / "ciga" / "runs" / "records.py"
    text = records.read_text(encoding="utf-8")
    records.write_text(text.replace("\nFORMAT = 1", "\nFORMAT = 99"), encoding="utf-8")
    with Dask(folder) as dask:
        dask.start_worker(PYTHONPATH=f"{folder / 'other'}{os.pathsep}{ROOT}")
        judge("worker of another version", folder, *dask.bench(), refused=True)

    folder = _folder(home, "no-plugin")
    (folder / "mine.py").write_text(PLUGIN, encoding="utf-8")
    words = [w if w != "erm" else "none" for w in BENCH] + ["--row", "Mine=mine", "--plugin", "mine.py"]
    with Dask(folder) as dask:

        def hide() -> None:
            """The bench has read the file and waits for workers: the one that comes does not have it."""
            wait_for(lambda: (folder / "benched").exists())
            time.sleep(5)
            (folder / "mine.py").rename(folder / "elsewhere.py")
            dask.start_worker()

        status, err = dask.bench(words=words, meanwhile=hide)
        judge("worker without the plugin", folder, status, err, refused=True)

    folder = _folder(home, "tls")
    with Dask(folder, "tls", **certificates(folder)) as dask:
        dask.start_worker()
        judge("TLS", folder, *dask.bench())
        dask.env = environment(folder)
        judge("TLS, client without a certificate", folder, *dask.bench(), refused=True)
    tally.seconds = time.monotonic() - began
    return tally


def _folder(home: Path, name: str) -> Path:
    (home / name).mkdir()
    return home / name
