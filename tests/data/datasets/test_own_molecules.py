from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("rdkit")

from ciga.data.dataset import make
from ciga.data.datasets.own_molecules import rejected_rows
from ciga.data.reading import featurise as molecules
from ciga.errors import CigaError, UsageError
from ciga.graphs.splits import Splits
from ciga.runs.plan import Plan, execute, plan

TAILS = ["", "C", "CC", "OC", "NC", "FC", "ClC", "BrC", "CCC", "OCC"]
CORES = [
    "c1ccccc1",
    "C1CCCCC1",
    "c1ccncc1",
    "C1CCCC1",
    "c1ccoc1",
    "c1ccsc1",
    "C1CCNCC1",
    "C1CCOC1",
    "c1ccc2ccccc2c1",
    "CCCC",
]


def good_rows() -> list[tuple[str, str, str, str, str]]:
    """100 molecules, as smiles, label, assay, year, fold."""
    out = []
    for i in range(100):
        smiles = f"{TAILS[i % 10]}{CORES[i // 10]}"
        fold = "train" if i < 70 else "val" if i < 85 else "test"
        out.append((smiles, "active" if i % 3 else "inactive", f"A{i % 4}", str(1990 + i // 5), fold))
    return out


HEADER = "smiles,label,assay,year,fold"


def write(path: Path, rows: list[str], header: str = HEADER) -> Path:
    path.write_bytes("\n".join([header, *rows]).encode("utf-8", "surrogateescape"))
    return path


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))
    return write(tmp_path / "mols.csv", [",".join(row) for row in good_rows()])


def build(path: Path, **options: Any) -> Splits:
    return make("csv", {"path": str(path), **options}).build()


def test_an_edited_file_is_another_run(table: Path, tmp_path: Path) -> None:
    def planned() -> Plan:
        files = {"path": str(table), "val_path": str(further / "mols.csv"), "test_path": str(table)}
        return plan("molecules", "erm", data=files, settings={"epochs": 1, "width": 4, "layers": 1})

    further = tmp_path / "further"
    further.mkdir()
    write(further / "mols.csv", [",".join(row) for row in good_rows()[:20]])
    before = planned()
    assert planned().hash == before.hash
    first = execute(before, tmp_path / "runs")
    for edited, rows in ((table, good_rows()[::2]), (further / "mols.csv", good_rows()[:30])):
        write(edited, [",".join(row) for row in rows])
        after = planned()
        assert after.hash != before.hash
        before = after
    again = execute(after, tmp_path / "runs")
    assert again["fingerprint"] != first["fingerprint"]
    assert again["hash"] == after.hash


def test_scaffold_is_the_default_and_no_scaffold_is_on_both_sides(table: Path) -> None:
    splits = build(table)
    assert {name: splits[name].num_graphs for name in splits} == {"train": 80, "ood_val": 10, "ood_test": 10}
    assert splits.task.class_names == ("active", "inactive")
    assert splits.task.metric == "roc_auc"
    assert splits.notes["split"] == "scaffold"
    assert set(splits.notes) == {"split", "similarity"}
    assert splits.train.env is None
    cores = [set(molecules.scaffolds(list(splits[name].columns["smiles"]))) for name in splits]  # type: ignore[arg-type]
    assert sum(map(len, cores)) == len(set().union(*cores)) == 10


def test_every_row_keeps_its_label_and_line(table: Path) -> None:
    splits = build(table, split="random", seed=5)
    rows = good_rows()
    seen = []
    for name in splits:
        part = splits[name]
        lines = part.columns["row"]
        assert isinstance(lines, torch.Tensor)
        for smiles, y, line in zip(part.columns["smiles"], part.y.tolist(), lines.tolist(), strict=True):
            assert rows[line - 2][0] == smiles
            assert splits.task.class_names[y] == rows[line - 2][1]
            seen.append(line)
    assert sorted(seen) == list(range(2, 102))


def test_splits_by_size_degree_order_and_column(table: Path) -> None:
    by_size = build(table, split="size")
    assert by_size.train.num_nodes.max() < by_size["ood_val"].num_nodes.min()
    assert by_size["ood_val"].num_nodes.max() < by_size["ood_test"].num_nodes.min()
    down = build(table, split="size", descending=True)
    assert down.train.num_nodes.min() > down["ood_test"].num_nodes.max()
    degree = build(table, split="degree")
    mean = {name: (degree[name].num_edges / degree[name].num_nodes).mean() for name in degree}
    assert mean["train"] < mean["ood_val"] < mean["ood_test"]
    for options in (
        {"order_column": "year"},
        {"split": "order:year"},
        {"split": "order", "order_column": "year"},
    ):
        ordered = build(table, **options)
        assert {n: ordered[n].columns["smiles"] for n in ordered} == {
            "train": [r[0] for r in good_rows()[:80]],
            "ood_val": [r[0] for r in good_rows()[80:90]],
            "ood_test": [r[0] for r in good_rows()[90:]],
        }
    assert ordered.notes["split"] == "order year"
    for options in ({"split_column": "fold"}, {"split": "column:fold"}):
        named = build(table, **options)
        assert {n: named[n].num_graphs for n in named} == {"train": 70, "ood_val": 15, "ood_test": 15}


def test_environments_are_numbered_from_the_training_ones(tmp_path: Path, table: Path) -> None:
    rows = [
        ",".join(("zz" if i >= 90 else r[2]) if k == 2 else c for k, c in enumerate(r))
        for i, r in enumerate(good_rows())
    ]
    splits = build(write(tmp_path / "env.csv", rows), env="assay", split="order:year", id_val=0.2)
    assert splits.train.env is not None
    assert sorted(splits.train.env.unique().tolist()) == [0, 1, 2, 3]
    assert splits["id_val"].num_graphs == 16
    env = splits["ood_test"].env
    assert env is not None
    assert env.unique().tolist() == [4]
    assert set(splits["ood_test"].columns["environment"]) == {"zz"}


def test_several_files(tmp_path: Path, table: Path) -> None:
    rows = [",".join(r[:2]) for r in good_rows()]
    train, val, test = (
        write(tmp_path / f"{name}.csv", part, "smiles,label")
        for name, part in (("train", rows[:60]), ("val", rows[60:75]), ("test", rows[75:]))
    )
    splits = build(train, val_path=str(val), test_path=str(test))
    assert {n: splits[n].num_graphs for n in splits} == {"train": 60, "ood_val": 15, "ood_test": 25}
    assert set(splits["ood_val"].columns["file"]) == {str(val)}
    part = build(train, test_path=str(test), split="random")
    assert {n: part[n].num_graphs for n in part} == {"train": 53, "id_val": 7, "ood_test": 25}
    with pytest.raises(UsageError, match="leave split out"):
        build(train, val_path=str(val), test_path=str(test), split="size")
    with pytest.raises(UsageError, match="There is no file"):
        build(train, val_path=str(tmp_path / "none.csv"))


# ---------------------------------------------------------------- bad rows

TEN_BAD = {
    "C(C,active,A1,1999,train": "unparsable SMILES",
    "CN(C)(C)(C)C,active,A1,1999,train": "impossible molecule",
    "CCO ethanol,active,A1,1999,train": "a space in the SMILES",
    ",active,A1,1999,train": "missing SMILES",
    "CCO,NaN,A1,1999,train": "missing label",
    "CCO,active,,1999,train": "missing environment",
    "CCO,active,A1,,train": "missing year",
    "CCO,active,A1,soon,train": "year is not a number",
    "CCO,active,A1": "too few cells",
    "CCO,active,A1,1999,train,more": "too many cells",
    "C\udcffO,active,A1,1999,train": "not UTF-8",
    "C\0O,active,A1,1999,train": "a NUL byte",
    "CCO,perhaps,A1,1999,train": "label occurs once only",
    '"CCO"x,active,A1,1999,train': "broken quotation marks",
}


def with_bad_rows(path: Path) -> Path:
    """A bad row after each seventh good one, in the order of `TEN_BAD`."""
    rows = [",".join(row) for row in good_rows()]
    for number, bad in enumerate(TEN_BAD):
        rows.insert(7 * number + number, bad)
    return write(path, rows)


def test_all_kinds_of_bad_rows_are_listed_with_their_line(tmp_path: Path, table: Path) -> None:
    path = with_bad_rows(tmp_path / "bad.csv")
    splits = build(path, env="assay", order_column="year")
    assert sum(splits[name].num_graphs for name in splits) == 100
    rejected = rejected_rows(splits)
    lines = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    assert [(lines[r.row - 1], r.reason) for r in rejected] == list(TEN_BAD.items())
    assert all(r.file == str(path) for r in rejected)
    assert all(r.detail for r in rejected)
    assert splits.notes["rejected"].startswith(f"{len(TEN_BAD)} rows: 1 x ")
    for reason in TEN_BAD.values():
        assert f"1 x {reason}" in splits.notes["rejected"]


def test_the_list_survives_the_cache_and_is_made_again_if_deleted(tmp_path: Path, table: Path) -> None:
    path = with_bad_rows(tmp_path / "bad.csv")
    first = build(path, env="assay", order_column="year")
    second = build(path, env="assay", order_column="year")
    assert second.fingerprint() == first.fingerprint()
    assert rejected_rows(second) == rejected_rows(first)
    Path(first.notes["rejected.file"]).unlink()
    assert rejected_rows(build(path, env="assay", order_column="year")) == rejected_rows(second)


@pytest.mark.parametrize(("bad", "reason"), TEN_BAD.items(), ids=TEN_BAD.values())
def test_strict_stops_and_names_the_row(tmp_path: Path, table: Path, bad: str, reason: str) -> None:
    rows = [",".join(row) for row in good_rows()]
    path = write(tmp_path / "one.csv", [*rows[:30], bad, *rows[30:]])
    with pytest.raises(CigaError, match=rf"one\.csv, row 32: {reason}"):
        build(path, env="assay", order_column="year", strict=True)


def test_strict_stops_at_the_first_in_the_file(tmp_path: Path, table: Path) -> None:
    # The ragged row is noticed on reading, long before the SMILES is parsed; the SMILES stands first.
    rows = [",".join(row) for row in good_rows()]
    path = write(tmp_path / "two.csv", [*rows[:5], "C(C,active,A1,1999,train", *rows[5:], "CCO,active"])
    with pytest.raises(CigaError, match=r"two\.csv, row 7: unparsable SMILES"):
        build(path, strict=True)
    # Nor is a row hidden by what follows from it: here one class is left.
    with pytest.raises(CigaError, match=r"three\.csv, row 3: missing label"):
        build(write(tmp_path / "three.csv", ["C,1", "CC,", "CCC,1"], "smiles,label"), strict=True)


def test_a_split_name_nobody_knows(tmp_path: Path, table: Path) -> None:
    rows = [",".join(row) for row in good_rows()]
    splits = build(write(tmp_path / "a.csv", [*rows, "CCO,active,A1,1999,maybe"]), split_column="fold")
    assert [(r.row, r.reason, r.value) for r in rejected_rows(splits)] == [
        (102, "unknown split name", "maybe")
    ]
    with pytest.raises(CigaError, match="No row is for training"):
        build(write(tmp_path / "b.csv", [r.replace("train", "val") for r in rows]), split_column="fold")


def test_a_class_without_a_training_row(tmp_path: Path, table: Path) -> None:
    rows = [",".join(row) for row in good_rows()]
    late = [f"{'C' * n}O,new,A1,2030,test" for n in (3, 4)]
    splits = build(write(tmp_path / "a.csv", [*rows, *late]), split_column="fold")
    assert [(r.row, r.reason) for r in rejected_rows(splits)] == [
        (102, "label never in training"),
        (103, "label never in training"),
    ]
    assert splits.task.class_names == ("active", "inactive")
    assert splits["ood_test"].num_graphs == 15


def test_training_rows_of_one_class(tmp_path: Path, table: Path) -> None:
    rows = [f"{r[0]},{'x' if i < 80 else 'y'},A,{r[3]},-" for i, r in enumerate(good_rows())]
    with pytest.raises(CigaError, match="All training rows are of class 'x'"):
        build(write(tmp_path / "a.csv", rows), order_column="year")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smiles": "smile"}, "There is no column in .* called 'smile'. Did you mean smiles"),
        ({"label": "lable"}, "Did you mean label"),
        ({"split": "scafold"}, "split=scafold is none of scaffold.* Did you mean scaffold"),
        ({"split": "year"}, "split=order:year"),
        ({"split": "order"}, "split=order:COLUMN"),
        ({"split": "column"}, "split=column:COLUMN"),
        ({"split": "files"}, "needs val_path and test_path"),
        ({"fractions": "0.8,0.8,0.1"}, "add up to 1"),
        ({"target_metric": "f1"}, "target_metric=f1"),
        ({"label": "smiles"}, "holds no classes"),
        ({"label": "year", "threshold": "3000"}, "one class only"),
        ({"colour": "red"}, "There is no option of dataset csv called 'colour'"),
    ],
)
def test_wrong_options_say_what_to_do(table: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CigaError, match=message):
        build(table, **options)


