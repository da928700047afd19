"""DrugOOD: which molecules bind, on assays, scaffolds or sizes not trained on (Ji et al., 2022).

| name                  | train  | id_val | ood_val | id_test | ood_test |
|-----------------------|--------|--------|---------|---------|----------|
| drugood-ec50-assay    | 4,540  | 1,502  | 2,572   | 1,557   | 2,490    |
| drugood-ec50-scaffold | 2,570  | 580    | 2,532   | 4,446   | 2,533    |
| drugood-ec50-size     | 4,684  | 1,513  | 2,313   | 1,753   | 2,398    |
| drugood-ic50-assay    | 34,179 |        | 19,028  |         | 19,032   |
| drugood-ic50-scaffold | 21,519 |        | 19,041  |         | 19,048   |
| drugood-ic50-size     | 36,597 |        | 17,660  |         | 16,415   |

The IC50 counts are those of the paper's table, which leaves the in-distribution parts out. `env` numbers the
domains (assays, scaffolds or sizes): first those of the training part, from 0, then those met elsewhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import torch

from ciga.data.cache import cached, file_hash, find_raw, raw_file
from ciga.data.dataset import Dataset, register
from ciga.data.reading import chem
from ciga.data.reading import featurise as molecules
from ciga.errors import CigaError
from ciga.graphs.splits import Splits, Task
from ciga.options import tunable
from ciga.progress import Progress, silent

SOURCE = "the DrugOOD project (github.com/tencent-ailab/DrugOOD, its realised datasets)"
#: Their names of the parts -> ours.
PARTS = {
    "train": "train",
    "iid_val": "id_val",
    "ood_val": "ood_val",
    "iid_test": "id_test",
    "ood_test": "ood_test",
}
FIELDS: dict[str, tuple[type, ...]] = {
    "smiles": (str,), "cls_label": (int,), "domain_id": (int,), "assay_id": (int,), "reg_label": (int, float),
}  # fmt: skip
#: How many molecules a whole file has in each part; and its sha256 where the original is known to us.
FULL: dict[str, tuple[dict[str, int], str | None]] = {
    "drugood-ec50-assay": (
        {"train": 4540, "id_val": 1502, "ood_val": 2572, "id_test": 1557, "ood_test": 2490},
        "a7e8dd4dfe9f60d7ebcc94ccdaa0c77edb628525978f91e0c82bb1ab61924643",
    ),
    "drugood-ec50-scaffold": (
        {"train": 2570, "id_val": 580, "ood_val": 2532, "id_test": 4446, "ood_test": 2533},
        "e8a4a603a74f74d4a4da0438b0546aa76519d1b95b26524914df1e52f99d7761",
    ),
    "drugood-ec50-size": (
        {"train": 4684, "id_val": 1513, "ood_val": 2313, "id_test": 1753, "ood_test": 2398},
        "47a68d1c2364f2d1a75fea383271c6ba5ca4facdbe17039edc970a6dd160c263",
    ),
    "drugood-ic50-assay": ({"train": 34179, "ood_val": 19028, "ood_test": 19032}, None),
    "drugood-ic50-scaffold": ({"train": 21519, "ood_val": 19041, "ood_test": 19048}, None),
    "drugood-ic50-size": ({"train": 36597, "ood_val": 17660, "ood_test": 16415}, None),
}

Entry = dict[str, Any]


@dataclass
class DrugOOD(Dataset):
    """Base of the six: the fields are the options, the class variables say which file."""

    single_environment: bool = tunable(
        False, help="train on the largest assay only (the paper's single-environment study)"
    )

    classes: ClassVar[int] = 2
    metric: ClassVar[str] = "roc_auc"
    measure: ClassVar[str] = ""
    domain: ClassVar[str] = ""

    @property
    def _file(self) -> str:
        return f"DrugOOD/lbap_core_{self.measure}_{self.domain}.json"

    def missing_files(self) -> list[str]:
        return [] if find_raw(self._file) else [self._file]

    def build(self, progress: Progress = silent) -> Splits:
        path = raw_file(self._file, source=SOURCE)
        key = {
            "version": [1, molecules.VERSION],
            "rdkit": chem.version(),
            "single_environment": self.single_environment,
        }
        return cached(self.name, key, [path], lambda: self._read(path, progress))

    def _read(self, path: Path, progress: Progress) -> Splits:
        parts = read(path)
        notes = _about(self.name, path, parts)
        domain = "domain_id"
        if self.single_environment:
            parts, domain, notes["protocol"] = *_largest_assay(parts), "single environment"
        number = _numbering(parts, domain)
        entries = [entry for part in parts.values() for entry in part]
        store, rows, errors = molecules.featurise([e["smiles"] for e in entries], progress)
        if errors:
            notes["rejected"] = f"{len(errors)} molecules RDKit cannot read, left out: " + "; ".join(
                f"{e.smiles} ({e.reason})" for e in errors[:10]
            )
        good = [entries[row] for row in rows]
        store.y = torch.tensor([e["cls_label"] for e in good])
        store.env = torch.tensor([number[e[domain]] for e in good])
        for name in ("assay_id", "domain_id"):
            store.columns[name] = torch.tensor([e[name] for e in good])
        store.columns["reg_label"] = torch.tensor([float(e["reg_label"]) for e in good])
        belongs = [name for name, part in parts.items() for _ in part]
        where = {name: [i for i, row in enumerate(rows) if belongs[row] == name] for name in parts}
        stores = {name: store.subset(where[name]) for name in parts if where[name]}
        return Splits(stores, Task(2, self.metric, ("inactive", "active")), notes)


def read(path: Path) -> dict[str, list[Entry]]:
    """The entries of each part of a DrugOOD file, checked one by one."""
    try:
        split = json.loads(path.read_text(encoding="utf-8"))["split"]
        parts = {ours: split[theirs] for theirs, ours in PARTS.items()}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CigaError(
            f"{path} is damaged, cut short or not a DrugOOD file ({type(error).__name__}): "
            f"get it from {SOURCE}."
        ) from error
    for theirs, ours in PARTS.items():
        for row, entry in enumerate(parts[ours]):
            for key, kinds in FIELDS.items():
                value = entry.get(key) if isinstance(entry, dict) else None
                if not isinstance(value, kinds) or (isinstance(value, int) and abs(value) >= 2**63):
                    raise CigaError(
                        f"{path}: entry {row} of {theirs} has no proper {key}: get the file again."
                    )
            if entry["cls_label"] not in (0, 1):
                raise CigaError(f"{path}: entry {row} of {theirs} has a cls_label that is neither 0 nor 1.")
    return parts


def _about(name: str, path: Path, parts: Mapping[str, Sequence[Entry]]) -> dict[str, str]:
    """A note if this is not the whole, original file: a score on another one is not comparable."""
    full, sha256 = FULL[name]
    counts = {part: len(parts[part]) for part in full}
    if counts != full:
        here, whole = (", ".join(f"{part} {n:,}" for part, n in c.items()) for c in (counts, full))
        return {"partial": f"{path.name} has {here}; the whole has {whole}. No score on it is one on {name}."}
    if sha256 is not None and file_hash(path) != sha256:
        return {"altered": f"{path.name} has the counts of the original {name}, but another content."}
    return {}


def _largest_assay(parts: Mapping[str, list[Entry]]) -> tuple[dict[str, list[Entry]], str]:
    """Only the most frequent assay of the training part, where data is drawn as in training."""
    sizes = Counter(entry["assay_id"] for entry in parts["train"])
    largest = max(sorted(sizes), key=sizes.__getitem__)
    kept = {
        name: entries if name.startswith("ood") else [e for e in entries if e["assay_id"] == largest]
        for name, entries in parts.items()
    }
    return kept, "assay_id"


def _numbering(parts: Mapping[str, list[Entry]], domain: str) -> dict[int, int]:
    """Domain -> environment: the training domains first, from 0."""
    ids = {name: {entry[domain] for entry in entries} for name, entries in parts.items()}
    others = set().union(*ids.values()) - ids["train"]
    return {value: number for number, value in enumerate([*sorted(ids["train"]), *sorted(others)])}


for _measure, _domain in product(("ec50", "ic50"), ("assay", "scaffold", "size")):
    register(f"drugood-{_measure}-{_domain}")(
        type(
            f"DrugOOD{_measure.upper()}{_domain.capitalize()}",
            (DrugOOD,),
            {
                "__module__": __name__,
                "__doc__": f"DrugOOD lbap-core-{_measure}-{_domain}.",
                "measure": _measure,
                "domain": _domain,
                "shift": {"size": "molecule size"}.get(_domain, _domain),
                "summary": f"ligand affinity ({_measure.upper()}), molecules of unseen {_domain}s",
            },
        )
    )
