"""Training epochs: CIGA against ERM, ERM against a bare loop and PyG, every method against ERM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.loader import DataLoader

from benchmarks.data import SHAPES, SPMOTIF, Shape
from benchmarks.peers import PyGNetwork, bare_logits
from benchmarks.timing import Job, Ratio, Section, Times, take_turns
from ciga.graphs.batch import Batch
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.methods.base import Context, Method, make, methods
from ciga.nn.encoder import Spec
from ciga.nn.networks import GraphNetwork
from ciga.training import loop as train
from ciga.training.epoch import train_epoch

#: What issue and paper say of the time of a method, in epochs of ERM.
AIMS = {
    **dict.fromkeys(("irm", "vrex", "ib-irm", "groupdro", "coral", "dann", "cnc"), "<= 1.6"),
    **{"ciga-v1": "<= 3", "ciga-v2": "< 2", "eiil": "<= 2", "asap": "<= 3", "dir": "<= 4", "gib": "<= 8"},
}


def ours(method: Method, splits: Splits, shape: Shape, pieces: list[GraphStore]) -> Job:
    """An epoch of the library's own loop; `prepare` and the building of the network come before."""
    torch.manual_seed(1)
    spec, schedule = Spec.of(splits), train.Training(batch_size=shape.batch_size, epochs=2)
    network = method.network(spec, shape.backbone)
    optimizers = train.optimizers_of(method, network, schedule)
    jobs: list[Callable[[], object]] = []
    for piece in pieces:
        context = _context(Splits({**splits.parts, "train": piece}, splits.task), spec, shape)
        if method.closed_form:
            jobs.append(partial(method.fit, network, context, lambda *_: None))
        else:
            side = method.prepare(context)
            jobs.append(partial(train_epoch, method, network, piece, schedule, optimizers, side, 1))
    return jobs


def _context(splits: Splits, spec: Spec, shape: Shape) -> Context:
    """A reference model with untrained weights: what it says does not matter to the time of an epoch."""

    @torch.inference_mode()
    def predict(network: nn.Module) -> Tensor:
        return torch.cat([network(batch) for batch in splits.train.batches(256)])

    reference = GraphNetwork(spec, shape.backbone).eval()
    return Context(splits, spec, shape.backbone, 1, lambda epochs=0: reference, predict)


def bare(splits: Splits, shape: Shape, pieces: list[GraphStore]) -> Job:
    """The bare-tensor loop of ERM, its batches made beforehand."""
    torch.manual_seed(1)
    network = GraphNetwork(Spec.of(splits), shape.backbone)
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    adam = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)

    def epoch(batches: list[Batch]) -> None:
        for batch in batches:
            adam.zero_grad()
            nn.functional.cross_entropy(bare_logits(state, shape.backbone, batch), batch.y).backward()
            adam.step()

    return [partial(epoch, list(piece.batches(shape.batch_size))) for piece in pieces]


def pyg(splits: Splits, shape: Shape, pieces: list[GraphStore]) -> Job:
    """ERM with PyG's DataLoader, message passing and pooling."""
    torch.manual_seed(1)
    network = PyGNetwork(GraphNetwork(Spec.of(splits), shape.backbone)).train()
    adam = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)

    def epoch(loader: DataLoader) -> None:
        for data in loader:
            adam.zero_grad()
            nn.functional.cross_entropy(network(data), data.y).backward()
            adam.step()

    return [
        partial(epoch, DataLoader(piece.to_pyg(), batch_size=shape.batch_size, shuffle=True))
        for piece in pieces
    ]


def batches(shape: Shape, pieces: list[GraphStore]) -> Job:
    """Building the batches of an epoch, and nothing else."""

    def build(piece: GraphStore) -> None:
        for _ in piece.batches(shape.batch_size, torch.randperm(piece.num_graphs)):
            pass

    return [partial(build, piece) for piece in pieces]