def test_without_a_file() -> None:
    assert make("csv").missing_files()
    with pytest.raises(UsageError, match=r"path=FILE\.csv"):
        make("csv").build()


def test_labels_numbers_and_threshold(tmp_path: Path, table: Path) -> None:
    rows = [f"{r[0]},{['0', '1.0', '1', '2'][i % 4]},{4 + i / 50}" for i, r in enumerate(good_rows())]
    path = write(tmp_path / "n.csv", rows, "smiles,grade,pIC50")
    splits = build(path, label="grade", split="random")
    assert splits.task.class_names == ("0", "1", "2")
    assert splits.task.metric == "accuracy"
    assert build(path, label="grade", split="random", target_metric="mcc").task.metric == "mcc"
    cut = build(path, label="pIC50", threshold=5, split="random")
    assert sum(int(cut[n].y.sum()) for n in cut) == 50
    with pytest.raises(CigaError, match=r"measurements, not classes.*--data threshold=4\.99"):
        build(path, label="pIC50")


@pytest.mark.parametrize("suffix", [".tsv", ".csv.gz", ".parquet"])
def test_other_files_give_the_same_graphs(tmp_path: Path, table: Path, suffix: str) -> None:
    text = table.read_text()
    path = tmp_path / f"other{suffix}"
    if suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        columns = zip(*good_rows(), strict=True)
        pq.write_table(pa.table({n: list(c) for n, c in zip(HEADER.split(","), columns, strict=True)}), path)
    else:
        path.write_bytes(
            gzip.compress(text.encode()) if suffix.endswith("gz") else text.replace(",", "\t").encode()
        )
    for name in ("train", "ood_val", "ood_test"):
        assert torch.equal(build(path)[name].x, build(table)[name].x)


