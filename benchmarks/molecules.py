"""Which tool for a table of molecules? Forest, networks, their mixture and chemprop on the same rows.

    CIGA_DATA=... python -m benchmarks.molecules --tables bace,bbbp --splits scaffold,cluster --seeds 5

Every tool trains on the same training rows, chooses its epoch on the same validation rows (`ood_val`), and is
scored on the same test rows (`ood_test`). Records go to `benchmarks/molecules.jsonl`, one line for each
table, split and tool; lines that are there already are not measured again, unless they say that they are
`older`: from before a change of what is measured. chemprop is not a dependency:
`--chemprop PYTHON` names the interpreter of an environment that has it. Without it, its lines are left out.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# One thread: see ciga.cli. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from ciga.data.dataset import make
from ciga.files import atomic
from ciga.graphs.splits import Splits
from ciga.models.fit import fit_ensemble
from ciga.models.model import Model
from ciga.models.report_data import AUTO, YARDSTICK, rule_of, scan_parts
from ciga.models.shift import MEASURES
from ciga.models.summary import compare, ensemble_score
from ciga.runs.records import versions
from ciga.runs.settings import OWN_PRESET

#: table -> (file, column of labels, rows to take; 0: all)
TABLES = {
    "bace": ("BACE.csv.gz", "Class", 0),
    "bbbp": ("BBBP.csv.gz", "p_np", 0),
    "hiv-10k": ("HIV.csv.gz", "HIV_active", 10_000),
    "tox21-nr-ahr": ("Tox21.csv.gz", "NR-AhR", 0),
    "tox21-sr-are": ("Tox21.csv.gz", "SR-ARE", 0),
    "tox21-sr-mmp": ("Tox21.csv.gz", "SR-MMP", 0),
}
#: DrugOOD has splits of its own.
DRUGOOD = ("drugood-ec50-assay", "drugood-ec50-scaffold", "drugood-ec50-size")
RECORDS = Path(__file__).parent / "molecules.jsonl"
Line = dict[str, Any]
CPU = ("--accelerator", "cpu", "--num-workers", "0")


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", default="bace,bbbp", help=f"of {', '.join((*TABLES, *DRUGOOD))}")
    parser.add_argument("--splits", default="scaffold,cluster")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="maximum number, for a try; else as ciga fit trains")
    parser.add_argument("--chemprop", metavar="PYTHON", help="an interpreter that has chemprop 2")
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as scratch:
        for table in given.tables.split(","):
            for split in ("own",) if table in DRUGOOD else given.splits.split(","):
                dataset, data = source(table, split, Path(scratch))
                wanted = {"table": table, "split": split, "seeds": given.seeds}
                if not _has(given.out, {**wanted, "tool": AUTO}):
                    settings = {} if given.epochs is None else {"epochs": given.epochs}
                    ours = measure(dataset, data, given.seeds, given.runs_dir, settings)
                    keep(given.out, wanted, ours)
                if given.chemprop and not _has(given.out, {**wanted, "tool": "chemprop"}):
                    rows = make(dataset, data).build()
                    theirs = chemprop(given.chemprop, rows, given.seeds, Path(scratch))
                    keep(given.out, wanted, theirs)


def source(table: str, split: str, scratch: Path) -> tuple[str, Line]:
    """The dataset and its options, with a tenth of the training rows held out as `ciga fit` does it."""
    if table in DRUGOOD:
        return table, {}
    name, label, rows = TABLES[table]
    path = Path(os.environ["CIGA_DATA"]) / "molecules" / name
    if rows:  # always the same rows, in the order of the file
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        chosen = np.sort(np.random.default_rng(0).permutation(len(lines) - 1)[:rows]) + 1
        path = scratch / f"{table}.csv"
        path.write_text("\n".join([lines[0], *(lines[i] for i in chosen)]) + "\n")
    return "molecules", {"path": str(path), "label": label, "split": split, "id_val": 0.1}


def measure(dataset: str, data: Line, seeds: int, runs_dir: Path, settings: Line) -> Iterator[Line]:
    """`ciga fit` as it is for a file: the mixture, and each of its methods alone.

    DrugOOD's rows are fitted with the same preset as a file that holds them would be.

    Args:
        dataset: Its name.
        data: Its options.
        seeds: The number of networks of each method.
        runs_dir: Where runs are kept.
        settings: Other than the defaults.
    """
    start, used = time.perf_counter(), processor()
    model = fit_ensemble(
        dataset, AUTO, seeds=seeds, data=data, runs_dir=runs_dir, settings=settings, preset=OWN_PRESET
    )
    wall, used = time.perf_counter() - start, processor() - used
    told = model.report_data
    splits = make(dataset, data).build()
    tested, each = splits["ood_test"].y, {**model.rivals, model.method_name: model.only(model.method_name)}
    said = {name: scan_parts(one, splits, ["ood_test"])["ood_test"] for name, one in each.items()}
    for tool, found in told["ensembles"].items():
        single = told["scores"][tool][rule_of(told, tool)]["ood_test"]["roc_auc"]
        seconds = told["seconds"].get(tool) or [s for some in told["seconds"].values() for s in some]
        yield {
            **_outline(model),
            "tool": tool,
            "settings": settings,
            "roc_auc": found["ood_test"],
            "single": single,
            "id_val": found["id_val"]["mean"] if "id_val" in found else None,
            "seconds": round(sum(seconds), 1),
            "shares": model.shares if tool == AUTO else None,
            "flagged": told["flagged"]["ood_test"]["any"] if tool == AUTO else None,
            "told_apart": told_apart(model, splits) if tool == AUTO else None,
            "against_auto": None if tool == AUTO else told["comparisons"][tool],
            "against_erm": None
            if tool in (AUTO, YARDSTICK)
            else compare(said[tool], said[YARDSTICK], tested, "roc_auc"),
            "wall": round(wall, 1),
            "processor": round(used, 2),  # of all tools of the row, runs that were there already left out
        }


def processor() -> float:
    """Processor seconds of this process and of those it has started, as far as they have ended."""
    return sum(os.times()[:4])


def told_apart(model: Model, splits: Splits) -> dict[str, float]:
    """How well each measure of the gauge tells test rows from rows like training: AUROC, 0.5 is chance."""
    gauge, alone = model.gauge, model.only(model.method_name)
    assert gauge is not None
    usual, shifted = (
        torch.cat([gauge.measure(b, alone.embed(b), splits[part]).ratio for b in splits[part].batches(256)])
        for part in ("id_val", "ood_test")
    )
    where = np.repeat([0, 1], [len(usual), len(shifted)])
    ratio = torch.cat([usual, shifted]).nan_to_num().numpy()  # infinitely far is further than all others
    return {
        name: round(float(roc_auc_score(where, ratio[:, i])), 4)
        for i, name in enumerate(MEASURES[: ratio.shape[1]])
    }


def _outline(model: Model) -> Line:
    return {
        "fingerprint": model.fingerprint,
        "preset": OWN_PRESET,
        "selection": model.selection,
        "nearest": model.report_data["flagged"]["ood_test"].get("nearest"),
        "versions": versions(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def chemprop(python: str, splits: Splits, seeds: int, scratch: Path) -> Iterator[Line]:
    """chemprop 2 with its defaults, as an ensemble; its members are the single models.

    Args:
        python: The interpreter of its environment.
        splits: The rows.
        seeds: The number of members.
        scratch: A folder for its files.
    """
    place = Path(tempfile.mkdtemp(dir=scratch))
    parts = {"train": "train", "ood_val": "val", "ood_test": "test"}
    with (place / "rows.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["smiles", "y", "split"])
        for part, word in parts.items():
            for smiles, y in zip(splits[part].columns["smiles"], splits[part].y.tolist(), strict=True):
                out.writerow([smiles, y, word])
    tested = list(splits["ood_test"].columns["smiles"])
    (place / "test.csv").write_text("\n".join(["smiles", *map(str, tested)]) + "\n")
    call = [python, "-c", "from chemprop.cli.main import main; main()"]
    begun, used = time.perf_counter(), processor()
    _run([*call, "train", "-i", str(place / "rows.csv"), "-o", str(place / "model"), "-t", "classification",
          "-s", "smiles", "--target-columns", "y", "--splits-column", "split", "--ensemble-size", str(seeds),
          "--pytorch-seed", "1", *CPU], place)  # fmt: skip
    seconds, used = round(time.perf_counter() - begun, 1), round(processor() - used, 2)
    _run([*call, "predict", "-i", str(place / "test.csv"), "-o", str(place / "out.csv"), "-s", "smiles",
          "--model-paths", str(place / "model"), *CPU], place)  # fmt: skip
    every = _predictions(place, seeds)
    y = splits["ood_test"].y
    both = torch.from_numpy(np.stack([1 - every, every], -1))
    ask = [python, "-c", "import chemprop; print(chemprop.__version__)"]
    version = subprocess.run(ask, capture_output=True, text=True, check=True)
    yield {
        "tool": "chemprop",
        "fingerprint": splits.fingerprint(),
        "preset": "chemprop's defaults",
        "selection": "its validation loss on ood_val",
        "roc_auc": ensemble_score(both, y, "roc_auc"),
        "single": [float(roc_auc_score(y.numpy(), one)) for one in every],
        "seconds": seconds,
        "processor": used,
        "versions": {"python": platform.python_version(), "chemprop": version.stdout.strip()},
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _predictions(place: Path, seeds: int) -> Any:
    """[members, rows]: what each of chemprop's members says of the test rows."""
    file = place / ("out_individual.csv" if seeds > 1 else "out.csv")
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    columns = [name for name in rows[0] if name.startswith("y")]
    if len(columns) != seeds:
        raise SystemExit(f"{file.name} has {len(columns)} columns of predictions, not {seeds}.")
    return np.array([[float(row[name]) for row in rows] for name in columns])


