"""Training epochs: CIGA against ERM, ERM against a bare loop and PyG, every method against ERM."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.loader import DataLoader

from benchmarks.data import SHAPES, SPMOTIF, Shape
from benchmarks.peers import PyGNetwork, bare_logits
from benchmarks.timing import Ratio, Section, take_turns
from ciga import train
from ciga.data.splits import Splits
from ciga.data.store import GraphStore
from ciga.methods.method import Context, Method, make, methods
from ciga.nn.encoder import Spec
from ciga.nn.networks import GraphNetwork

#: What issue and paper say of the time of a method, in epochs of ERM.
AIMS = {
    **dict.fromkeys(("irm", "vrex", "ib-irm", "groupdro", "coral", "dann", "cnc"), "<= 1.6"),
    **{"ciga-v1": "<= 3", "ciga-v2": "< 2", "eiil": "<= 2", "asap": "<= 3", "dir": "<= 4", "gib": "<= 8"},
}


def ours(method: Method, splits: Splits, shape: Shape, batch_size: int | None = None) -> Callable[[], object]:
    """One epoch of the library's own loop; `prepare` and the building of the network come before."""
    torch.manual_seed(1)
    spec, schedule = Spec.of(splits), train.Training(batch_size=batch_size or shape.batch_size, epochs=2)
    network = method.network(spec, shape.backbone)
    context = _context(splits, spec, shape)
    if method.closed_form:
        return lambda: method.fit(network, context, lambda *_: None)
    side, optimizers = method.prepare(context), train._optimizers(method, network, schedule)
    return lambda: train._train_epoch(method, network, splits.train, schedule, optimizers, side, 1)


def _context(splits: Splits, spec: Spec, shape: Shape) -> Context:
    """A reference model with untrained weights: what it says does not matter to the time of an epoch."""

    @torch.inference_mode()
    def predict(network: nn.Module) -> Tensor:
        return torch.cat([network(batch) for batch in splits.train.batches(256)])

    reference = GraphNetwork(spec, shape.backbone).eval()
    return Context(splits, spec, shape.backbone, 1, lambda: reference, predict)


def bare(splits: Splits, shape: Shape) -> Callable[[], object]:
    """The bare-tensor loop of ERM, its batches made beforehand."""
    torch.manual_seed(1)
    network = GraphNetwork(Spec.of(splits), shape.backbone)
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    adam = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    batches = list(splits.train.batches(shape.batch_size))

    def epoch() -> None:
        for batch in batches:
            adam.zero_grad()
            nn.functional.cross_entropy(bare_logits(state, shape.backbone, batch), batch.y).backward()
            adam.step()

    return epoch


def pyg(splits: Splits, shape: Shape) -> Callable[[], object]:
    """ERM with PyG's DataLoader, message passing and pooling."""
    torch.manual_seed(1)
    network = PyGNetwork(GraphNetwork(Spec.of(splits), shape.backbone)).train()
    adam = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(splits.train.to_pyg(), batch_size=shape.batch_size, shuffle=True)

    def epoch() -> None:
        for data in loader:
            adam.zero_grad()
            nn.functional.cross_entropy(network(data), data.y).backward()
            adam.step()

    return epoch


def measure(repeat: int, quick: bool) -> Section:
    """The table of shapes."""
    section = Section()
    for shape in SHAPES:
        reason = shape.missing()
        if reason:
            section.skipped[f"epochs on {shape.name}"] = reason
            continue
        splits = shape.load(quick)
        order = torch.arange(splits.train.num_graphs)

        def batches(splits: Splits = splits, shape: Shape = shape, order: Tensor = order) -> None:
            for _ in splits.train.batches(shape.batch_size, order[torch.randperm(order.numel())]):
                pass

        jobs = {
            "erm": ours(make("erm"), splits, shape),
            "ciga-v1": ours(make("ciga-v1", shape.ciga), splits, shape),
            "ciga-v2": ours(make("ciga-v2", shape.ciga), splits, shape),
            "ciga-v2-attached": ours(
                make("ciga-v2", {**shape.ciga, "spurious_gradient": True}), splits, shape
            ),
            "bare": bare(splits, shape),
            "pyg": pyg(splits, shape),
            "batches": batches,
        }
        seconds = take_turns(jobs, repeat)
        section.note(f"epoch.{shape.name}", seconds)
        section.ratios += _ratios(shape, seconds)
    return section


def _ratios(shape: Shape, seconds: dict[str, list[float]]) -> list[Ratio]:
    """The lines of one shape; SPMotif's have the plain names."""
    mark = "" if shape is SPMOTIF else f"_{shape.name}"
    lines = (
        ("epoch_ciga_v1_over_erm", "ciga-v1", "erm", "an epoch of CIGAv1 / of ERM", "<= 3"),
        ("epoch_ciga_v2_over_erm", "ciga-v2", "erm", "an epoch of CIGAv2 / of ERM", "< 2"),
        (
            "epoch_ciga_v2_attached_over_erm", "ciga-v2-attached", "erm",
            "the same with spurious_gradient=true / of ERM", "<= 3.5",
        ),
        ("epoch_erm_over_bare_loop", "erm", "bare", "an epoch of ERM / a bare-tensor loop", "<= 1.5"),
        ("epoch_pyg_over_erm", "pyg", "erm", "ERM with PyG's loader and layers / ours", ""),
        ("batches_share_of_erm", "batches", "erm", "building batches / an epoch of ERM", "< 0.03"),
    )  # fmt: skip
    return [
        Ratio.of(key + mark, seconds[over], seconds[under], f"{meaning}, {shape.name}", aim)
        for key, over, under, meaning, aim in lines
    ]


def measure_methods(repeat: int, quick: bool) -> Section:
    """Every registered method on the same graphs, batches and encoder."""
    section = Section()
    splits = SPMOTIF.load(quick)
    splits = Splits({**splits.parts, "train": _mixed(splits, 96 if quick else 1280)}, splits.task)
    trained, solved = {}, {}
    for name in methods:
        method = make(name)
        (solved if method.closed_form else trained)[name] = ours(method, splits, SPMOTIF)
    seconds = take_turns(trained, repeat)
    # A kernel method is solved once, in seconds rather than milliseconds: one measurement says enough.
    seconds |= {name: found * repeat for name, found in take_turns(solved, 1, warm=False).items()}
    section.note("method", seconds)
    for name in methods:
        what = "a whole fit" if name in solved else "an epoch"
        key = f"epoch_{name.replace('-', '_')}_over_erm"
        if key not in {"epoch_ciga_v1_over_erm", "epoch_ciga_v2_over_erm"} or quick:
            meaning = f"{what} of {name} / an epoch of erm, {splits.train.num_graphs} graphs"
            section.ratios.append(Ratio.of(key, seconds[name], seconds["erm"], meaning, AIMS.get(name, "")))
    return section


def _mixed(splits: Splits, graphs: int) -> GraphStore:
    """Training graphs of all classes."""
    order = torch.randperm(splits.train.num_graphs, generator=torch.Generator().manual_seed(0))
    return splits.train[order[:graphs]]
