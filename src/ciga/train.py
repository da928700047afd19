"""The training loop: one for every method.

Each epoch starts from its own seed, derived from the run's, and early stopping is a function of the
history; so a run continued from a checkpoint takes the very steps it would have taken undisturbed.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ciga import metrics
from ciga.data.splits import Splits
from ciga.data.store import GraphStore
from ciga.errors import CigaError, UsageError
from ciga.files import read_tensors, write_tensors
from ciga.methods.method import Context, Method, Step
from ciga.methods.method import make as make_method
from ciga.nn.encoder import Backbone, Spec
from ciga.options import tunable
from ciga.selection import SELECTORS, default_selector

#: Splits scored after every epoch: those a selector looks at. The others are scored once, at the end.
EVERY_EPOCH = tuple(s.split for s in SELECTORS.values() if s.split)


@dataclass
class Training:
    """The schedule: the same for every method on a dataset."""

    epochs: int = tunable(100, low=1, help="at most so many")
    warmup: int = tunable(20, low=0, help="epochs before early stopping may count (the paper's pretraining)")
    patience: int = tunable(5, low=1, help="epochs without a better validation score before stopping")
    batch_size: int = tunable(32, [32, 64, 128], low=1)
    lr: float = tunable(1e-3, [1e-4, 3e-4, 1e-3, 3e-3], low=0.0, help="Adam's learning rate")
    weight_decay: float = tunable(0.0, [0.0, 1e-5, 1e-4], low=0.0)


@dataclass
class Fitted:
    """A trained method: its weights under each selector, and how it got there."""

    method: Method
    backbone: Backbone
    spec: Spec
    splits: tuple[str, ...]
    history: list[dict[str, Any]] = field(default_factory=list)
    states: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # selector -> weights
    selected: dict[str, dict[str, Any]] = field(default_factory=dict)  # selector -> epoch and metrics
    seconds: float = 0.0

    def network(self, selector: str | None = None) -> nn.Module:
        """The network with the weights a selector chose, ready to predict."""
        network = self.method.network(self.spec, self.backbone)
        network.load_state_dict(self.states[selector or default_selector(self.splits).name])
        return network.eval()


def fit(
    method: Method,
    splits: Splits,
    *,
    backbone: Backbone | None = None,
    training: Training | None = None,
    seed: int = 1,
    folder: Path | None = None,
    device: str = "auto",
    threads: int = 1,
    on_epoch: Callable[[dict[str, Any], int], None] | None = None,
) -> Fitted:
    """Train `method` on `splits`; with a `folder`, keep a checkpoint there and continue from it.

    `on_epoch(epoch, epochs)` is called after every epoch with what went into the history.
    """
    backbone, training = backbone or Backbone(), training or Training()
    place = pick_device(device)
    metric = splits.task.metric
    with _quiet_machine(threads):
        fitted = Fitted(method, backbone, Spec.of(splits), tuple(splits))
        _seed(seed, "init")
        network = method.network(fitted.spec, backbone).to(place)
        critic = method.critic_parameters(network)
        inner = {id(p) for p in critic}
        trained = [p for p in network.parameters() if id(p) not in inner]
        optimizer = _adam(trained, training)
        inner_optimizer = _adam(critic, training)
        file = None if folder is None else folder / "checkpoint.safetensors"
        side = _resume(file, fitted, network, (optimizer, inner_optimizer)) if file and file.exists() else None
        if side is None:
            side = method.prepare(_context(splits, fitted.spec, backbone, training, seed, device, threads))
        train = splits.train
        rounds = 1 if method.closed_form else training.epochs
        steps = -(-train.num_graphs // training.batch_size)
        side = {k: v.to(place) for k, v in side.items()}
        for epoch in range(len(fitted.history), rounds):
            if _should_stop(fitted, training, metric):
                break
            began = time.perf_counter()
            _seed(seed, epoch)
            terms: dict[str, Tensor] = {}
            if method.closed_form:
                context = _context(splits, fitted.spec, backbone, training, seed, device, threads)
                method.fit(network, context, lambda done, total, what: None)
                network.to(place)
            else:
                network.train()
                order = torch.randperm(train.num_graphs)
                for i, batch in enumerate(train.batches(training.batch_size, order)):
                    batch = batch.to(place)
                    here = {k: v[batch.index.to(v.device)] for k, v in side.items()}
                    step = Step(epoch, epoch * steps + i, rounds * steps, here)
                    for _ in range(method.critic_steps):
                        inner_optimizer.zero_grad()
                        method.critic_loss(network, batch, step).backward()  # type: ignore[no-untyped-call]
                        inner_optimizer.step()
                    optimizer.zero_grad()
                    losses = method.loss(network, batch, step)
                    sum(losses.values(), torch.zeros((), device=place)).backward()
                    optimizer.step()
                    for name, value in losses.items():
                        terms[name] = terms.get(name, 0.0) + value.detach() * batch.num_graphs
            row = {
                "epoch": epoch,
                "terms": {k: float(v) / train.num_graphs for k, v in terms.items()},
                "metrics": {s: evaluate(method, network, splits[s]) for s in splits if s in EVERY_EPOCH},
            }
            _refuse_nan(row)
            row["seconds"] = time.perf_counter() - began
            fitted.seconds += row["seconds"]
            fitted.history.append(row)
            _remember(fitted, network, metric)
            if file is not None:
                _checkpoint(file, fitted, network, (optimizer, inner_optimizer), side)
            if on_epoch is not None:
                on_epoch(row, rounds)
        _score_selected(fitted, splits, metric, place)
    return fitted


@torch.inference_mode()
def evaluate(method: Method, network: nn.Module, store: GraphStore, batch_size: int = 256) -> dict[str, float]:
    """Every metric of a network on a store, explanations included where the truth is known."""
    network.eval()
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    logits, labels, scores, truths, groups = [], [], [], [], []
    seen = 0
    for batch in store.batches(batch_size, chunk=4):
        batch = batch.to(device)
        out, edges = method.infer(network, batch)
        logits.append(out)
        labels.append(batch.y)
        if edges is not None and batch.edge_truth is not None:
            scores.append(edges[0])
            truth = torch.zeros(batch.num_pairs, dtype=torch.bool, device=device)
            truth[batch.pair[batch.edge_truth]] = True
            truths.append(truth)
            groups.append(batch.pair_batch + seen)
        seen += batch.num_graphs
    found = metrics.classification(torch.cat(logits), torch.cat(labels))
    if scores:
        found |= metrics.explanation(torch.cat(scores), torch.cat(truths), torch.cat(groups), seen)
    return found


def pick_device(name: str) -> torch.device:
    """`auto` takes CUDA, then Apple's MPS, then the CPU."""
    if name == "auto":
        mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps else "cpu")
    if name not in ("cpu", "cuda", "mps") and not name.startswith("cuda:"):
        raise UsageError(f"There is no device '{name}': use auto, cpu, cuda or mps.")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("This machine has no usable CUDA device: use --device cpu.")
    if name == "mps" and not torch.backends.mps.is_available():
        raise UsageError("This machine has no MPS device: use --device cpu.")
    return torch.device(name)