def _run(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"chemprop failed:\n{done.stderr[-2000:]}")


def keep(file: Path, wanted: Line, found: Iterable[Line]) -> None:
    """What was measured goes to the file and to the screen."""
    lines = [{**wanted, **line} for line in found]
    append(file, lines)
    for line in lines:
        place = f"{line['table']} {line['split']} {line['tool']}"
        print(f"{place}: {line['roc_auc']['mean']:.3f}, {line['seconds']} s", flush=True)


def read(file: Path = RECORDS) -> list[Line]:
    """All lines of a file of records; none where there is no file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def append(file: Path, lines: Sequence[Line]) -> None:
    """The file with more lines: written beside and renamed, so that none is lost.

    An older line makes way for a new one of the same table, split and tool.
    """
    fresh = {_subject(line) for line in lines}
    kept = [line for line in read(file) if not (line.get("older") and _subject(line) in fresh)]
    told = [json.dumps(line) for line in (*kept, *lines)]
    with atomic(file) as beside:
        beside.write_text("\n".join(told) + "\n")


def _subject(line: Line) -> tuple[Any, ...]:
    return line["table"], line["split"], line.get("tool")


def _has(file: Path, wanted: Mapping[str, Any]) -> bool:
    return any(wanted.items() <= line.items() for line in read(file) if not line.get("older"))


if __name__ == "__main__":
    main()