def measure(repeat: int, quick: bool) -> Section:
    """The table of shapes."""
    section = Section()
    for shape in SHAPES:
        reason = shape.missing()
        if reason:
            section.skipped[f"epochs on {shape.name}"] = reason
            continue
        splits = shape.load(quick)
        pieces = cut(splits.train, shape.batch_size)
        detached, attached = ({**shape.ciga, "spurious_gradient": on} for on in (False, True))
        found = take_turns(
            {
                "erm": ours(make("erm"), splits, shape, pieces),
                "ciga-v1": ours(make("ciga-v1", shape.ciga), splits, shape, pieces),
                "ciga-v2": ours(make("ciga-v2", detached), splits, shape, pieces),
                "ciga-v2-attached": ours(make("ciga-v2", attached), splits, shape, pieces),
                "bare": bare(splits, shape, pieces),
                "pyg": pyg(splits, shape, pieces),
                "batches": batches(shape, pieces),
            },
            repeat,
        )
        section.note(f"epoch.{shape.name}", found)
        section.ratios += _ratios(shape, found)
    return section


def _ratios(shape: Shape, found: dict[str, Times]) -> list[Ratio]:
    """The lines of one shape; SPMotif's have the plain names."""
    mark = "" if shape is SPMOTIF else f"_{shape.name}"
    lines = (
        ("epoch_ciga_v1_over_erm", "ciga-v1", "erm", "an epoch of CIGAv1 / of ERM", "<= 3"),
        ("epoch_ciga_v2_over_erm", "ciga-v2", "erm", "an epoch of CIGAv2, hinge detached / of ERM", "< 2"),
        (
            "epoch_ciga_v2_attached_over_erm", "ciga-v2-attached", "erm",
            "an epoch of CIGAv2 / of ERM", "<= 3.5",
        ),
        ("epoch_erm_over_bare_loop", "erm", "bare", "an epoch of ERM / a bare-tensor loop", "<= 1.5"),
        ("epoch_pyg_over_erm", "pyg", "erm", "ERM with PyG's loader and layers / ours", ""),
        ("batches_share_of_erm", "batches", "erm", "building batches / an epoch of ERM", "< 0.03"),
    )  # fmt: skip
    return [
        Ratio.of(key + mark, found[over].cpu, found[under].cpu, f"{meaning}, {shape.name}", aim)
        for key, over, under, meaning, aim in lines
    ]


def measure_methods(repeat: int, quick: bool) -> Section:
    """Every registered method on the same graphs, batches and encoder."""
    section = Section()
    splits = SPMOTIF.load(quick)
    train_part = splits.train[: 96 if quick else 1280]
    pieces = cut(train_part, SPMOTIF.batch_size)
    every = {name: make(name) for name in methods}
    solved = [name for name, method in every.items() if method.closed_form]
    found = take_turns(
        {name: ours(every[name], splits, SPMOTIF, pieces) for name in every if name not in solved}, repeat
    )
    # A kernel method is solved once, in seconds rather than milliseconds: one measurement says enough.
    once = {name: ours(every[name], splits, SPMOTIF, [train_part]) for name in solved}
    found |= take_turns(once, 1, warm=False)
    section.note("method", found)
    erm, lines = found["erm"].cpu, {}
    for name in methods:
        key = f"epoch_{name.replace('-', '_')}_over_erm"
        what = "a whole fit" if name in solved else "an epoch"
        meaning = f"{what} of {name} / an epoch of erm, {train_part.num_graphs} graphs"
        # A fit is one piece: beside it stand whole epochs.
        over = found[name].cpu * repeat if name in solved else found[name].cpu
        under = [[sum(pieces)] for pieces in erm] if name in solved else erm
        lines[name] = Ratio.of(key, over, under, meaning, AIMS.get(name, ""))
    section.extra["methods"] = {
        name: {"ratio": line.value, "spread": line.spread, "aim": line.aim, "fit": name in solved}
        for name, line in lines.items()
    }
    # CIGA's lines in the table are those of the whole training part, see `measure`.
    section.ratios += [line for name, line in lines.items() if quick or name not in ("ciga-v1", "ciga-v2")]
    return section


def cut(store: GraphStore, batch_size: int, pieces: int = 4) -> list[GraphStore]:
    """About so many pieces of whole batches, at most 32 batches each: so many are gathered at a time."""
    batches = min(32, -(-store.num_graphs // (batch_size * pieces)))
    return [store[rows] for rows in torch.arange(store.num_graphs).split(batch_size * batches)]
