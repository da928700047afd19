"""Exported models say what the original says, on graphs of other sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ciga.errors import UsageError
from ciga.models.export import Exportable, _random_store, export, inputs_of
from ciga.models.model import Model
from ciga.nn.encoder import Spec
from ciga.nn.readout import READOUTS
from ciga.runs.settings import resolve


def made(
    method: str, features: int = 5, edge_features: int = 0, members: int = 1, edges: int = 0, **settings: Any
) -> Model:
    """An untrained model whose batch norms have something to say."""
    chosen = resolve(method, {"layers": 2, "width": 8, **settings}, preset="none")
    spec = Spec(features, edge_features, 3, 2, (1, 2, 3), edges)
    torch.manual_seed(1)
    networks = []
    for _ in range(members):
        network = chosen.method.network(spec, chosen.backbone).eval()
        for name, buffer in network.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_()
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 2.0)
        for name, parameter in network.named_parameters():
            if name == "gate.openness":
                torch.nn.init.uniform_(parameter, -4.0, 4.0)  # some open, some closed
        networks.append(network)
    return Model(method, chosen.flat(), spec, ["a", "b", "c"], "accuracy", list(range(members)), networks)


CASES: list[tuple[str, dict[str, Any]]] = [
    ("erm", {"conv": "gcn"}),
    ("erm", {"conv": "gin", "readout": "sum", "jk": "cat", "edge_features": 3}),
    ("irm", {"conv": "gcn-ogb", "readout": "max", "virtual_node": True}),
    ("ciga-v1", {"conv": "gcn", "scorer": "inner", "readout": "attention"}),
    ("ciga-v2", {"conv": "gin", "budget": "count", "size": 4, "classifier_input": "raw", "members": 2}),
    ("ciga-v2", {"conv": "gcn-ogb", "budget": "threshold", "size": 0.5, "readout": "mean-max"}),
    ("erm", {"conv": "gin", "gate_price": 0.01}),
    ("ciga-v2", {"conv": "gin", "gate_price": 0.01, "classifier_input": "raw"}),
    ("ciga-v1", {"conv": "gin", "budget": "capped", "size": 0.5, "edges": 6}),
    ("ciga-v2", {"conv": "gin", "size": 0.6, "edge_features": 3, "virtual_node": True, "jk": "sum"}),
    ("ciga-v2", {"conv": "gcn", "features": 0, "edge_features": 3, "readout": "sum", "jk": "max"}),
    ("ciga-v1", {"conv": "gin", "node_features": False, "classifier_input": "raw"}),
    ("dir", {"conv": "gin"}),
    ("gsat", {"conv": "gin", "edge_features": 3}),
]


@pytest.mark.parametrize(("method", "options"), CASES)
def test_the_masked_pass_is_the_original(method: str, options: dict[str, Any]) -> None:
    model = made(method, **options)
    module = Exportable(model).eval()
    for seed, (low, high) in enumerate(((2, 6), (20, 40))):
        batch = _random_store(model, 9, low, high, seed).batch(slice(None))
        seen = model.predict(batch)
        with torch.no_grad():
            found = module(*inputs_of(batch, module.uses_edge_attr))
        torch.testing.assert_close(found[0], seen.probability, rtol=0, atol=1e-5)
        assert len(found) == (3 if seen.score is not None else 1)
        if seen.score is not None:
            assert seen.kept is not None
            torch.testing.assert_close(found[1], seen.score[batch.pair], rtol=0, atol=1e-5)
            assert torch.equal(found[2], seen.kept[batch.pair])


@pytest.mark.parametrize("readout", READOUTS)
def test_an_empty_subgraph_is_empty_in_the_exported_pass_too(readout: str) -> None:
    model = made("ciga-v2", conv="gin", budget="threshold", readout=readout, members=1)
    batch = _random_store(model, 9, 2, 6, 0).batch(slice(None))
    score = model.predict(batch).score
    assert score is not None
    graph = batch.batch[batch.edge_index[0]]
    highest = torch.zeros(9).scatter_reduce(0, graph, score[batch.pair], "amax")
    model.members[0].extractor.size = float(highest.median())  # about half of the graphs keep an edge
    seen = model.predict(batch)
    assert seen.kept is not None
    assert 2 < len(graph[seen.kept[batch.pair]].unique()) < 7
    with torch.no_grad():
        found = Exportable(model).eval()(*inputs_of(batch, False))
    torch.testing.assert_close(found[0], seen.probability, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_torch_export(tmp_path: Path) -> None:
    model = made("ciga-v2", conv="gin", budget="count", size=4, layers=1, edge_features=2)
    path = tmp_path / "model.pt2"
    assert export(model, path) <= 1e-5
    program = torch.export.load(path).module()
    for graphs, low, high in ((1, 7, 8), (6, 30, 50)):
        batch = _random_store(model, graphs, low, high, 9).batch(slice(None))
        found = program(*inputs_of(batch, True))
        torch.testing.assert_close(found[0], model.predict(batch).probability, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_onnx(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is missing: pip install 'ciga[export]'")
    pytest.importorskip("onnxscript", reason="onnxscript is missing: pip install 'ciga[export]'")
    model = made("ciga-v2", conv="gcn-ogb", layers=1)
    path = tmp_path / "model.onnx"
    assert export(model, path, "onnx") <= 1e-5
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for graphs, low, high in ((1, 7, 8), (6, 30, 50)):
        batch = _random_store(model, graphs, low, high, 9).batch(slice(None))
        x, index, _, owner, sizes = inputs_of(batch, False)
        fed = {"x": x, "edge_index": index, "batch": owner, "sizes": sizes}
        known = {i.name for i in session.get_inputs()}
        found = session.run(["probability"], {k: v.numpy() for k, v in fed.items() if k in known})[0]
        torch.testing.assert_close(
            torch.from_numpy(found), model.predict(batch).probability, rtol=0, atol=1e-5
        )


@pytest.mark.parametrize(
    ("method", "settings", "says"),
    [
        ("erm", {"conv": "gat"}, "conv=gat cannot be exported"),
        ("gib", {"conv": "gin"}, "gib cannot be exported"),
        ("erm", {"undirected": True}, "undirected=true cannot be exported: store its edges in both"),
        ("erm", {"walks": 4}, "walks cannot be exported: train it without"),
    ],
)
def test_what_cannot_be_exported_says_so(
    method: str, settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=says):
        export(made(method, **settings), tmp_path / "model.pt2")
    with pytest.raises(UsageError, match="no export format"):
        export(made("erm"), tmp_path / "model.pt2", "pickle")
