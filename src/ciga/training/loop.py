"""The training loop: one for every method.

Each epoch starts from its own seed, derived from the run's, and early stopping is a function of the
history; so a run continued from a checkpoint takes the very steps it would have taken undisturbed.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ciga.errors import CigaError, UsageError
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.methods.base import Context, Method, Step
from ciga.methods.base import make as make_method
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.gate import gate_cost
from ciga.options import tunable
from ciga.progress import Progress, silent
from ciga.scoring.selection import SELECTORS, Selector, default_selector
from ciga.training.adam import Adam
from ciga.training.averaging import WeightAverage
from ciga.training.checkpoint import read_checkpoint, write_checkpoint
from ciga.training.ensemble import unpack
from ciga.training.evaluation import evaluate
from ciga.training.sampling import balanced_order

#: Splits scored after every epoch: those a selector looks at. The others are scored once, at the end.
EVERY_EPOCH = tuple(dict.fromkeys(s.split for s in SELECTORS.values() if s.split))


@dataclass
class Training:
    """The schedule: the same for every method on a dataset."""

    epochs: int = tunable(100, low=1, help="at most so many")
    warmup: int = tunable(20, low=0, help="epochs before early stopping may count (the paper's pretraining)")
    patience: int = tunable(5, low=1, help="epochs without a better validation score before stopping")
    batch_size: int = tunable(32, [32, 64, 128], low=1)
    lr: float = tunable(1e-3, [1e-4, 3e-4, 1e-3, 3e-3], low=0.0, help="Adam's learning rate")
    balanced: bool = tunable(False, help="every class equally often in each epoch, the rarer ones repeated")
    weight_decay: float = tunable(0.0, [0.0, 1e-5, 1e-4], low=0.0)
    averaging: float = tunable(
        0.0,
        [0.0, 0.99, 0.999],
        low=0.0,
        high=0.99999,
        help="decay of the mean of weights that is scored and kept",
    )
    trial: int = tunable(0, low=0, help="epochs after which training returns to the best of them; 0: never")
    starts: int = tunable(1, low=1, help="such trials, each from weights of its own; the best goes on")
    members: int = tunable(
        1, [1, 3, 5], low=1, help="networks, trained one after the other; their mean answers"
    )

    def __post_init__(self) -> None:
        if self.starts > 1 and not self.trial:
            raise UsageError(
                f"starts={self.starts} takes trials: say how many epochs each has, like trial=5."
            )

    @property
    def rounds(self) -> int:
        """Epochs at most, those of all members together."""
        return self.epochs * self.members

    @property
    def trials_end(self) -> int:
        """The epoch that begins at the best of all trials."""
        return self.starts * self.trial

    def begun(self, epoch: int) -> int:
        """The epoch in which the weights that `epoch` trains were new."""
        return epoch - epoch % self.trial if epoch < self.trials_end else 0


@dataclass
class Fitted:
    """A trained method: its weights under each selector, and how it got there."""

    method: Method[Any]
    backbone: Backbone
    spec: Spec
    splits: tuple[str, ...]
    history: list[dict[str, Any]] = field(default_factory=list)
    states: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # selector -> weights
    selected: dict[str, dict[str, Any]] = field(default_factory=dict)  # selector -> epoch and metrics
    seconds: float = 0.0
    members: int = 1  # networks; the weights of several are those of `ensemble.pack`

    @property
    def selector(self) -> Selector:
        """The rule that counts."""
        return default_selector(self.splits, self.method.selects_by_rest)

    def network(self, selector: str | None = None) -> nn.Module:
        """The network (the first of several) with the weights a selector chose, ready to predict."""
        return self.networks(selector)[0]

    def networks(self, selector: str | None = None) -> list[nn.Module]:
        """All networks with the weights a selector chose, ready to predict."""
        state = self.states[selector or self.selector.name]
        return unpack(self.method, self.spec, self.backbone, state, self.members)


def check_schedule(method: Method[Any], training: Training) -> None:
    """Refuse what a method can do nothing with: no trials where it waits for their end, several members where
    all would be the same."""
    if method.needs_trials and not training.trial:
        raise UsageError("settle holds the best of some trial epochs: say how many, like --set trial=5.")
    if method.closed_form and training.members > 1:
        raise UsageError(f"members={training.members}: {method.name} has one solution, leave members at 1.")


def fit(
    method: Method[Any],
    splits: Splits,
    *,
    backbone: Backbone | None = None,
    training: Training | None = None,
    seed: int = 1,
    folder: Path | None = None,
    device: str = "auto",
    threads: int = 1,
    progress: Progress = silent,
    on_epoch: Callable[[dict[str, Any], int], None] | None = None,
) -> Fitted:
    """Train `method` on `splits`; with a `folder`, keep a checkpoint there and continue from it.

    `on_epoch(epoch, epochs)` is called after every epoch with what went into the history.
    """
    backbone, training = backbone or Backbone(), training or Training()
    check_schedule(method, training)
    place = pick_device(device)
    metric = splits.task.metric
    for part in splits:
        splits[part].remember_walks(backbone.walks, progress)
    with quiet_machine(threads):
        fitted = Fitted(method, backbone, Spec.of(splits), tuple(splits))
        _seed(seed, "init")
        network = _new_network(fitted, splits.train).to(place)
        optimizers = _optimizers(method, network, training)
        averaged = training.averaging and not method.closed_form
        average = WeightAverage(network, training.averaging) if averaged else None
        context = _context(splits, fitted.spec, backbone, training, seed, device, threads)
        file = None if folder is None else folder / "checkpoint.safetensors"
        if file is not None and file.exists():
            side = read_checkpoint(file, fitted, network, optimizers, average)
        else:
            side = method.prepare(context)
        side = {k: v.to(place) for k, v in side.items()}
        rounds = 1 if method.closed_form else training.epochs
        first = len(fitted.history)
        for epoch in range(first, rounds):
            if _should_stop(fitted, training, metric):
                break
            began = time.perf_counter()
            _seed(seed, epoch)
            if epoch and epoch == training.trials_end:
                _go_back(fitted, network, average)
            elif epoch and epoch == training.begun(epoch):
                _begin_anew(fitted, network, optimizers, average, seed, epoch, splits.train)
            if training.trials_end and epoch == max(first, training.trials_end):
                method.after_trials(network)
            terms: dict[str, float] = {}
            if method.closed_form:
                method.fit(network, context, progress)
                network.to(place)
            else:
                terms = _train_epoch(
                    method, network, splits.train, training, optimizers, side, epoch, average
                )
            with average.in_place() if average else nullcontext():
                rest = {fitted.selector.split: metric}
                found = {
                    s: evaluate(method, [network], splits[s], rest=rest.get(s))
                    for s in splits
                    if s in EVERY_EPOCH
                }
                seconds = time.perf_counter() - began
                row = {"epoch": epoch, "terms": terms, "metrics": found, "seconds": seconds}
                fitted.seconds += seconds
                fitted.history.append(row)
                _remember(fitted, network, metric)
            if file is not None:
                write_checkpoint(file, fitted, network, optimizers, side, average)
            if on_epoch is not None:
                on_epoch(row, rounds)
        _score_selected(fitted, splits, metric, place)
    return fitted


def _train_epoch(
    method: Method[Any],
    network: nn.Module,
    train: GraphStore,
    training: Training,
    optimizers: tuple[Adam, Adam],
    side: dict[str, Tensor],
    epoch: int,
    average: WeightAverage | None = None,
) -> dict[str, float]:
    """One pass over the training graphs; the mean of every loss term."""
    outer, inner = optimizers
    steps = -(-train.num_graphs // training.batch_size)
    place = next(network.parameters()).device
    sums: dict[str, Tensor] = {}
    sound: dict[str, Tensor | int] = {}  # steps in which a term was a number
    since = epoch - training.begun(epoch)
    network.train()
    order = balanced_order(train.y) if training.balanced else torch.randperm(train.num_graphs)
    turns = order.split(training.batch_size)
    composed = method.compose(order, training.batch_size, side)
    batches = train.batches(training.batch_size, order) if composed is None else map(train.batch, composed)
    for i, batch in enumerate(batches):
        batch = batch.to(place)
        step = Step(
            since,
            since * steps + i,
            training.epochs * steps,
            {k: v[batch.index] for k, v in side.items()},
            own=turns[i].numel(),
        )
        for _ in range(method.critic_steps):
            inner.zero_grad()
            method.critic_loss(network, batch, step).backward()
            inner.step()
        outer.zero_grad()
        try:
            terms = {**method.loss(network, batch, step), **gate_cost(network)}
        except (IndexError, RuntimeError, ValueError) as error:
            # Weights beyond all bounds may fail in many ways, all for one reason. (NaN is below nothing.)
            if all(bool(p.abs().max() < 1e10) for p in network.parameters() if p.numel()):
                raise
            raise CigaError(
                f"The weights grew beyond all bounds in epoch {epoch}: "
                "try a smaller learning rate (--set lr=…)."
            ) from error
        torch.stack(list(terms.values())).sum().backward()
        outer.step()
        if average is not None:
            average.update(step.number)
        # Summed as tensors and read once an epoch: reading a number at every step would wait for the device.
        for name, value in terms.items():
            total = value.detach() * turns[i].numel()
            sums[name] = sums[name] + total if name in sums else total
            sound[name] = sound.get(name, 0) + total.isfinite()
    means = {name: float(total) / train.num_graphs for name, total in sums.items()}
    # One broken term breaks the weights, and with them every other term: name the one that broke first.
    for name in sorted((n for n in means if not math.isfinite(means[n])), key=lambda n: int(sound[n])):
        raise CigaError(
            f"The loss term '{name}' became {means[name]} in epoch {epoch}: "
            "try a smaller learning rate (--set lr=…) or a smaller weight of that term."
        )
    return means


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
def quiet_machine(threads: int) -> Iterator[None]:
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


def _optimizers(method: Method[Any], network: nn.Module, training: Training) -> tuple[Adam, Adam]:
    """Adam for the network, and another one for the inner player of methods that have one."""
    critic = method.critic_parameters(network)
    inner = {id(p) for p in critic}
    outer = [p for p in network.parameters() if id(p) not in inner]
    return Adam(outer, training.lr, training.weight_decay), Adam(critic, training.lr, training.weight_decay)


def _context(
    splits: Splits, spec: Spec, backbone: Backbone, training: Training, seed: int, device: str, threads: int
) -> Context:
    """What `prepare` may use; the ERM reference is trained only if it is asked for."""
    erm = make_method("erm")

    def reference(epochs: int = 0) -> nn.Module:
        trained = fit(
            erm,
            splits.in_distribution(seed),
            backbone=backbone,
            training=replace(training, epochs=epochs or training.epochs),
            seed=seed,
            device=device,
            threads=threads,
        )
        return trained.network().to(pick_device(device))

    @torch.inference_mode()
    def predict(network: nn.Module) -> Tensor:
        device = next(network.parameters()).device
        return torch.cat([network(b.to(device)) for b in splits.train.batches(256, chunk=4)]).cpu()

    return Context(splits, spec, backbone, seed, reference, predict)


def _should_stop(fitted: Fitted, training: Training, metric: str) -> bool:
    """No better validation score for `patience` epochs, counted from the end of the warm-up."""
    selector = fitted.selector
    best = selector.pick(fitted.history, metric)
    if best is None or selector.split is None:
        return False
    return len(fitted.history) - 1 - max(best, training.warmup - 1, training.trials_end) >= training.patience


def _new_network(fitted: Fitted, train: GraphStore) -> nn.Module:
    """Untrained, but with what it can learn of the data without training."""
    network = fitted.method.network(fitted.spec, fitted.backbone)
    if not fitted.method.closed_form:  # those learn where they are solved
        fitted.method.learn(network, train)
    return network


def _begin_anew(
    fitted: Fitted,
    network: nn.Module,
    optimizers: tuple[Adam, Adam],
    average: WeightAverage | None,
    seed: int,
    epoch: int,
    train: GraphStore,
) -> None:
    """Other weights to begin with, and nothing that remembers those before."""
    _seed(seed, f"init {epoch}")
    network.load_state_dict(_new_network(fitted, train).state_dict())
    _seed(seed, epoch)
    for optimizer in optimizers:
        optimizer.forget()
    if average is not None:
        average.restore(network.state_dict())


def _go_back(fitted: Fitted, network: nn.Module, average: WeightAverage | None) -> None:
    """The network as it was at the epoch the rule would choose now."""
    chosen = fitted.states.get(fitted.selector.name)
    if chosen is not None:  # it is where no epoch had a score
        network.load_state_dict(chosen)
        if average is not None:
            average.restore(network.state_dict())


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
            missing = {s: evaluate(fitted.method, [network], splits[s]) for s in splits if s not in known}
            scored[epoch] = {"epoch": epoch, **{s: {**known, **missing}[s] for s in splits}}
        fitted.selected[name] = scored[epoch]
