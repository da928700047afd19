"""Predictions of files: every row comes out, in its place, and memory does not grow with the file."""

from __future__ import annotations

import csv
import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from ciga.data import GraphStore
from ciga.data.reading import featurise as molecules
from ciga.errors import UsageError
from ciga.models import stream
from ciga.models.model import Model
from ciga.models.stream import added_columns, predict_file, read_labelled
from tests.helpers import random_graph
from tests.small_models import MOLECULES, molecule_model, toy_model, toy_splits, write_molecules

pytest.importorskip("rdkit", reason="RDKit is missing: pip install 'ciga[chem]'")


@pytest.fixture(scope="module")
def model() -> Model:
    return molecule_model("ciga-v2", seeds=2)


def rows_of(path: Path) -> list[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("chunk", [7, 1000])
def test_columns_order_and_bad_rows(model: Model, tmp_path: Path, chunk: int) -> None:
    source = write_molecules(tmp_path / "in.csv")
    out = tmp_path / "out.csv"
    totals = predict_file(model, source, out, chunk=chunk)
    given = list(csv.reader(source.open()))
    found = rows_of(out)
    assert [*found[0]] == [*given[0], *added_columns(model)]
    assert (totals.rows, totals.errors) == (50, 2)
    for row, cells in zip(found, given[1:], strict=True):
        assert [row[name] for name in given[0]] == [*cells, *[""] * (4 - len(cells))]
    errors = {row["id"]: row["error"] for row in found if row["error"]}
    assert set(errors) == {"bad1", "bad2"}
    assert "unparsable SMILES" in errors["bad1"]
    assert "too few cells" in errors["bad2"]
    for row in found:
        assert bool(row["prediction"]) == (not row["error"])
        if row["prediction"]:
            each = [float(row["p(0)"]), float(row["p(1)"])]
            assert sum(each) == pytest.approx(1, abs=1e-5)
            assert float(row["probability"]) == pytest.approx(max(each))
            assert row["shift"] == ("yes" if float(row["shift_score"]) > 1 else "no")
            assert bool(row["shift_reason"]) == (row["shift"] == "yes")


def test_the_numbers_are_the_models(model: Model, tmp_path: Path) -> None:
    source = write_molecules(tmp_path / "in.csv", bad=False)
    predict_file(model, source, tmp_path / "out.csv", chunk=11)
    smiles = [row["smiles"] for row in rows_of(source)]
    store = molecules.featurise(smiles).store
    batch = store.batch(slice(None))
    seen = model.predict(batch)
    assert model.gauge is not None
    shift = model.gauge.measure(batch, seen.embedded, store)
    assert shift.ratio.size(1) == 4
    for i, row in enumerate(rows_of(tmp_path / "out.csv")):
        assert float(row["p(1)"]) == pytest.approx(float(seen.probability[i, 1]), abs=2e-6)
        assert float(row["uncertainty"]) == pytest.approx(float(seen.spread[i]), abs=2e-6)
        assert float(row["shift_score"]) == pytest.approx(float(shift.score[i]), rel=1e-3)


def test_names_that_are_taken_and_other_formats(model: Model, tmp_path: Path) -> None:
    source = tmp_path / "in.tsv"
    source.write_text("smiles\terror\tprediction\nCCO\tmine\tours\n")
    predict_file(model, source, tmp_path / "out.csv.gz")
    row = rows_of(tmp_path / "out.csv.gz")[0]
    assert (row["error"], row["prediction"]) == ("mine", "ours")
    assert row["ciga_prediction"] in ("0", "1")
    with pytest.raises(UsageError, match="would replace"):
        predict_file(model, source, source)


def test_mistakes(model: Model, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("price\n17\n")
    with pytest.raises(UsageError, match="column"):
        predict_file(model, tmp_path / "in.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    with pytest.raises(UsageError, match="no file"):
        predict_file(model, tmp_path / "nothing.csv", tmp_path / "out.csv")
    with pytest.raises(UsageError, match="tables of SMILES"):
        predict_file(model, Path(__file__), tmp_path / "out.csv")


def peak(model: Model, source: Path, rows: int) -> int:
    source.write_text("smiles\n" + "".join(f"{'C' * (1 + i % 9)}O\n" for i in range(rows)))
    tracemalloc.start()
    totals = predict_file(model, source, source.with_name("out.csv"), chunk=256, workers=1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert totals.rows == rows
    return most


def test_memory_does_not_grow_with_the_file(model: Model, tmp_path: Path) -> None:
    small, large = (peak(model, tmp_path / "in.csv", rows) for rows in (600, 3000))
    assert large < 1.3 * small


def test_graphs_line_by_line(tmp_path: Path) -> None:
    model = toy_model()
    lines = []
    for i in range(9):
        graph = random_graph(6, 7, i)
        edges = graph.edge_index.tolist()
        lines.append(json.dumps({"x": graph.x.tolist(), "edge_index": edges, "name": f"g{i}", "y": i % 3}))
    lines[4] = json.dumps({"x": [[1.0]], "edges": []})
    lines[7] = "{no json"
    source = tmp_path / "graphs.jsonl"
    source.write_text("\n".join(lines) + "\n")
    totals = predict_file(model, source, tmp_path / "out.csv", chunk=4)
    found = rows_of(tmp_path / "out.csv")
    assert [row["row"] for row in found] == [str(i) for i in range(1, 10)]
    assert [row["name"] for row in found][:4] == ["g0", "g1", "g2", "g3"]
    assert [bool(row["error"]) for row in found] == [i in (4, 7) for i in range(9)]
    assert totals.errors == 2
    (tmp_path / "wide.jsonl").write_text(json.dumps({"x": [[1.0] * 9], "edges": []}))
    with pytest.raises(UsageError, match="wrong number of features"):
        predict_file(model, tmp_path / "wide.jsonl", tmp_path / "out.csv")


def test_labels_of_a_file(model: Model, tmp_path: Path) -> None:
    source = write_molecules(tmp_path / "in.csv")
    found = read_labelled(model, source)
    assert found.store.num_graphs == 48
    assert [row for row, _ in found.errors] == ["7", "8"], "as ciga data check counts them"
    assert found.rows == [row for row in range(2, 52) if row not in (7, 8)]
    given = [row for row in rows_of(source) if not row["id"].startswith("bad")]
    assert found.store.y.tolist() == [int(row["active"]) for row in given]
    assert found.names is not None
    assert found.names[:2] == ["m0", "m1"]
    assert len(found.names) == found.store.num_graphs
    assert read_labelled(model, source, label="id").store.y.max() == -1
    few = read_labelled(model, source, most=10)
    assert (few.store.num_graphs, few.rows) == (10, [2, 3, 4, 5, 6, 9, 10, 11, 12, 13])
    toy_splits()["ood_test"].save(tmp_path / "graphs.safetensors")
    assert isinstance(read_labelled(toy_model(), tmp_path / "graphs.safetensors").store, GraphStore)


def test_rows_are_lines_of_the_file_in_every_chunk(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in.csv"
    source.write_text('\n\nsmiles,note\nCCO,"two\nlines"\n\nC(C,\nCCN,\nCCC,\n')
    whole = stream.read_chunks
    monkeypatch.setattr(stream, "read_chunks", lambda *a: whole(*a, size=2))
    found = read_labelled(model, source)
    assert (found.rows, [row for row, _ in found.errors]) == ([4, 8, 9], ["7"])
    (tmp_path / "in.smi").write_text("CCO a\nC(C b\nCCN c\n")
    bare = read_labelled(model, tmp_path / "in.smi")
    assert (bare.rows, [row for row, _ in bare.errors]) == ([1, 3], ["2"])


def test_rows_that_were_in_training_are_counted(model: Model, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("smiles\n" + "".join(f"{s}\n" for s in [*MOLECULES, "OCC", "CCCCCCCC", "C(C"]))
    totals = predict_file(model, source, tmp_path / "out.csv", chunk=3)
    assert totals.seen == len(MOLECULES) + 1, "OCC is CCO, written the other way round"
    forgetful = replace(model, gauge=replace(model.gauge, tensors=dict(model.gauge.tensors)))  # type: ignore
    assert forgetful.gauge is not None
    del forgetful.gauge.tensors["seen"]
    assert predict_file(forgetful, source, tmp_path / "out.csv").seen is None


def test_parquet_holds_what_csv_holds(model: Model, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="PyArrow is missing: pip install 'ciga[tables]'")
    source = write_molecules(tmp_path / "in.csv")
    for name in ("out.csv", "out.parquet"):
        predict_file(model, source, tmp_path / name, chunk=7, workers=1)
    plain = rows_of(tmp_path / "out.csv")
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.column_names == list(plain[0])
    numbers = {name for name in found.column_names if str(found.schema.field(name).type) == "double"}
    assert numbers == {"probability", "p(0)", "p(1)", "uncertainty", "shift_score"}
    for ours, theirs in zip(found.to_pylist(), plain, strict=True):
        for name, value in ours.items():
            assert (
                value == (None if not theirs[name] else float(theirs[name]))
                if name in numbers
                else (value == theirs[name])
            )


@pytest.mark.parametrize("name", ["out.json", "out.xlsx", "out.csv.zip", "out.FEATHER"])
def test_a_name_that_promises_another_format_is_refused(model: Model, tmp_path: Path, name: str) -> None:
    source = write_molecules(tmp_path / "in.csv")
    with pytest.raises(UsageError, match=r"choose \.csv, \.tsv, \.csv\.gz or \.parquet"):
        predict_file(model, source, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_equal_predictions_are_equal_files(model: Model, tmp_path: Path) -> None:
    source = write_molecules(tmp_path / "in.csv")
    for name in ("one.csv.gz", "two.csv.gz", "one.parquet", "two.parquet"):
        predict_file(model, source, tmp_path / name, workers=1)
    for kind in ("csv.gz", "parquet"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