def test_the_second_load_comes_from_the_cache_and_a_changed_file_does_not(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(table)

    def never(*_: Any) -> Any:
        raise AssertionError("built again")

    with monkeypatch.context() as patch:
        patch.setattr(molecules, "featurise", never)
        assert build(table).fingerprint() == first.fingerprint()
        with pytest.raises(AssertionError, match="built again"):
            build(table, split="size")
    table.write_text(table.read_text() + "\nCCCCO,active,A1,1999,train\n")
    assert sum(build(table)[n].num_graphs for n in first) == 101


# ---------------------------------------------------------------- real files


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "label", "rows", "positive"), [("BACE", "Class", 1513, 691), ("BBBP", "p_np", 2039, 1560)]
)
def test_molecule_net(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, label: str, rows: int, positive: int
) -> None:
    path = Path(os.environ.get("CIGA_DATA", "no-such-folder")) / f"molecules/{name}.csv.gz"
    if not path.is_file():
        pytest.skip(f"{name}.csv.gz is not in CIGA_DATA")
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path))
    splits = build(path, label=label, split="scaffold")
    assert sum(splits[n].num_graphs for n in splits) == rows
    assert sum(int(splits[n].y.sum()) for n in splits) == positive
    assert rejected_rows(splits) == []
    assert splits.train.num_graphs == pytest.approx(0.8 * rows, abs=1)
    assert splits.leakage() == {"ood_val": 0, "ood_test": 0}


