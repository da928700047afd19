"""The leakage and shift report finds what was planted, and nothing where there is nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy.stats import false_discovery_control, ks_2samp
from torch_geometric.data import Data

from ciga.data.check.report import _correct, check
from ciga.data.reading.feature_names import ATOM_NAMES
from ciga.graphs.hashes import exact_hashes, wl_hashes
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore


def random_graph(rng: np.random.Generator, nodes: int, shift: float = 0.0, label: int | None = None) -> Data:
    upper = np.triu(rng.random((nodes, nodes)) < 0.4, 1)
    edges = torch.from_numpy(np.stack(np.nonzero(upper | upper.T)))
    x = torch.from_numpy(rng.normal(size=(nodes, 3))).float()
    x[:, 1] += shift
    x[:, 2] = 7.0
    return Data(x=x, edge_index=edges, y=torch.tensor([int(rng.integers(2)) if label is None else label]))


def graphs(seed: int, count: int, nodes: tuple[int, int] = (6, 12), **more: Any) -> list[Data]:
    rng = np.random.default_rng(seed)
    return [random_graph(rng, int(rng.integers(*nodes)), **more) for _ in range(count)]


def renumbered(graph: Data, seed: int) -> Data:
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    shuffled = place[graph.edge_index][:, torch.randperm(graph.edge_index.size(1))]
    return Data(x=graph.x[order], edge_index=shuffled, y=graph.y)


def splits(**parts: list[Data]) -> Splits:
    return Splits({name: GraphStore.from_pyg(part) for name, part in parts.items()}, Task(2))


# ---------------------------------------------------------------- hashes


def test_hashes_of_equal_and_renumbered_graphs() -> None:
    base = graphs(0, 30)
    store = GraphStore.from_pyg(base)
    twins = GraphStore.from_pyg([renumbered(g, i) for i, g in enumerate(base)])
    assert exact_hashes(store).tolist() == exact_hashes(GraphStore.from_pyg(base)).tolist()
    assert wl_hashes(store).tolist() == wl_hashes(twins).tolist()
    assert not set(exact_hashes(store)) & set(exact_hashes(twins))
    for hashes in (exact_hashes(store), wl_hashes(store)):
        assert len(set(hashes.tolist())) == 30
    assert wl_hashes(store.subset([7, 3])).tolist() == wl_hashes(store)[[7, 3]].tolist(), (
        "place does not matter"
    )


@pytest.mark.parametrize("change", ["feature", "edge", "edge_attr", "node"])
def test_a_small_change_changes_both_hashes(change: str) -> None:
    (graph,) = graphs(1, 1)
    graph.edge_attr = torch.ones(graph.edge_index.size(1), 1)
    other = graph.clone()
    if change == "feature":
        other.x[0, 0] += 1e-3
    elif change == "edge":
        other.edge_index = other.edge_index[:, 1:]
        other.edge_attr = other.edge_attr[1:]
    elif change == "edge_attr":
        other.edge_attr[2] = 2.0
    else:
        other.x = torch.cat([other.x, other.x[:1]])
    one, two = GraphStore.from_pyg([graph]), GraphStore.from_pyg([other])
    assert exact_hashes(one)[0] != exact_hashes(two)[0]
    assert wl_hashes(one)[0] != wl_hashes(two)[0]


def test_minus_zero_is_zero_and_wl_has_its_known_limit() -> None:
    plus, minus = (Data(x=torch.tensor([[z]]), edge_index=torch.zeros(2, 0).long()) for z in (0.0, -0.0))
    assert exact_hashes(GraphStore.from_pyg([plus]))[0] == exact_hashes(GraphStore.from_pyg([minus]))[0]

    def cycles(*sizes: int) -> Data:
        edges, start = [], 0
        for size in sizes:
            edges += [(start + i, start + (i + 1) % size) for i in range(size)]
            start += size
        both = edges + [(v, u) for u, v in edges]
        return Data(x=torch.ones(start, 1), edge_index=torch.tensor(both).T)

    hashes = wl_hashes(GraphStore.from_pyg([cycles(6), cycles(3, 3), cycles(7)]))
    assert hashes[0] == hashes[1] != hashes[2]


# ---------------------------------------------------------------- the report


def test_planted_leakage_is_counted_by_kind() -> None:
    train, test = graphs(0, 60), graphs(1, 20)
    flipped = train[5].clone()
    flipped.y = 1 - flipped.y
    test += [train[3].clone(), flipped, renumbered(train[9], 0)]
    report = check(splits(train=train, id_val=graphs(2, 10), ood_test=test))
    exact, wl = report.duplicates["exact"], report.duplicates["WL hash"]
    assert exact["ood_test in train"]["graphs"] == 2
    assert exact["ood_test in train"]["other_label"] == 1
    assert exact["ood_test in train"]["examples"] == [[20, 3], [21, 5]]
    assert wl["ood_test in train"]["graphs"] == 3
    assert exact["id_val in train"]["graphs"] == wl["ood_test in id_val"]["graphs"] == 0
    assert any(
        "2 graphs of ood_test are also in train (exact; 1 with another label)" in w for w in report.warnings()
    )


def test_the_same_molecule_in_other_words_is_found() -> None:
    pytest.importorskip("rdkit")
    data = splits(train=graphs(0, 3), ood_test=graphs(1, 2))
    data.train.columns["smiles"] = ["CCO", "c1ccccc1", "CC"]
    data["ood_test"].columns["smiles"] = ["OCC", "CCC"]
    found = check(data).duplicates["canonical SMILES"]["ood_test in train"]
    assert (found["graphs"], found["examples"]) == (1, [[0, 0]])


def test_equal_distributions_are_not_called_shifted() -> None:
    report = check(splits(train=graphs(0, 300), id_val=graphs(1, 300)))
    shift = report.shifts["id_val"]
    assert not report.label_shift["id_val"]["shifted"]
    assert not any(shift[what]["shifted"] for what in ("nodes", "edges", "degree"))
    assert shift["features"]["shifted"] == 0
    assert shift["features"]["tested"] == 3


def test_planted_shifts_are_found_with_their_size() -> None:
    train = graphs(0, 200, label=0) + graphs(1, 200, label=1)
    test = graphs(2, 40, nodes=(15, 20), shift=1.0, label=0) + graphs(
        3, 160, nodes=(15, 20), shift=1.0, label=1
    )
    report = check(splits(train=train, ood_test=test))
    label, shift = report.label_shift["ood_test"], report.shifts["ood_test"]
    assert label["shifted"]
    assert label["effect"] == pytest.approx(0.3)
    assert label["shares"] == pytest.approx([0.2, 0.8])
    assert shift["nodes"]["shifted"]
    assert shift["nodes"]["effect"] == 1.0
    assert shift["nodes"]["cohens_d"] > 2
    first = shift["features"]["largest"][0]
    assert first["what"] == "x[1]"
    assert first["shifted"]
    assert shift["features"]["shifted"] == 1
    # two normal distributions one standard deviation apart: KS distance 2 Phi(1/2) - 1
    assert first["effect"] == pytest.approx(0.383, abs=0.1)
    assert first["cohens_d"] == pytest.approx(1.0, abs=0.25)
    nodes = [g.num_nodes for g in train], [g.num_nodes for g in test]
    assert shift["nodes"]["p"] == pytest.approx(ks_2samp(*nodes, method="asymp").pvalue)


def test_a_shortcut_that_turns_is_found_though_nothing_else_shifts() -> None:
    def coloured(seed: int, sign: float) -> list[Data]:
        out = graphs(seed, 300)
        for graph in out:
            graph.x[:, 0] += sign * (2 * float(graph.y) - 1)
        return out

    report = check(splits(train=coloured(0, 1.0), id_val=coloured(1, 1.0), ood_test=coloured(2, -1.0)))
    assert report.shifts["ood_test"]["features"]["shifted"] == 0
    assert report.label_ties["id_val"]["shifted"] == 0
    tie = report.label_ties["ood_test"]["largest"][0]
    assert (tie["what"], tie["shifted"], report.label_ties["ood_test"]["shifted"]) == ("x[0]", True, 1)
    train = coloured(0, 1.0)
    means, labels = [float(g.x[:, 0].double().mean()) for g in train], [int(g.y) for g in train]
    assert tie["train_r"] == pytest.approx(np.corrcoef(means, labels)[0, 1])
    assert tie["r"] < -0.8
    assert any(w.startswith("The tie between x[0] and class 1 changes: r = +0.9") for w in report.warnings())


def test_holm_is_holm() -> None:
    values = [0.001, 0.04, 0.03, 0.8]
    entries = [{"p": p, "effect": 0.5} for p in values]
    _correct(entries)
    assert [e["p_holm"] for e in entries] == pytest.approx([0.004, 0.09, 0.09, 0.8])
    assert [e["shifted"] for e in entries] == [True, False, False, False]
    assert all(e["p_holm"] >= q for e, q in zip(entries, false_discovery_control(values), strict=True))


def test_constant_columns_and_environments() -> None:
    train, test = graphs(0, 40), graphs(1, 20)
    for graph in train:
        graph.x[:, 0] = 1.0
    data = splits(train=train, ood_test=test)
    y = data.train.y
    data.train.env = torch.where(y == 1, 5, torch.arange(40) % 2)
    data["ood_test"].env = torch.tensor([0] * 15 + [9] * 5)
    report = check(data)
    assert report.constant_columns["x"] == {"everywhere": [2], "in train only": [0]}
    found = report.environments
    assert found is not None
    assert found["environments"] == 3
    assert found["single_class"] == [0, 1, 5]
    assert found["graphs_in_unseen"] == {"ood_test": 5}
    assert found["graphs_most"] == int((y == 1).sum())
    assert any("3 of 3 training environments have one class only" in w for w in report.warnings())
    assert "1 column of x is constant and says nothing." in report.warnings()
    assert "1 column of x is constant in train only." in report.warnings()
    report.constant_columns["x"] = {"everywhere": [1, 2], "in train only": [0, 3]}
    assert "2 columns of x are constant and say nothing." in report.warnings()
    assert "2 columns of x are constant in train only." in report.warnings()


def test_the_report_is_json_and_prints() -> None:
    report = check(splits(train=graphs(0, 20), ood_test=[*graphs(1, 5), graphs(0, 1)[0]]), "mine")
    again = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert again["duplicates"]["exact"]["ood_test in train"]["graphs"] == 1
    assert again["splits"]["train"]["graphs"] == 20
    console = Console(record=True, width=140, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(report)
    text = console.export_text()
    assert "mine" in text
    assert "ood_test in train" in text
    assert "1 graph of ood_test is also in train" in text


def printed(report: object) -> str:
    console = Console(record=True, width=80, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(report)
    return console.export_text()


def test_columns_of_molecules_have_names_on_screen() -> None:
    pytest.importorskip("rdkit")
    from ciga.data.reading.featurise import featurise

    parts = {"train": ["CCO", "CCN", "CCC", "CCCC"], "ood_test": ["c1ccccc1", "c1ccncc1"]}
    stores = {name: featurise(smiles).store for name, smiles in parts.items()}
    for name, store in stores.items():
        store.y = torch.arange(len(parts[name])) % 2
        store.columns["smiles"] = parts[name]
    report = check(Splits(stores, Task(2)))
    text = printed(report)
    assert any(name in text for name in ATOM_NAMES)
    assert "atom features are constant" in text
    assert not re.search(r"x\[|edge_attr|columns? of", text)
    assert "of x are constant" in " ".join(report.warnings())  # as_dict() keeps what a program looks up


def test_a_clean_check_is_one_sentence_about_duplicates_and_fits_80_columns() -> None:
    text = printed(check(splits(train=graphs(0, 20), ood_test=graphs(1, 10)), "mine"))
    assert "No graph is in two parts (compared by: exact, WL hash)." in text
    assert "x[1]" in text
    assert max(map(len, text.splitlines())) <= 80


def test_tiny_parts_do_not_break_it() -> None:
    lone = Data(x=torch.zeros(1, 0), edge_index=torch.zeros(2, 0).long(), y=torch.tensor([0]))
    report = check(splits(train=[lone, lone.clone()], ood_test=[lone.clone()]))
    assert report.duplicates["exact"]["ood_test in train"]["graphs"] == 1
    assert report.label_shift["ood_test"]["p"] == 1.0
    assert report.shifts["ood_test"]["features"]["tested"] == 0
    json.dumps(report.as_dict(), allow_nan=False)
