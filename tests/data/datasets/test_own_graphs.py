"""One's own graphs from every format, cut in every way, with every kind of mistake."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from ciga.data import GraphStore, load
from ciga.data.datasets.own_molecules import rejected_rows
from ciga.data.reading.graph_files import read_graphs
from ciga.errors import CigaError, UsageError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))


def ring(size: int, label: Any, **more: Any) -> dict[str, Any]:
    edges = [[i, (i + 1) % size] for i in range(size)]
    return {"x": [[float(i), 1.0] for i in range(size)], "edges": edges, "y": label, **more}


def rings(count: int = 20) -> list[dict[str, Any]]:
    return [ring(3 + i, ("no", "yes")[i % 2], env=f"lab {i % 3}", year=2000 + i) for i in range(count)]


def write_lines(path: Path, graphs: list[Any]) -> str:
    path.write_text("".join((g if isinstance(g, str) else json.dumps(g)) + "\n" for g in graphs))
    return str(path)


def test_json_lines_are_split_by_size(tmp_path: Path) -> None:
    splits = load("pyg", path=write_lines(tmp_path / "g.jsonl", rings()))
    assert {part: splits[part].num_nodes.tolist() for part in splits} == {
        "train": list(range(3, 19)), "ood_val": [19, 20], "ood_test": [21, 22],
    }  # fmt: skip
    assert splits.task.class_names == ("no", "yes")
    assert splits.task.metric == "roc_auc"
    train = splits.train
    assert train.y[:4].tolist() == [0, 1, 0, 1]
    assert train.env is not None
    assert train.env[:4].tolist() == [0, 1, 2, 0]
    assert train.columns["year"].tolist() == list(range(2000, 2016))
    assert int(train.num_edges[0]) == 6, "edges go both ways"
    assert train.x[:3].tolist() == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    assert load("pyg", path=str(tmp_path / "g.jsonl")).fingerprint() == splits.fingerprint()


@pytest.mark.parametrize("form", ["json", "json.gz", "jsonl.gz", "safetensors", "pt", "collated.pt"])
def test_every_format_gives_the_same_graphs(form: str, tmp_path: Path) -> None:
    graphs = [{**g, "y": i % 2, "env": i % 3} for i, g in enumerate(rings())]
    expected = load("pyg", path=write_lines(tmp_path / "g.jsonl", graphs))
    path = tmp_path / f"h.{form}"
    store = read_graphs(tmp_path / "g.jsonl").store
    store.y = torch.arange(20) % 2
    store.env = torch.arange(20) % 3
    if form == "json":
        path.write_text(json.dumps(graphs))
    elif form == "json.gz":
        path.write_bytes(gzip.compress(json.dumps({"graphs": graphs}).encode()))
    elif form == "jsonl.gz":
        path.write_bytes(gzip.compress((tmp_path / "g.jsonl").read_bytes()))
    elif form == "safetensors":
        store.columns["year"] = torch.arange(2000, 2020)
        store.save(path)
    elif form == "pt":
        torch.save(store.to_pyg(), path)
    else:
        InMemoryDataset.save(store.to_pyg(), str(path))
    splits = load("pyg", path=str(path))
    for part in expected:
        assert torch.equal(splits[part].x, expected[part].x)
        assert torch.equal(splits[part].edge_index, expected[part].edge_index)
        assert splits[part].y.tolist() == expected[part].y.tolist()
        assert splits[part].env.tolist() == expected[part].env.tolist()  # type: ignore[union-attr]


def test_other_splits(tmp_path: Path) -> None:
    graphs = rings()
    for i, graph in enumerate(graphs):
        graph["fold"] = "train" if i < 10 else "valid" if i < 15 else "id_test"
    path = write_lines(tmp_path / "g.jsonl", graphs)
    late = load("pyg", path=path, split="order:year", descending=True)
    assert min(late.train.columns["year"].tolist()) > max(late["ood_test"].columns["year"].tolist())
    named = load("pyg", path=path, split="column:fold")
    assert {part: named[part].num_graphs for part in named} == {"train": 10, "ood_val": 5, "id_test": 5}
    chance = load("pyg", path=path, split="random", fractions=(0.5, 0.25, 0.25), seed=3)
    assert {part: chance[part].num_graphs for part in chance} == {"train": 10, "id_val": 5, "id_test": 5}
    assert (
        chance.fingerprint()
        != load("pyg", path=path, split="random", fractions=(0.5, 0.25, 0.25)).fingerprint()
    )
    held = load("pyg", path=path, id_val=0.25)
    assert {part: held[part].num_graphs for part in held} == {
        "train": 12,
        "id_val": 4,
        "ood_val": 2,
        "ood_test": 2,
    }
    other = load(
        "pyg", path=path, label="env", env="fold", target_metric="mcc", split="order", order_column="year"
    )
    assert other.task.classes == 3
    assert other.task.metric == "mcc"
    dense = [{**g, "edges": g["edges"] + [[0, 2]] * (i > 4)} for i, g in enumerate(rings(10))]
    by_degree = load(
        "pyg", path=write_lines(tmp_path / "d.jsonl", dense), split="degree", fractions=(0.5, 0.25, 0.25)
    )
    assert sorted(by_degree.train.num_nodes.tolist()) == [3, 4, 5, 6, 7]


def test_a_folder_has_one_file_for_each_split(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    write_lines(folder / "train.jsonl", rings(6))
    (folder / "ood_test.json").write_text(json.dumps(rings(3)))
    splits = load("pyg", path=str(folder))
    assert {part: splits[part].num_graphs for part in splits} == {"train": 6, "ood_test": 3}
    assert splits["ood_test"].y.tolist() == [0, 1, 0]
    (folder / "train.jsonl").unlink()
    with pytest.raises(UsageError, match=r"no train\.safetensors"):
        load("pyg", path=str(folder))


BAD = [
    ("no JSON", "{broken", "unreadable graph"),
    ("no object", "[1, 2]", "unreadable graph"),
    ("no nodes", {"edges": [], "y": "no"}, "no nodes"),
    ("zero nodes", {"num_nodes": 0, "y": "no"}, "no nodes"),
    ("dangling edge", ring(3, "no") | {"edges": [[0, 3]]}, "edge to a node that does not exist"),
    ("negative node", ring(3, "no") | {"edges": [[0, -1]]}, "edge to a node that does not exist"),
    ("half an edge", ring(3, "no") | {"edges": [[0, 1], [2]]}, "edges are not pairs of node numbers"),
    ("NaN feature", ring(3, "no") | {"x": [[1, 2], [3, None], [0, 0]]}, "NaN, infinite or too large feature"),
    ("ragged features", ring(3, "no") | {"x": [[1, 2], [3], [0, 0]]}, "x is not a table of numbers"),
    ("text feature", ring(3, "no") | {"x": [["a", 2], [3, 1], [0, 0]]}, "x is not a table of numbers"),
    ("other width", ring(3, "no") | {"x": [[1], [2], [3]]}, "wrong number of features"),
    ("edge_attr", ring(3, "no") | {"edges": [[0, 1]], "edge_attr": [[1], [2]]}, "edge_attr does not fit"),
    ("no label", {k: v for k, v in ring(3, "no").items() if k != "y"}, "missing label"),
    ("lone class", ring(40, "maybe"), "label occurs once only"),
]


def test_every_bad_graph_is_set_aside_and_listed(tmp_path: Path) -> None:
    good = rings()
    path = write_lines(tmp_path / "g.jsonl", [*good, *(graph for _, graph, _ in BAD)])
    splits = load("pyg", path=path)
    assert sum(splits[part].num_graphs for part in splits) == len(good)
    found = {(bad.row, bad.reason) for bad in rejected_rows(splits)}
    assert found == {(len(good) + 1 + i, reason) for i, (_, _, reason) in enumerate(BAD)}
    assert splits.notes["rejected"].startswith(f"{len(BAD)} rows")
    Path(splits.notes["rejected.file"]).unlink()
    assert len(rejected_rows(load("pyg", path=path))) == len(BAD), "the list is made again with the cache"


@pytest.mark.parametrize(("graph", "reason"), [pytest.param(g, r, id=n) for n, g, r in BAD])
def test_strict_stops_at_the_first(graph: Any, reason: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "g.jsonl", [*rings(), graph])
    with pytest.raises(CigaError, match=f"row 21: {reason}"):
        load("pyg", path=path, strict=True)


def test_a_store_with_nan_and_unknown_labels(tmp_path: Path) -> None:
    store = GraphStore.from_pyg(
        [Data(x=torch.ones(2 + i, 1), edge_index=torch.tensor([[0], [1]])) for i in range(9)]
    )
    store.y = torch.tensor([0, 1, -1, 1, 0, 1, 0, 1, 0])
    store.x[0] = float("nan")
    store.save(tmp_path / "s.safetensors")
    splits = load("pyg", path=str(tmp_path / "s.safetensors"), fractions=(0.6, 0.2, 0.2))
    assert sum(splits[part].num_graphs for part in splits) == 7
    assert {(b.row, b.reason) for b in rejected_rows(splits)} == {
        (1, "NaN, infinite or too large feature"),
        (3, "missing label"),
    }


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"path": ""}, "needs a file: path=FILE"),
        ({"path": "nowhere.jsonl"}, "no file nowhere"),
        ({"split": "year"}, "split=order:year"),
        ({"split": "order"}, "split=order:COLUMN"),
        ({"split": "order:yeer"}, "Did you mean year"),
        ({"label": "labl"}, "no value in .* called 'labl'"),
        ({"fractions": (0.5, 0.1)}, "three numbers"),
        ({"splitt": "size"}, "Did you mean split"),
    ],
)
def test_wrong_options_say_what_to_do(values: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "g.jsonl", rings())
    with pytest.raises(CigaError, match=words):
        load("pyg", **{"path": path, **values})


def test_unusable_files_say_why(tmp_path: Path) -> None:
    for name, content, words in (
        ("empty.json", "", "empty"),
        ("cut.json", json.dumps(rings())[:-20], "cut short"),
        ("no.json", "{}", "list of graphs"),
        ("all-bad.jsonl", "{broken\n", "no usable graph"),
        ("table.xlsx", "x", "not a graph file"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(CigaError, match=words):
            load("pyg", path=str(tmp_path / name))
    one_class = write_lines(tmp_path / "one.jsonl", [ring(3 + i, "no") for i in range(9)])
    with pytest.raises(CigaError, match="one class only"):
        load("pyg", path=one_class)


class Evil:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


def test_a_pt_file_cannot_run_code(tmp_path: Path) -> None:
    trace, path = tmp_path / "trace", tmp_path / "evil.pt"
    torch.save([Data(x=torch.ones(1, 1)), Evil(str(trace))], path)
    with pytest.raises(CigaError, match="could run code"):
        load("pyg", path=str(path))
    assert not trace.exists()
    torch.save({"weights": torch.ones(2)}, path)
    with pytest.raises(CigaError, match="neither a list"):
        load("pyg", path=str(path))


def test_edges_given_both_ways_are_not_doubled(tmp_path: Path) -> None:
    graph = {"num_nodes": 3, "edges": [[0, 1], [1, 0], [1, 2]], "edge_attr": [[5], [5], [7]], "y": 0}
    one_way = {"num_nodes": 3, "edges": [[0, 1]], "edge_attr": [[5]], "directed": True, "y": 1}
    as_given = {"num_nodes": 2, "edge_index": [[0], [1]], "edge_attr": [[1]], "y": 1}
    store = read_graphs(Path(write_lines(tmp_path / "g.jsonl", [graph, one_way, as_given]))).store
    assert store.edge_ptr.tolist() == [0, 4, 5, 6]
    assert store.edge_index[:, :4].tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert store.edge_attr is not None
    assert store.edge_attr.flatten().tolist() == [5, 5, 7, 7, 5, 1]


def test_groups_and_time(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "g.jsonl", [{**g, "lab": f"L{i % 5}"} for i, g in enumerate(rings(40))])
    splits = load("graphs", path=path, split="group:lab", fractions=(0.6, 0.2, 0.2))
    owners = [set(splits[part].columns["lab"]) for part in splits]
    assert sum(map(len, owners)) == 5
    late = load("graphs", path=path, split="time:year")
    assert min(late["ood_test"].columns["year"].tolist()) > max(late.train.columns["year"].tolist())


def test_equal_labels_are_one_class_however_they_are_written(tmp_path: Path) -> None:
    labels: list[Any] = [1, "1", 1.0, 0, "0", "0.0"]
    path = write_lines(tmp_path / "g.jsonl", [ring(3 + i, labels[i % 6]) for i in range(24)])
    splits = load("graphs", path=path)
    assert splits.task.class_names == ("0", "1")


def test_measurements_are_refused_with_the_way_out(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "g.jsonl", [ring(3 + i % 9, 4.05 + i % 30 / 10) for i in range(60)])
    with pytest.raises(CigaError, match=r"30 different numbers from 4\.05 to 6\.95.*--data threshold=5\.5"):
        load("graphs", path=path)
    splits = load("graphs", path=path, threshold=5.5, split="random")
    assert splits.task.class_names == ("0", "1")
    assert sum(int(splits[part].y.sum()) for part in splits) == 30


def test_a_label_of_nan_sets_its_row_aside(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "g.jsonl", [*rings(), ring(9, float("nan"))])
    splits = load("graphs", path=path)
    assert [(bad.row, bad.reason) for bad in rejected_rows(splits)] == [(21, "missing label")]


def test_a_number_too_large_for_a_column_is_a_text(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "g.jsonl", [{**g, "id": 2**70 + i} for i, g in enumerate(rings())])
    assert load("graphs", path=path).train.columns["id"][0] == str(2**70)


def test_the_old_name_gives_the_same_run(tmp_path: Path) -> None:
    from ciga.runs.plan import plan

    path = write_lines(tmp_path / "g.jsonl", rings())
    old, new = (plan(name, "erm", data={"path": path}).config for name in ("pyg", "graphs"))
    assert old == new
    assert new.dataset == "graphs"
