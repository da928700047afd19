"""What every method must do. A method joins by being registered.

Nothing is to be edited here, unless a term of its loss is meant to train a helper instead of what predicts.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ciga.data import GraphStore, Splits, load
from ciga.files import read_tensors, write_tensors
from ciga.methods.base import Context, Method, Step, make, methods
from ciga.nn import Backbone, Spec
from ciga.training.fitted import Fitted
from ciga.training.loop import fit
from ciga.training.schedule import Training

NAMES = list(methods)
TRAINED = [name for name in NAMES if not methods[name].closed_form]
BACKBONE = Backbone(layers=2, width=8)
EPOCHS = 3
#: Early and late in training: schedules start and end between the two.
STEPS = ({"epoch": 0, "number": 1, "total": 1000}, {"epoch": 900, "number": 900, "total": 1000})
#: Penalties that are off by default, switched on to be looked at.
SWITCHED_ON = {
    "ciga-complement": {"prior": 1.0},
    "gamma-gin": {"penalty": 0.1},
    "gamma-rpgin": {"penalty": 0.1},
}
#: To learn by heart takes no more than this of a method that looks at every order of every subgraph.
LESS = {"gamma-rpgin": {"exact": 64, "samples": 32}}
#: Terms that train a helper and leave what predicts alone, with the helper's parameters' first name.
HELPERS = {
    ("matchdg", "match"): "matcher",
    ("dir", "shortcut"): "spurious_head",
}
#: Methods that look at G_s without a gradient: the scale of G_s's own batch norm then stays as it was.
LOOK_ONLY = ("dir",)


class Interrupted(Exception):
    """Stands for a killed process."""


# ---------------------------------------------------------------- data and networks, made once


@cache
def splits() -> Splits:
    """Eighteen small graphs to train on, with continuous features, so that no two nodes tie."""
    return load("spmotif-struc", train_per_class=6, val_per_class=2, test_per_class=2, size_shift=False)


@cache
def trained(name: str) -> Fitted:
    """A short, undisturbed run."""
    return run(name)


def run(name: str, folder: Path | None = None, on_epoch: Any = None) -> Fitted:
    training = Training(epochs=EPOCHS, batch_size=7)
    return fit(
        make(name), splits(), backbone=BACKBONE, training=training, seed=3, folder=folder, device="cpu",
        on_epoch=on_epoch,
    )  # fmt: skip


def context_of(data: Splits) -> Context:
    """The reference model is wrong on every fourth graph: some methods learn from its mistakes."""
    y = data.train.y
    guess = torch.where(torch.arange(len(y)) % 4 == 0, (y + 1) % data.task.classes, y)
    logits = 2 * torch.nn.functional.one_hot(guess, data.task.classes).float()
    return Context(data, Spec.of(data), BACKBONE, 3, nn.Identity, lambda network: logits)


def fresh(method: Method, data: Splits, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return method.network(Spec.of(data), BACKBONE)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def rebuilt(store: GraphStore, nodes: Tensor, edges: Tensor, edge_ptr: Tensor) -> GraphStore:
    """The same graphs with their node features in the order `nodes` and these edges."""
    return GraphStore(store.x[nodes], edges, store.node_ptr, edge_ptr, store.y, env=store.env)


# ---------------------------------------------------------------- what it says of itself


@pytest.mark.parametrize("name", NAMES)
def test_describes_itself(name: str) -> None:
    cls = methods[name]
    assert cls.summary
    assert not cls.summary.endswith(".")
    assert cls.__doc__
    assert not cls.__doc__.startswith(cls.__name__ + "(")  # the dataclass's own signature is no description
    assert set(cls.scms) <= {"FIIF", "PIIF"}
    for option in fields(cls):
        assert option.metadata.get("help"), f"{name}: what is {option.name}?"
        for value in option.metadata["grid"]:
            make(name, {option.name: value})


def test_the_papers_overview_table() -> None:
    """Which methods know the environments, and the SCMs each is meant for."""
    expected = {
        "irm": (True, {"PIIF"}),
        "ib-irm": (True, {"PIIF", "FIIF"}),
        "eiil": (False, {"PIIF"}),
        "dann": (True, set()),
        "matchdg": (True, {"FIIF"}),
        "groupdro": (True, set()),
        "cnc": (False, set()),
        "gib": (False, {"FIIF"}),
        "dir": (False, {"FIIF"}),
        "ciga-v1": (False, {"PIIF", "FIIF"}),
        "ciga-v2": (False, {"PIIF", "FIIF"}),
    }
    found = {name: (methods[name].needs_environments, set(methods[name].scms)) for name in expected}
    assert found == expected


# ---------------------------------------------------------------- learning


@pytest.mark.parametrize("name", NAMES)
def test_overfits_sixteen_graphs(name: str) -> None:
    sixteen = splits().train.subset(range(16))
    data = Splits({"train": sixteen, "id_val": sixteen}, splits().task)
    best = 0.0

    def enough(row: dict[str, Any], epochs: int) -> None:
        nonlocal best
        best = max(best, row["metrics"]["id_val"]["accuracy"])
        if best == 1.0:
            raise Interrupted

    training = Training(epochs=200, warmup=200, batch_size=16, lr=0.005)
    backbone = replace(BACKBONE, width=16, readout="sum")
    method = make(name, LESS.get(name))
    with suppress(Interrupted):
        fit(method, data, backbone=backbone, training=training, seed=1, device="cpu", on_epoch=enough)
    assert best == 1.0


def reached(term: Tensor, parameters: dict[str, nn.Parameter]) -> dict[str, float]:
    """The parameters a term depends on, with the largest entry of its gradient by each."""
    if not term.requires_grad:
        return {}
    found = torch.autograd.grad(term, list(parameters.values()), retain_graph=True, allow_unused=True)
    return {
        k: float(g.abs().max()) for k, g in zip(parameters, found, strict=True) if g is not None and g.numel()
    }


@pytest.mark.parametrize("name", TRAINED)
def test_every_term_shapes_what_predicts(name: str) -> None:
    """And no parameter is left that nothing trains.

    A term may be 0 at one start (a hinge, a closed gap), but not at all of them.
    """
    method, data = make(name, SWITCHED_ON.get(name)), splits()
    side = method.prepare(context_of(data))
    batch = data.train.batch(slice(None))
    terms: set[str] = set()
    shaping: set[str] = set()
    trained_by_something: set[str] = set()
    for seed in range(6):
        network = fresh(method, data, seed)
        parameters = dict(network.named_parameters())
        predicting = reached(method.infer(network, batch).logits.square().sum(), parameters)
        for where in STEPS:
            step = Step(**where, side=side)
            for term, value in method.loss(network, batch, step).items():
                assert value.isfinite()
                assert value.dim() == 0
                gradients = reached(value, parameters)
                assert all(g < float("inf") for g in gradients.values())
                helper = HELPERS.get((name, term))
                meant = predicting if helper is None else {k for k in parameters if k.startswith(helper)}
                terms.add(term)
                trained_by_something |= gradients.keys()
                if any(g > 1e-8 for k, g in gradients.items() if k in meant):
                    shaping.add(term)
        if method.critic_steps:
            trained_by_something |= reached(method.critic_loss(network, batch, step), parameters).keys()
    assert shaping == terms
    idle = {k for k in parameters if name in LOOK_ONLY and ".norms.1." in k}
    assert trained_by_something | idle == parameters.keys()


@pytest.mark.parametrize("name", [n for n in TRAINED if methods[n].critic_steps])
def test_a_critic_trains_its_own_parameters(name: str) -> None:
    method, data = make(name), splits()
    network = fresh(method, data)
    parameters = dict(network.named_parameters())
    own = {id(p) for p in method.critic_parameters(network)}
    step = Step(side=method.prepare(context_of(data)))
    gradients = reached(method.critic_loss(network, data.train.batch(slice(None)), step), parameters)
    assert own
    assert any(g > 1e-8 for k, g in gradients.items() if id(parameters[k]) in own)


# ---------------------------------------------------------------- graphs of all kinds


@pytest.mark.parametrize("name", NAMES)
def test_predictions_ignore_the_order_of_nodes_and_edges(name: str) -> None:
    fitted, store = trained(name), splits().train
    network = fitted.network()
    generator = torch.Generator().manual_seed(0)
    place = torch.empty(store.x.size(0), dtype=torch.long)  # new row of each node
    edge_order = []
    for g in range(store.num_graphs):
        a, b = int(store.node_ptr[g]), int(store.node_ptr[g + 1])
        place[a:b] = torch.randperm(b - a, generator=generator) + a
        c, d = int(store.edge_ptr[g]), int(store.edge_ptr[g + 1])
        edge_order.append(torch.randperm(d - c, generator=generator) + c)
    order = torch.cat(edge_order)
    start = store.node_ptr[:-1].repeat_interleave(store.num_edges)
    edges = (place[store.edge_index.long() + start] - start)[:, order]
    other = rebuilt(store, place.argsort(), edges, store.edge_ptr)
    with torch.inference_mode():
        one, two = (fitted.method.infer(network, s.batch(slice(None))).logits for s in (store, other))
    torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
    assert float(one.std(0).max()) > 1e-6


@pytest.mark.parametrize("name", TRAINED)
def test_undirected_means_that_edges_may_be_stored_once(name: str) -> None:
    """With this option, half of the edges (one of each pair) tell a method what all of them do."""
    store, method = splits().train, make(name)
    once = store.edge_index[0] < store.edge_index[1]
    counts = torch.zeros(store.num_graphs, dtype=torch.long)
    counts.index_add_(0, torch.arange(store.num_graphs).repeat_interleave(store.num_edges), once.long())
    pointer = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    half = rebuilt(store, torch.arange(store.x.size(0)), store.edge_index[:, once], pointer)
    torch.manual_seed(0)
    network = method.network(Spec.of(splits()), replace(BACKBONE, undirected=True)).eval()
    with torch.inference_mode():
        one, two = (method.infer(network, s.batch(slice(None))) for s in (half, store))
    torch.testing.assert_close(one.logits, two.logits, rtol=1e-3, atol=1e-4)
    if one.partition is not None and two.partition is not None:
        scores = (found.partition.score.sort().values for found in (one, two))
        torch.testing.assert_close(*scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", TRAINED)
def test_without_node_features_only_the_structure_counts(name: str) -> None:
    store, method = splits().train, make(name)
    torch.manual_seed(0)
    network = method.network(Spec.of(splits()), replace(BACKBONE, node_features=False)).eval()
    other = rebuilt(store, torch.arange(store.x.size(0)), store.edge_index, store.edge_ptr)
    other.x = torch.randn(store.x.shape, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        one, two = (method.infer(network, s.batch(slice(None))).logits for s in (store, other))
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize("name", TRAINED)
def test_walks_are_the_same_from_the_store_and_worked_out_on_the_spot(name: str) -> None:
    data, method = splits(), make(name)
    ready = rebuilt(
        data.train, torch.arange(data.train.x.size(0)), data.train.edge_index, data.train.edge_ptr
    )
    ready.remember_walks(5)
    torch.manual_seed(0)
    network = method.network(Spec.of(data), replace(BACKBONE, walks=5)).eval()
    with torch.inference_mode():
        one, two = (method.infer(network, s.batch(slice(None))).logits for s in (data.train, ready))
    torch.testing.assert_close(one, two)


def kinds_of_batch() -> dict[str, tuple[Splits, Tensor]]:
    """Data and the rows of a batch in it."""
    data = splits()
    store = data.train
    ends = torch.zeros_like(store.edge_ptr)
    bare = rebuilt(store, torch.arange(store.x.size(0)), torch.empty(2, 0, dtype=torch.long), ends)
    half = store.num_edges * (torch.arange(store.num_graphs) % 2)
    kept = half.bool().repeat_interleave(store.num_edges)
    pointer = torch.cat([torch.zeros(1, dtype=torch.long), half.cumsum(0)])
    mixed = rebuilt(store, torch.arange(store.x.size(0)), store.edge_index[:, kept], pointer)
    everything = torch.arange(store.num_graphs)
    return {
        "one class": (data, (store.y == store.y[0]).nonzero().flatten()),
        "one graph": (data, torch.tensor([4])),
        "no edges": (replace(data, parts={"train": bare}), everything),
        "some without edges": (replace(data, parts={"train": mixed}), everything),
    }


@pytest.mark.parametrize("kind", ["one class", "one graph", "no edges", "some without edges"])
@pytest.mark.parametrize("name", NAMES)
def test_odd_batches_are_finite(name: str, kind: str) -> None:
    fitted = trained(name)
    method, network = fitted.method, fitted.network()
    data, rows = kinds_of_batch()[kind]
    batch = data.train.batch(rows)
    with torch.inference_mode():
        found = method.infer(network, batch)
    assert found.logits.shape == (rows.numel(), 3)
    assert found.logits.isfinite().all()
    assert found.representation.size(0) == rows.numel()
    assert found.representation.isfinite().all()
    assert (found.partition is not None) is method.extracts
    if found.partition is not None:
        score, kept = found.partition.score, found.partition.kept
        assert score.shape == kept.shape == (batch.num_pairs,)
        assert kept.dtype == torch.bool
        assert score.isfinite().all()
    if method.closed_form:
        return
    side = {k: v[rows] for k, v in method.prepare(context_of(data)).items()}
    network.train()
    for where in STEPS:
        step = Step(**where, side=side)
        if method.critic_steps:
            method.critic_loss(network, batch, step).backward()
        terms = method.loss(network, batch, step)
        assert all(value.isfinite() for value in terms.values()), terms
        sum(terms.values(), torch.zeros(())).backward()
    assert all(p.grad.isfinite().all() for p in network.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", NAMES)
def test_a_prediction_does_not_depend_on_the_rest_of_the_batch(name: str) -> None:
    fitted, store = trained(name), splits().train
    network = fitted.network()
    with torch.inference_mode():
        together = fitted.method.infer(network, store.batch(slice(None))).logits[5:6]
        alone = fitted.method.infer(network, store.batch([5])).logits
    torch.testing.assert_close(alone, together, rtol=1e-3, atol=1e-4)


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bytes(name: str) -> None:
    torch.rand(5)  # what the caller drew before must not matter
    again = run(name)
    assert again.states.keys() == trained(name).states.keys()
    assert all(same(again.states[s], trained(name).states[s]) for s in again.states)
    assert again.selected == trained(name).selected


@pytest.mark.parametrize("name", TRAINED)
def test_kill_and_continue(name: str, tmp_path: Path) -> None:
    def kill(row: dict[str, Any], epochs: int) -> None:
        if row["epoch"] == 0:
            raise Interrupted

    with pytest.raises(Interrupted):
        run(name, tmp_path, kill)
    seen: list[int] = []
    continued = run(name, tmp_path, lambda row, epochs: seen.append(row["epoch"]))
    assert seen == list(range(1, EPOCHS))
    assert all(same(continued.states[s], trained(name).states[s]) for s in continued.states)
    assert continued.selected == trained(name).selected


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load(name: str, tmp_path: Path) -> None:
    fitted = trained(name)
    network = fitted.network("last")
    write_tensors(tmp_path / "weights.safetensors", network.state_dict(), {})
    tensors, _ = read_tensors(tmp_path / "weights.safetensors")
    torch.manual_seed(99)
    loaded = make(name).network(fitted.spec, BACKBONE)
    loaded.load_state_dict(tensors)
    batch = splits()["ood_test"].batch(slice(None))
    with torch.inference_mode():
        before, after = (fitted.method.infer(n.eval(), batch).logits for n in (network, loaded))
    assert torch.equal(before, after)