# ---------------------------------------------------------------- splits that mean something


def test_whole_groups_are_held_out(tmp_path: Path, table: Path) -> None:
    rows = [f"{r[0]},{r[1]},{('AA', 'B', 'C', 'D', 'E', 'F', 'G')[i % 7]}" for i, r in enumerate(good_rows())]
    path = write(tmp_path / "g.csv", rows, "smiles,label,assay")
    seen = set()
    for seed in range(6):
        splits = build(path, split="group:assay", env="assay", fractions="0.6,0.2,0.2", seed=seed)
        owners = {name: set(splits[name].columns["environment"]) for name in splits}
        assert set(owners) == {"train", "ood_val", "ood_test"}
        assert sum(map(len, owners.values())) == 7
        seen.add(frozenset(owners["ood_test"]))
        assert splits.notes["split"] == "group assay"
    assert len(seen) > 1, "the seed decides which groups are held out"
    needs = "and a split into three parts needs at least three: take another split rule"
    for groups, says in (
        (1, f"Column 'lab' has only one group, {needs}."),
        (2, f"Column 'lab' has only two groups, {needs}, or set a fraction to 0 (fractions=0.8,0,0.2)."),
    ):
        few = [f"{r[0]},{r[1]},{i % groups}" for i, r in enumerate(good_rows())]
        for rule, what in (("group", "group"), ("order", "different value"), ("time", "different value")):
            with pytest.raises(CigaError) as refused:
                build(write(tmp_path / "few.csv", few, "smiles,label,lab"), split=f"{rule}:lab")
            assert str(refused.value) == says.replace("group", what)
    two = write(tmp_path / "two.csv", few, "smiles,label,lab")
    assert set(build(two, split="group:lab", fractions="0.8,0,0.2")) == {"train", "ood_test"}
    with pytest.raises(UsageError, match="split=group:COLUMN"):
        build(path, split="group")


