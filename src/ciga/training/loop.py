"""The training loop: one for every method.

Each epoch starts from its own seed, derived from the run's, and early stopping is a function of the
history; so a run continued from a checkpoint takes the very steps it would have taken undisturbed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.methods.base import Context, Method
from ciga.methods.base import make as make_method
from ciga.nn.encoder import Backbone, Spec
from ciga.progress import Progress, silent
from ciga.training.adam import Adam
from ciga.training.averaging import WeightAverage
from ciga.training.checkpoint import read_checkpoint, write_checkpoint
from ciga.training.device import pick_device, quiet_machine, seed_all
from ciga.training.epoch import train_epoch
from ciga.training.evaluation import evaluate
from ciga.training.fitted import EVERY_EPOCH, Fitted
from ciga.training.schedule import Training, check_schedule


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
    """Train one network of `method` on `splits`.

    Args:
        method: gives the network and its loss.
        splits: train, and the parts that choose the epoch and score it.
        backbone: the network's shape; the default where None.
        training: the schedule; the default where None.
        seed: the same one gives the same bytes.
        folder: where a checkpoint is kept, and continued from if there is one.
        device: auto, cpu, cuda or mps.
        threads: of torch.
        progress: hears of work that is not counted in epochs.
        on_epoch: called as `on_epoch(row, epochs)` after every epoch, with what went into the history.
    """
    backbone, training = backbone or Backbone(), training or Training()
    check_schedule(method, training)
    place = pick_device(device)
    metric = splits.task.metric
    for part in splits:
        splits[part].remember_walks(backbone.walks, progress)
    with quiet_machine(threads):
        fitted = Fitted(method, backbone, Spec.of(splits), splits.judging, metric, training)
        seed_all(seed, "init")
        network = _new_network(fitted, splits.train).to(place)
        optimizers = optimizers_of(method, network, training)
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
            if fitted.should_stop():
                break
            began = time.perf_counter()
            seed_all(seed, epoch)
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
                terms = train_epoch(method, network, splits.train, training, optimizers, side, epoch, average)
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
                fitted.remember(network)
            if file is not None:
                write_checkpoint(file, fitted, network, optimizers, side, average)
            if on_epoch is not None:
                on_epoch(row, rounds)
        fitted.score_selected(splits, place)
    return fitted


# ---------------------------------------------------------------- pieces of the loop


def optimizers_of(method: Method[Any], network: nn.Module, training: Training) -> tuple[Adam, Adam]:
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


def _new_network(fitted: Fitted, train: GraphStore) -> nn.Module:
    """Untrained, but with what it can learn of the data without training."""
    network: nn.Module = fitted.method.network(fitted.spec, fitted.backbone)
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
    seed_all(seed, f"init {epoch}")
    network.load_state_dict(_new_network(fitted, train).state_dict())
    seed_all(seed, epoch)
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
