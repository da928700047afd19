"""The contract of a method: named hyper-parameters, a network, loss terms, and what it says of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, cast

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from ciga.graphs.splits import Splits
from ciga.graphs.store import Batch, GraphStore
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.extractor import Partition
from ciga.nn.networks import GraphNetwork
from ciga.progress import Progress
from ciga.registry import Registry, check_class

#: The network a method trains: `Method` alone trains a `GraphNetwork`, `Method[MyNetwork]` another one.
N = TypeVar("N", bound=nn.Module, default=GraphNetwork)


@dataclass
class Inference:
    """What a network says of a batch: all that evaluation, models and explanations need, from one pass."""

    logits: Tensor  # [G, C] class scores
    partition: Partition | None  # score and choice of each undirected edge; None: no extraction
    representation: Tensor  # [G, d] what the class scores were read from


@dataclass
class Step:
    """Where training stands, and what `prepare` found out about the graphs of this batch."""

    epoch: int = 0  # epochs done since the weights were new; each of several `starts` counts its own
    number: int = 0  # optimisation steps done since then
    total: int = 1  # optimisation steps of all epochs
    side: dict[str, Tensor] = field(default_factory=dict)  # per graph of the batch, [G, ...]
    own: int | None = None  # number of graphs whose turn it was: the first ones. None: all


@dataclass
class Context:
    """What a method may use before training starts."""

    splits: Splits
    spec: Spec
    backbone: Backbone
    seed: int
    #: `reference(epochs)` trains a plain ERM network for at most that many epochs (0: as long as the run may)
    #: and returns it, in eval mode. No OOD label reaches it: its epoch is chosen on in-distribution data.
    reference: Callable[[int], nn.Module]
    #: `predict(network)` gives the logits of an ERM network on the training graphs, [n, C].
    predict: Callable[[nn.Module], Tensor]


@dataclass
class Method(Generic[N]):
    """Base of all methods: a dataclass whose fields are its hyper-parameters, each with its grid.

    The trainer sums the terms of `loss`, steps, and logs them one by one. A term must come already
    weighted; what a term is called is what the history and the report call it. State that must outlive a
    step or a restart (group weights, say) is a buffer of the network, where the checkpoint finds it.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    #: Raised when the same options come to mean another computation: old records then no longer count.
    revision: ClassVar[int] = 1
    #: What the paper's overview table says of a method.
    needs_environments: ClassVar[bool] = False
    extracts: ClassVar[bool] = False  # does it give edge scores?
    #: With `classifier_input=raw`, do its logits depend on the subgraph alone? A method whose subgraph is
    #: soft by nature has no such barrier, and says so.
    barrier: ClassVar[bool] = False
    #: Is its epoch chosen by the score on G_c minus the probe's score on G_s? Only for methods that extract.
    selects_by_rest: ClassVar[bool] = False
    scms: ClassVar[tuple[str, ...]] = ()  # the SCMs it is meant for
    #: Solved by `fit` instead of by epochs of `loss` (kernel methods).
    closed_form: ClassVar[bool] = False
    #: Inner steps of an adversary before each step; a method with a nested game sets it (or a property).
    critic_steps: ClassVar[int] = 0
    #: Does `after_trials` matter to it? Then the schedule must have some trials.
    needs_trials: ClassVar[bool] = False

    def network(self, spec: Spec, backbone: Backbone) -> N:
        """Build the network this method trains."""
        return cast(N, GraphNetwork(spec, backbone))

    def learn(self, network: N, train: GraphStore) -> None:
        """Fit to the training graphs what no training step changes: sizes of layers, lists of known things.

        Called on every network that is to be trained; what is learned must be part of its state.
        """

    def prepare(self, context: Context) -> dict[str, Tensor]:
        """Per-sample tensors [n, ...] computed once before training; batches find theirs in `step.side`."""
        return {}

    def compose(self, order: Tensor, size: int, side: Mapping[str, Tensor]) -> Iterable[Tensor] | None:
        """The rows of each batch of an epoch; None takes `size` at a time as they come.

        A method that contrasts a graph with chosen others puts them after the graphs whose turn it is.

        Args:
            order: rows of the training graphs in the order of this epoch, [n].
            side: what `prepare` gave, for all training graphs.
        """
        return None

    def loss(self, network: N, batch: Batch, step: Step) -> dict[str, Tensor]:
        """The weighted terms of the objective on one batch, by name."""
        raise NotImplementedError

    def infer(self, network: N, batch: Batch) -> Inference:
        """What the network says of a batch, in evaluation."""
        if isinstance(network, GraphNetwork):
            representation = network.represent(batch)
            return Inference(network.head(representation), None, representation)
        logits: Tensor = network(batch)
        return Inference(logits, None, logits)

    def keep(self, network: N, score: Tensor, batch: Batch) -> Tensor:
        """The edges [P] kept by these logits [P], for methods that extract: how several networks choose."""
        return score >= 0

    def caveat(self, network: N, train: GraphStore) -> str:
        """One sentence on what of the training graphs this network could not use; mostly there is none."""
        return ""

    def after_trials(self, network: N) -> None:
        """Called once trial epochs are over, before training goes on from the best of them."""

    def selectable(self, epoch: int) -> bool:
        """May this epoch, counted since the weights were new, be chosen? If none may, the last one counts."""
        return True

    def critic_loss(self, network: N, batch: Batch, step: Step) -> Tensor:
        """What an inner player minimises, `critic_steps` times before each step of the network."""
        raise NotImplementedError

    def critic_parameters(self, network: N) -> list[nn.Parameter]:
        """The inner player's parameters: trained by `critic_loss` only, never by `loss`."""
        return []

    def fit(self, network: N, context: Context, progress: Progress) -> None:
        """For methods with `closed_form`: fill the network's buffers from the training data, once."""
        raise NotImplementedError


def _check(cls: type[Any]) -> None:
    closed = getattr(cls, "closed_form", False)
    lines = ("def fit(self, network, context, progress):", "def loss(self, network, batch, step):")
    check_class(cls, Method, "method", {"fit": lines[0]} if closed else {"loss": lines[1]})


methods: Registry[Method[Any]] = Registry("method", "ciga.methods", "ciga.methods", _check)
register = methods.register


def make(name: str, values: dict[str, Any] | None = None) -> Method[Any]:
    """The method called `name` with these hyper-parameters."""
    from ciga import options

    return options.build(methods[name], values or {}, f"hyper-parameter of {name}")


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Risk of each sample, [G]."""
    return torch.nn.functional.cross_entropy(logits, y, reduction="none")
