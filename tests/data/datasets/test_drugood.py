from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("rdkit")

from ciga.data.dataset import datasets, make
from ciga.data.datasets import drugood
from ciga.errors import CigaError
from ciga.graphs.splits import Splits

NAME = "lbap_core_ec50_assay.json"
PARTS = ("train", "iid_val", "ood_val", "iid_test", "ood_test")


def entry(smiles: str, label: int, domain: int, assay: int) -> dict[str, Any]:
    return {"smiles": smiles, "cls_label": label, "domain_id": domain, "assay_id": assay, "reg_label": 5.5}


def small() -> dict[str, Any]:
    """Training domains 7 (assay 100, twice) and 3 (assay 200); 9 and 1 are met elsewhere only."""
    train = [entry("CCO", 1, 7, 100), entry("CCN", 0, 3, 200), entry("c1ccccc1", 1, 7, 100)]
    iid = [entry("CO", 1, 7, 100), entry("CN", 0, 3, 200)]
    ood_val, ood_test = [entry("CCC", 0, 9, 300), entry("CCCl", 1, 9, 300)], [entry("CCBr", 0, 1, 400)]
    return {"cfg": {}, "split": dict(zip(PARTS, (train, iid, ood_val, iid, ood_test), strict=True))}


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Splits]:
    monkeypatch.setenv("CIGA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data/DrugOOD").mkdir(parents=True)

    def run(content: Any, **options: Any) -> Splits:
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "data/DrugOOD" / NAME).write_text(text)
        return make("drugood-ec50-assay", options).build()

    return run


def test_parts_labels_environments_and_columns(build: Callable[..., Splits]) -> None:
    splits = build(small())
    assert {name: splits[name].num_graphs for name in splits} == {
        "train": 3, "id_val": 2, "ood_val": 2, "id_test": 2, "ood_test": 1,
    }  # fmt: skip
    assert splits.train.y.tolist() == [1, 0, 1]
    assert splits.train.columns["smiles"] == ["CCO", "CCN", "c1ccccc1"]
    env = {name: splits[name].env for name in splits}
    assert all(e is not None for e in env.values())
    # 3 and 7 are the training domains: 0 and 1. Then 1 and 9: 2 and 3.
    assert {name: e.tolist() for name, e in env.items() if e is not None} == {
        "train": [1, 0, 1], "id_val": [1, 0], "ood_val": [3, 3], "id_test": [1, 0], "ood_test": [2],
    }  # fmt: skip
    domain, assay, value = (splits.train.columns[c] for c in ("domain_id", "assay_id", "reg_label"))
    assert isinstance(domain, torch.Tensor)
    assert isinstance(assay, torch.Tensor)
    assert isinstance(value, torch.Tensor)
    assert (domain.tolist(), assay.tolist(), value.tolist()) == ([7, 3, 7], [100, 200, 100], [5.5] * 3)
    assert splits.task.metric == "roc_auc"


def test_single_environment_keeps_the_largest_assay(build: Callable[..., Splits]) -> None:
    splits = build(small(), single_environment=True)
    assert splits.train.columns["smiles"] == ["CCO", "c1ccccc1"]
    assert splits["id_val"].columns["smiles"] == ["CO"]
    assert splits["ood_val"].num_graphs == 2
    assert splits.train.env is not None
    assert splits.train.env.tolist() == [0, 0]
    assert splits.notes["protocol"] == "single environment"


def test_a_partial_file_says_so(build: Callable[..., Splits]) -> None:
    assert "train 3" in build(small()).notes["partial"]


def test_an_altered_file_says_so(build: Callable[..., Splits], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"train": 3, "id_val": 2, "ood_val": 2, "id_test": 2, "ood_test": 1}
    monkeypatch.setitem(drugood.FULL, "drugood-ec50-assay", (counts, "0" * 64))
    notes = build(small()).notes
    assert "altered" in notes
    assert "partial" not in notes


def test_a_molecule_rdkit_cannot_read_is_told(build: Callable[..., Splits]) -> None:
    content = small()
    content["split"]["train"][0]["smiles"] = "C(("
    splits = build(content)
    assert splits.train.columns["smiles"] == ["CCN", "c1ccccc1"]
    assert splits.train.y.tolist() == [0, 1]
    assert "1 molecules RDKit cannot read" in splits.notes["rejected"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("smiles", None),
        ("smiles", ""),
        ("cls_label", 2),
        ("cls_label", "1"),
        ("domain_id", None),
        ("reg_label", "x"),
        ("assay_id", 2**63),
        ("reg_label", 10**400),
    ],
)
def test_a_damaged_entry_is_named(build: Callable[..., Splits], key: str, value: Any) -> None:
    content = small()
    content["split"]["iid_test"][1][key] = value
    if value == "":
        assert "missing SMILES" in build(content).notes["rejected"]
        return
    with pytest.raises(CigaError, match=rf"entry 1 of iid_(val|test) .*{key}"):
        build(content)


