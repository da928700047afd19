"""Gates on node features: what they let through, what they cost, and what they close."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ciga.data import GraphStore, Splits, Task
from ciga.files import read_tensors, write_tensors
from ciga.methods.base import Step, make, methods
from ciga.nn import Backbone, Spec
from ciga.nn.gate import FeatureGate, closed_columns, gate_cost, gate_of
from ciga.training.loop import fit
from ciga.training.schedule import Training
from tests.helpers import batch_of, ciga, mixed_graphs, random_graph

#: The methods that read x with a GNN, whose network therefore has a gate.
GATED = [name for name in methods if not methods[name].closed_form and not name.startswith("gamma")]
EPOCHS = 60
SPEC = Spec(features=4, edge_features=0, classes=3, environments=2, degrees=(1, 3, 4, 2), edges=14)


def gate_at(*openness: float, price: float = 1.0) -> FeatureGate:
    gate = FeatureGate(len(openness), price)
    with torch.no_grad():
        gate.openness.copy_(torch.tensor(openness))
    return gate


def test_open_at_the_start_and_without_noise_in_evaluation() -> None:
    gate = FeatureGate(3, price=1.0).eval()
    batch = batch_of(mixed_graphs(features=3))
    assert torch.equal(gate(batch).x, batch.x)


def test_a_closed_column_is_exactly_zero() -> None:
    batch = batch_of(mixed_graphs(features=3))
    seen = gate_at(9.0, -9.0, 0.0).eval()(batch).x
    assert torch.equal(seen[:, 0], batch.x[:, 0])
    assert torch.equal(seen[:, 1], torch.zeros_like(seen[:, 1]))
    torch.testing.assert_close(seen[:, 2], 0.5 * batch.x[:, 2])


def test_the_cost_is_the_price_times_the_expected_number_of_open_gates() -> None:
    gate = gate_at(3.0, -3.0, 0.0, price=0.7)
    torch.manual_seed(0)
    share = (gate.sample(20_000) > 0).float().mean(0)
    assert float(gate.cost().detach()) == pytest.approx(0.7 * float(share.sum()), abs=0.02)


def test_gradients_of_cost_and_of_what_is_let_through() -> None:
    gate = gate_at(0.0, 0.0)
    gate.cost().backward()
    assert (gate.openness.grad > 0).all()  # type: ignore[operator]
    gate.openness.grad = None
    torch.manual_seed(0)
    gate.sample(50).sum().backward()
    assert (gate.openness.grad > 0).all()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("features", "values"),
    [(4, {}), (0, {"gate_price": 1.0}), (4, {"gate_price": 1.0, "node_features": False})],
)
def test_no_gate_where_there_is_no_price_or_nothing_to_close(features: int, values: dict[str, Any]) -> None:
    gate = gate_of(Spec(features, 0, 3), Backbone(**values))
    assert not isinstance(gate, FeatureGate)
    assert gate_cost(gate) == {}
    assert closed_columns(gate.state_dict()) is None


@pytest.mark.parametrize("name", GATED)
def test_every_network_reads_x_through_its_gate(name: str) -> None:
    method = make(name, {"classifier_input": "raw"} if hasattr(methods[name], "classifier_input") else {})
    torch.manual_seed(0)
    network = method.network(SPEC, Backbone(layers=2, width=8, gate_price=1.0)).eval()
    (gate,) = (m for m in network.modules() if isinstance(m, FeatureGate))
    with torch.no_grad():
        gate.openness.copy_(torch.tensor([9.0, -9.0, 9.0, -9.0]))
        graphs = mixed_graphs()
        before = method.infer(network, batch_of(graphs)).logits
        for graph in graphs:
            graph.x[:, [1, 3]] += 5.0
        assert torch.equal(method.infer(network, batch_of(graphs)).logits, before)
        for graph in graphs:
            graph.x[:, 0] += 5.0
        assert not torch.allclose(method.infer(network, batch_of(graphs)).logits, before)


def test_the_loss_reaches_the_gate_of_an_extracting_network() -> None:
    method = make("ciga-v1", {"classifier_input": "raw"})
    torch.manual_seed(1)
    network = method.network(SPEC, Backbone(layers=2, width=8, gate_price=1.0))
    method.loss(network, batch_of(mixed_graphs()), Step())["risk"].backward()
    assert network.gate.openness.grad.abs().max() > 0
    assert set(gate_cost(network)) == {"gate"}
    network.hold_featurizer()  # g is held, and its gate with it
    assert gate_cost(network) == {}
    assert not network.gate.training


# ---------------------------------------------------------------- what a price closes


def one_useful_column() -> Splits:
    """The label stands in column 0 of every node; columns 1 and 2 are noise."""
    graphs = []
    for seed in range(64):
        graph = random_graph(5, 5, seed, features=3, y=seed % 2)
        graph.x[:, 0] = 2.0 * (seed % 2) - 1.0
        graphs.append(graph)
    store = GraphStore.from_pyg(graphs)
    return Splits({"train": store, "id_val": store}, Task(2, "accuracy"))


def trained(price: float, speed: float = 1.0, epochs: int = EPOCHS) -> Any:
    backbone = Backbone(layers=1, width=8, conv="gin", gate_price=price, gate_speed=speed)
    training = Training(epochs=epochs, warmup=epochs, batch_size=32, lr=0.05)
    return fit(make("erm"), one_useful_column(), backbone=backbone, training=training, device="cpu")


def test_a_price_closes_what_is_useless_and_keeps_what_is_useful(tmp_path: Path) -> None:
    fitted = trained(0.2)
    assert fitted.history[-1]["terms"]["gate"] < fitted.history[0]["terms"]["gate"]
    state = fitted.states["last"]
    assert closed_columns(state) == [1, 2]
    assert fitted.selected["last"]["id_val"]["accuracy"] == 1.0
    # What is saved is what is loaded, the gates included.
    write_tensors(tmp_path / "weights.safetensors", state, {})
    loaded: dict[str, Tensor] = read_tensors(tmp_path / "weights.safetensors")[0]
    network = make("erm").network(fitted.spec, fitted.backbone)
    network.load_state_dict(loaded)
    batch = one_useful_column().train.batch(slice(None))
    assert torch.equal(network.eval()(batch), fitted.network("last")(batch))


def test_fast_gates_start_open_close_in_fewer_epochs_and_are_known_as_closed() -> None:
    assert torch.equal(FeatureGate(2, 1.0, speed=10.0).location, FeatureGate(2, 1.0).location)
    epochs = EPOCHS // 6
    assert closed_columns(trained(0.2, epochs=epochs).states["last"]) == []
    fast = trained(0.2, speed=10.0, epochs=epochs)
    assert closed_columns(fast.states["last"]) == [1, 2]
    assert fast.selected["last"]["id_val"]["accuracy"] == 1.0


def test_in_training_every_graph_draws_its_gates() -> None:
    """One draw for a whole batch is a scale, which batch norm takes out: no column would be missed."""
    batch = batch_of(mixed_graphs(features=3))
    batch.x = torch.ones_like(batch.x)
    torch.manual_seed(0)
    seen = gate_at(0.0, 0.0, 0.0)(batch).x
    for graph in range(batch.num_graphs):
        assert (seen[batch.batch == graph] == seen[batch.batch == graph][0]).all()
    assert seen.unique(dim=0).size(0) == batch.num_graphs


def test_a_column_counts_as_closed_when_every_member_closed_it() -> None:
    state = {
        "0.gate.openness": torch.tensor([-9.0, -9.0, 9.0]),
        "1.gate.openness": torch.tensor([-9.0, 9.0, 9.0]),
    }
    assert closed_columns(state) == [0]
    assert closed_columns({"readout.gate.weight": torch.zeros(3)}) is None


def test_record_and_show_say_what_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[Any] = ["run", "spmotif-struc", "erm", "--runs-dir", tmp_path, "--set", "gate_price=50"]
    for option in ("train_per_class=6", "val_per_class=2", "test_per_class=2", "size_shift=false"):
        words += ["--data", option]
    for setting in (
        "epochs=1",
        "batch_size=2",
        "lr=1",
        "averaging=0",
        "node_features=true",
        "layers=1",
        "width=4",
        "walks=0",
    ):
        words += ["--set", setting]
    code, out, err = ciga(monkeypatch, capsys, *words)
    assert code == 0, err
    (folder,) = (f.parent for f in tmp_path.glob("*/record.json"))
    code, out, _ = ciga(monkeypatch, capsys, "runs", "show", folder.name, "--runs-dir", tmp_path)
    assert code == 0
    assert json.loads((folder / "record.json").read_text())["closed_features"] == [0, 1, 2, 3]
    assert "node features that training switched off: x[0], x[1], x[2], x[3]" in out
