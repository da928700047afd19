"""A cluster that speaks TLS: with our certificates it does the runs, without them it is a sentence."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from faults.cluster import Dask, environment

pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
SHORT = "--epochs 1 --set layers=1 --set width=4 --data train_per_class=2 --data val_per_class=2 "
SHORT += "--data test_per_class=2"
BENCH = f"bench table-spmotif --methods erm --datasets spmotif-struc-0.33 --seeds 1 {SHORT}"


def example(folder: Path) -> dict[str, str]:
    """Run the commands of the page that make certificates; returns the variables it tells to export."""
    block = r"<!-- not run: tested in tests/runs/test_tls\.py -->\n```bash\n(.*?)```"
    made, exported = re.findall(block, PAGE.read_text(encoding="utf-8"), re.S)
    subprocess.run(["bash", "-euc", made], cwd=folder, check=True, capture_output=True)
    told = "env -0 | grep -z ^DASK_"  # what a shell makes of these lines
    found = subprocess.run(["bash", "-euc", exported + told], cwd=folder, check=True, capture_output=True)
    return dict(line.split("=", 1) for line in found.stdout.decode().split("\0") if line)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_example_of_the_page_works_and_strangers_are_refused(tmp_path: Path) -> None:
    with Dask(tmp_path, "tls", **example(tmp_path)) as dask:
        assert dask.address.startswith("tls://")
        dask.start_worker()
        status, err = dask.bench(words=[*BENCH.split(), "--runs-dir", "runs"])
        assert status == 0, err
        (record,) = (tmp_path / "runs").glob("*/record.json")
        assert json.loads(record.read_text())["method"] == "erm"
        shutil.rmtree(tmp_path / "runs")
        dask.env = environment(tmp_path)  # no certificates
        status, err = dask.bench(words=[*BENCH.split(), "--runs-dir", "runs"])
    assert status == 1
    assert "Traceback" not in err
    assert "certificate" in err