@pytest.mark.parametrize("text", [json.dumps(small())[:-40], "[]", "{}", '{"split": {"train": []}}', ""])
def test_a_cut_or_foreign_file_is_an_error(build: Callable[..., Splits], text: str) -> None:
    with pytest.raises(CigaError, match="damaged, cut short or not a DrugOOD file"):
        build(text)


def test_without_the_file_the_error_says_where_to_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIGA_DATA", str(tmp_path))
    dataset = make("drugood-ic50-size")
    assert dataset.missing_files() == ["DrugOOD/lbap_core_ic50_size.json"]
    with pytest.raises(CigaError, match="DrugOOD project") as caught:
        dataset.build()
    assert str(tmp_path / "DrugOOD") in str(caught.value)


def test_all_six_are_registered() -> None:
    names = [name for name in datasets if name.startswith("drugood-")]
    assert names == sorted(drugood.FULL)


# ---------------------------------------------------------------- the real files


def real(name: str) -> Path:
    path = Path(os.environ.get("CIGA_DATA", "no-such-folder")) / "DrugOOD" / name
    if not path.is_file():
        pytest.skip(f"{name} is not in CIGA_DATA")
    return path


@pytest.mark.data
@pytest.mark.parametrize(
    ("domain", "counts"),
    [
        ("assay", (4540, 1502, 2572, 1557, 2490)),
        ("scaffold", (2570, 580, 2532, 4446, 2533)),
        ("size", (4684, 1513, 2313, 1753, 2398)),
    ],
)
def test_ec50_counts(domain: str, counts: tuple[int, ...]) -> None:
    path = real(f"lbap_core_ec50_{domain}.json")
    parts = drugood.read(path)
    assert tuple(len(parts[p]) for p in ("train", "id_val", "ood_val", "id_test", "ood_test")) == counts
    assert sum(counts) == 12661
    assert drugood._about(f"drugood-ec50-{domain}", path, parts) == {}
    seen = {name: {e["domain_id"] for e in entries} for name, entries in parts.items()}
    assert not seen["train"] & (seen["ood_val"] | seen["ood_test"])
    assert not seen["ood_val"] & seen["ood_test"]


@pytest.mark.data
def test_ec50_assay_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = real("lbap_core_ec50_assay.json")
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path))
    splits = make("drugood-ec50-assay").build()
    counts = {name: splits[name].num_graphs for name in splits}
    assert counts == {"train": 4540, "id_val": 1502, "ood_val": 2572, "id_test": 1557, "ood_test": 2490}
    assert splits.notes == {}
    raw = json.loads(path.read_text())["split"]
    for theirs, ours in drugood.PARTS.items():
        assert splits[ours].y.tolist() == [e["cls_label"] for e in raw[theirs]]
        assert splits[ours].columns["smiles"] == [e["smiles"] for e in raw[theirs]]
    assert splits.train.env is not None
    assert sorted(splits.train.env.unique().tolist()) == list(range(47))
    nodes = sum(splits[n].x.size(0) for n in splits) / 12661
    edges = sum(splits[n].edge_index.size(1) for n in splits) / 12661
    # More than the paper's IC50 molecules have (32.27, 70.25): EC50 holds peptides. The ratio is chemistry's.
    assert nodes == pytest.approx(40.134, abs=0.001)
    assert edges == pytest.approx(85.556, abs=0.001)
    assert edges / nodes == pytest.approx(70.25 / 32.27, abs=0.06)

    def never(*_: Any) -> Any:
        raise AssertionError("the second load must come from the cache")

    monkeypatch.setattr(drugood, "read", never)
    assert make("drugood-ec50-assay").build().fingerprint() == splits.fingerprint()


@pytest.mark.data
def test_the_partial_ic50_file_is_called_partial() -> None:
    path = real("lbap_core_ic50_assay.json")
    parts = drugood.read(path)
    note = drugood._about("drugood-ic50-assay", path, parts)
    whole = sum(len(parts[p]) for p in ("train", "ood_val", "ood_test")) == 34179 + 19028 + 19032
    assert ("partial" in note) is not whole