def test_a_large_group_stays_in_training(tmp_path: Path, table: Path) -> None:
    rows = [f"{r[0]},{r[1]},{'big' if i < 60 else f'g{i % 8}'}" for i, r in enumerate(good_rows())]
    path = write(tmp_path / "g.csv", rows, "smiles,label,assay")
    for seed in range(5):
        splits = build(path, split="group:assay", env="assay", seed=seed)
        assert "big" in splits.train.columns["environment"]
        assert splits.train.num_graphs in range(75, 86)


def test_the_latest_rows_are_the_test(tmp_path: Path, table: Path) -> None:
    splits = build(table, split="time:year")
    assert splits["ood_test"].columns["smiles"] == [r[0] for r in good_rows()[90:]]
    dated = [f"{r[0]},{r[1]},2{999 - i:03d}-05-01" for i, r in enumerate(good_rows())]
    splits = build(write(tmp_path / "d.csv", dated, "smiles,label,day"), split="time:day", descending=True)
    assert splits["ood_test"].columns["smiles"] == [r[0] for r in good_rows()[:10]]


def test_months_by_name_are_in_the_order_of_time(tmp_path: Path, table: Path) -> None:
    """April came first, then August: the alphabet's order."""
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct"]
    named = [f"{r[0]},{r[1]},{months[i // 10]} 2015" for i, r in enumerate(good_rows())]
    path = write(tmp_path / "m.csv", named, "smiles,label,month")
    for split in ("time:month", "order:month"):
        splits = build(path, split=split)
        assert splits["ood_test"].columns["smiles"] == [r[0] for r in good_rows()[90:]]
    american = [f"{r[0]},{r[1]},5/{1 + i % 28}/2015 12:00" for i, r in enumerate(good_rows())]
    path = write(tmp_path / "a.csv", american, "smiles,label,day")
    with pytest.raises(CigaError, match=r"a\.csv, row 2: '5/1/2015 12:00' .* write dates as YYYY-MM-DD"):
        build(path, split="time:day")


