"""What methods that predict from an extracted subgraph share: its budget, its network, its edge scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from torch import Tensor
from typing_extensions import TypeVar

from ciga.errors import UsageError
from ciga.graphs.store import Batch
from ciga.methods.base import Inference, Method
from ciga.nn.encoder import Backbone, Spec
from ciga.nn.extractor import BUDGETS, SCORERS
from ciga.nn.networks import STRENGTHS, InvariantNetwork
from ciga.options import tunable

I = TypeVar("I", bound=InvariantNetwork, default=InvariantNetwork)  # noqa: E741 (an invariant network)


@dataclass
class ExtractingMethod(Method[I]):
    """Base of the methods that train an `InvariantNetwork`.

    `size` is the share of edges kept (budgets `ratio` and `capped`), their number (`count`), or the least
    probability (`threshold`). With `classifier_input=raw` the network has an information barrier: see
    `InvariantNetwork`.
    """

    extracts: ClassVar[bool] = True
    barrier: ClassVar[bool] = True

    budget: str = tunable("ratio", choices=BUDGETS, help="what limits the invariant subgraph")
    size: float = tunable(0.25, [0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], low=0.0, help="s_c")
    classifier_input: str = tunable(
        "feat", ["feat", "raw"], choices=("feat", "raw"), help="node features f_c sees"
    )
    scorer: str = tunable("mlp", choices=SCORERS, help="MLP([h_u; h_v]) or sigma(Z Z^T)")
    noise: float = tunable(0.0, [0.0, 0.5, 1.0], low=0.0, help="Gumbel noise on edge scores in training")
    strength: str = tunable(
        "soft",
        choices=STRENGTHS,
        help="weight of a kept edge's messages: sigmoid(score), or 1 with its gradient",
    )
    classifier_width: int | None = tunable(None, low=1, help="hidden dimension of f_c, where it differs")

    def __post_init__(self) -> None:
        check_budget(self.budget, self.size)

    def extraction(self) -> dict[str, Any]:
        """The options of an `InvariantNetwork` that the fields above hold."""
        names = ("budget", "size", "classifier_input", "scorer", "noise", "strength", "classifier_width")
        return {name: getattr(self, name) for name in names}

    def network(self, spec: Spec, backbone: Backbone) -> I:
        return cast(I, InvariantNetwork(spec, backbone, **self.extraction(), spurious=False))

    def infer(self, network: I, batch: Batch) -> Inference:
        found = network.predict(network.split(batch))
        return Inference(found.logits, found.parts.partition, found.representation)

    def keep(self, network: I, score: Tensor, batch: Batch) -> Tensor:
        return network.extractor.keep(score, batch)


def check_budget(budget: str, size: float) -> None:
    """Refuse a size that does not fit its budget."""
    if budget == "count" and (size < 1 or size != int(size)):
        raise UsageError(f"budget=count keeps a whole number of edges, not size={size}: try size=8.")
    if budget != "count" and not 0 < size <= 1:
        raise UsageError(f"budget={budget} takes a size in (0, 1], not {size}.")
