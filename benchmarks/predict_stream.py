"""Stream a generated table of SMILES through `ciga predict`: rows a second, and memory as the file grows.

    python -m benchmarks.predict_stream [ROWS]

The table is written piece by piece, a twentieth of it first: were memory proportional to the rows, the peak
after all of them would be twenty times that after the first part.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

import torch

from ciga.data.reading import featurise as molecules
from ciga.graphs.splits import Splits, Task
from ciga.models.featuriser import featuriser_of
from ciga.models.model import Model
from ciga.models.shift import Gauge
from ciga.models.stream import predict_file
from ciga.nn.encoder import Spec
from ciga.runs.records import peak_memory_mb
from ciga.runs.settings import resolve

# A molecule is HEAD + CORE + chain + END: these go together in any combination.
CORES = ["c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccsc1", "C1CCOC1", "c1ccc2ccccc2c1", "C1CCNCC1"]
HEADS = ["C", "OC", "NC", "FC", "ClC", "CCC", "OCC", "CC(=O)", "NC(=O)C", "OC(=O)CC", "C=C", "CS"]
ENDS = ["", "C", "CO", "CN", "CF", "CCl", "C(C)=O", "C(N)=O", "C(O)=O", "C=C", "SC", "C#N", "CC(C)C"]


def small_model() -> Model:
    """Two untrained networks: their speed does not depend on what they know."""
    smiles = [f"{head}{core}" for core, head in itertools.product(CORES, HEADS)]
    store = molecules.featurise(smiles).store.labelled(torch.arange(len(smiles)) % 2)
    splits = Splits({"train": store, "id_val": store}, Task(2))
    chosen = resolve("ciga-v2", {"conv": "gin", "layers": 3, "width": 32}, preset="none")
    spec = Spec.of(splits)
    networks = [chosen.method.network(spec, chosen.backbone).eval() for _ in range(2)]
    model = Model("ciga-v2", chosen.flat(), spec, ["0", "1"], "roc_auc", [1, 2], networks)
    model.featuriser = featuriser_of([store], {})
    model.gauge = Gauge.calibrate(model.embed, splits)
    return model


def write_table(path: Path, rows: int) -> None:
    """Molecules of 6 to 25 heavy atoms, one row in a thousand bad."""
    kinds = list(itertools.product(HEADS, CORES, ENDS))
    with path.open("w") as file:
        file.write("id,smiles\n")
        for i in range(rows):
            head, core, end = kinds[i % len(kinds)]
            file.write(f"{i},{'C1CC' if i % 1000 == 999 else head + core + 'C' * (i % 7) + end}\n")


def main(rows: int) -> None:
    torch.set_num_threads(1)
    model = small_model()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in.csv", Path(folder) / "out.csv"
        for part in (rows // 20, rows):
            write_table(source, part)
            began, cpu = time.perf_counter(), os.times()
            totals = predict_file(model, source, out)
            seconds = time.perf_counter() - began
            spent = sum(os.times()[:4]) - sum(cpu[:4])
            print(
                f"{totals.rows:,} rows ({totals.errors:,} bad), {source.stat().st_size / 2**20:.0f} MB in, "
                f"{out.stat().st_size / 2**20:.0f} MB out: {seconds:.0f} s "
                f"({totals.rows / seconds:,.0f} rows/s; "
                f"{spent:.0f} s of this process's CPU), peak memory {peak_memory_mb():.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