def test_parts_of_a_similarity_split_are_unlike(table: Path) -> None:
    from ciga.data.reading.similarity import Nearest

    for split, least in (("similarity", 0.4), ("similarity:0.6", 0.6)):
        splits = build(table, split=split, fractions="0.6,0.2,0.2")
        found = Nearest.of(list(splits.train.columns["smiles"]))(list(splits["ood_test"].columns["smiles"]))
        assert found.similarity.max() < least
        assert (
            "Tanimoto similarity of ood_test to its nearest training molecules: median"
            in (splits.notes["similarity"])
        )
    assert build(table, split="cluster", fractions="0.6,0.2,0.2").notes["split"] == "cluster"
    with pytest.raises(UsageError, match=r"a similarity from 0\.05 to 1"):
        build(table, split="similarity:high")
    with pytest.raises(UsageError, match=r"split=cluster:2: after the colon stands a similarity"):
        build(table, split="cluster:2")
    assert build(table, split="cluster:0.5").notes["split"] == "cluster 0.5"


# ---------------------------------------------------------------- names


def test_the_old_name_gives_the_same_run(table: Path) -> None:
    from ciga.data.dataset import datasets
    from ciga.runs.plan import plan

    old, new = (plan(name, "erm", data={"path": str(table)}).config for name in ("csv", "molecules"))
    assert old == new
    assert new.dataset == "molecules"
    assert "molecules" in list(datasets)
    assert "csv" not in list(datasets)
    assert "csv" in datasets


def test_hashes_are_those_from_before_the_new_name() -> None:
    """Worked out with the code that called the dataset `csv`."""
    from ciga.runs.records import Config

    config = Config("molecules", "erm", 1, {}, {}, changed={"data.path": "m.csv"})
    assert config.hash == Config("csv", "erm", 1, {}, {}, changed={"data.path": "m.csv"}).hash
    assert config.hash == "e2d80ddaf118e52a"


# ---------------------------------------------------------------- which column


@pytest.mark.parametrize("name", ["SMILES", "Canonical SMILES", "mol", "my_smiles_v2", "compound"])
def test_one_obvious_column_of_smiles_is_found(name: str, tmp_path: Path, table: Path) -> None:
    rows = [",".join((f"X-{i}", *row[:2])) for i, row in enumerate(good_rows())]
    path = write(tmp_path / "m.csv", rows, f"id,{name},label")
    splits = build(path)
    assert sum(splits[part].num_graphs for part in splits) == 100
    assert f"'{name}'" in splits.notes["smiles"]
    assert "smiles" not in build(table).notes


def test_two_columns_of_smiles_are_not_guessed_between(tmp_path: Path, table: Path) -> None:
    rows = [f"{r[0]},{r[0]},{r[1]}" for r in good_rows()]
    with pytest.raises(UsageError, match=r"no column in .* called 'smiles'"):
        build(write(tmp_path / "m.csv", rows, "first,second,label"))


def test_smi_files_are_read(tmp_path: Path, table: Path) -> None:
    path = tmp_path / "m.smi"
    path.write_text("smiles label\n" + "".join(f"{r[0]} {r[1]}\n" for r in good_rows()))
    assert torch.equal(build(path).train.x, build(table).train.x)
    from ciga.data.reading.tables import columns_of, read_table

    plain = tmp_path / "plain.smi.gz"
    plain.write_bytes(gzip.compress(b"CCO ethanol, pure\nC\tmethane\n\nCC\n"))
    assert columns_of(plain) == ["smiles", "name"]
    read = read_table(plain, ["smiles", "name"])
    assert read.values == {"smiles": ["CCO", "C", "CC"], "name": ["ethanol, pure", "methane", ""]}
    assert read.rows == [1, 2, 4]