# ---------------------------------------------------------------- pieces of the loop


def _seed(seed: int, moment: int | str) -> None:
    """Seed every generator for one moment of one run."""
    digest = hashlib.sha256(f"{seed}/{moment}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:8]) >> 1)
    np.random.seed(int.from_bytes(digest[8:12]))
    random.seed(digest[12:])


@contextmanager
def _quiet_machine(threads: int) -> Iterator[None]:
    """Leave the caller's random state and thread count as they were."""
    before, states = torch.get_num_threads(), (np.random.get_state(), random.getstate())
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(before)
        np.random.set_state(states[0])
        random.setstate(states[1])


def _adam(parameters: list[nn.Parameter], training: Training) -> torch.optim.Adam:
    parameters = parameters or [nn.Parameter(torch.zeros(1))]
    fused = parameters[0].device.type in ("cpu", "cuda")
    return torch.optim.Adam(parameters, lr=training.lr, weight_decay=training.weight_decay, fused=fused)


def _context(
    splits: Splits, spec: Spec, backbone: Backbone, training: Training, seed: int, device: str, threads: int
) -> Context:
    """What `prepare` may use; the ERM reference is trained only if it is asked for."""
    erm = make_method("erm")

    def reference() -> nn.Module:
        trained = fit(
            erm, splits, backbone=backbone, training=training, seed=seed, device=device, threads=threads
        )
        return trained.network().to(pick_device(device))

    @torch.inference_mode()
    def predict(network: nn.Module) -> Tensor:
        device = next(network.parameters()).device
        return torch.cat([network(b.to(device)) for b in splits.train.batches(256, chunk=4)]).cpu()

    return Context(splits, spec, backbone, seed, reference, predict)


def _should_stop(fitted: Fitted, training: Training, metric: str) -> bool:
    """No better validation score for `patience` epochs, counted from the end of the warm-up."""
    selector = default_selector(fitted.splits)
    best = selector.pick(fitted.history, metric)
    if best is None or selector.split is None:
        return False
    return len(fitted.history) - 1 - max(best, training.warmup - 1) >= training.patience


def _refuse_nan(row: dict[str, Any]) -> None:
    for name, value in row["terms"].items():
        if not np.isfinite(value):
            raise CigaError(
                f"The loss term '{name}' became {value} in epoch {row['epoch']}: "
                "try a smaller learning rate (--set lr=…) or a smaller weight of that term."
            )


def _remember(fitted: Fitted, network: nn.Module, metric: str) -> None:
    """Keep the weights of every selector that would choose the epoch just finished."""
    latest = len(fitted.history) - 1
    for name, selector in SELECTORS.items():
        if selector.pick(fitted.history, metric) == latest:
            fitted.states[name] = {k: v.detach().cpu().clone() for k, v in network.state_dict().items()}


def _score_selected(fitted: Fitted, splits: Splits, metric: str, device: torch.device) -> None:
    """Metrics of every split at every selector's epoch; equal epochs are scored once."""
    scored: dict[int, dict[str, Any]] = {}
    for name, selector in SELECTORS.items():
        epoch = selector.pick(fitted.history, metric)
        if epoch is None:
            continue
        if epoch not in scored:
            network = fitted.network(name).to(device)
            known = fitted.history[epoch]["metrics"]
            missing = {s: evaluate(fitted.method, network, splits[s]) for s in splits if s not in known}
            scored[epoch] = {"epoch": epoch, **{s: {**known, **missing}[s] for s in splits}}
        fitted.selected[name] = scored[epoch]


# ---------------------------------------------------------------- checkpoints


def _checkpoint(
    file: Path,
    fitted: Fitted,
    network: nn.Module,
    optimizers: tuple[torch.optim.Optimizer, ...],
    side: dict[str, Tensor],
) -> None:
    tensors = {f"network/{k}": v for k, v in network.state_dict().items()}
    tensors |= {f"side/{k}": v for k, v in side.items()}
    for selector, state in fitted.states.items():
        tensors |= {f"best/{selector}/{k}": v for k, v in state.items()}
    for i, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state_dict()["state"].items():
            tensors |= {f"adam/{i}/{parameter}/{k}": v for k, v in state.items()}
    write_tensors(file, tensors, {"history": json.dumps(fitted.history), "seconds": repr(fitted.seconds)})


def _resume(
    file: Path, fitted: Fitted, network: nn.Module, optimizers: tuple[torch.optim.Optimizer, ...]
) -> dict[str, Tensor]:
    """Put everything back as the checkpoint has it; returns what `prepare` had found."""
    tensors, meta = read_tensors(file)
    fitted.history = json.loads(meta["history"])
    fitted.seconds = float(meta["seconds"])
    groups: dict[str, dict[str, Tensor]] = {"network": {}, "side": {}, "best": {}, "adam": {}}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        groups[kind][rest] = tensor
    for name, tensor in groups["best"].items():
        selector, _, key = name.partition("/")
        fitted.states.setdefault(selector, {})[key] = tensor
    try:
        network.load_state_dict(groups["network"])
    except RuntimeError as error:
        raise CigaError(f"{file} belongs to another network: delete its folder to start afresh.") from error
    for i, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in groups["adam"].items():
            which, parameter, key = name.split("/")
            if int(which) == i:
                state.setdefault(int(parameter), {})[key] = tensor
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return groups["side"]
