"""What all generated datasets share: their options, and how cause, label and shortcuts are drawn.

| split | spurious factors | sizes |
|---|---|---|
| `train`, `id_val`, `id_test` | follow cause or label, with the bias of the environment | small |
| `ood_val` | uniform | small |
| `ood_test` | uniform | large, with `size_shift` |

The noise of the label is part of how labels come about, so it is the same in all splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ciga import options
from ciga.data.dataset import Dataset
from ciga.data.datasets.mechanism import KINDS, Draw, Factor, Ints, Mechanism
from ciga.errors import UsageError, unknown
from ciga.graphs.splits import SPLIT_NAMES, Splits, Task
from ciga.graphs.store import GraphStore
from ciga.options import tunable
from ciga.progress import Progress, silent

#: A size factor has this many values: the small, the middle and the large third of the sizes there are.
SIZES = 3
#: Label noise where something follows the label and nothing else was asked for.
PIIF_NOISE = 0.05


@dataclass
class CausalDataset(Dataset):
    """A dataset drawn from a `Mechanism`; a subclass says what a cause and a spurious factor look like."""

    bias: float = tunable(0.9, [0.33, 0.6, 0.9], low=0, high=1, help="P(favoured spurious value) in training")
    seed: int = tunable(0, low=0, help="seed of the data")
    train_per_class: int = tunable(3000, low=1, help="training graphs per class")
    val_per_class: int = tunable(1000, low=1, help="graphs per class in each validation part")
    test_per_class: int = tunable(1000, low=1, help="graphs per class in each test part")
    size_shift: bool = tunable(True, help="large graphs in ood_test")
    attributes: str = tunable("none", choices=KINDS, help="node features follow cause (fiif) or label (piif)")
    size: str = tunable("none", choices=KINDS, help="training sizes follow cause (fiif) or label (piif)")
    attribute_bias: float | None = tunable(None, low=0, high=1, help="bias of the attributes, if another one")
    size_bias: float | None = tunable(None, low=0, high=1, help="bias of the size, if another one")
    noise: float | None = tunable(
        None, low=0, high=1, help="P(label is flipped); none: 0.05 where something follows the label, else 0"
    )
    noisy_labels: bool = tunable(
        True, help="false: only the spurious part sees the flipped label, y is the cause"
    )
    environments: int = tunable(1, low=1, help="training environments")
    bias_spread: float = tunable(0.0, low=0, high=0.5, help="their biases go from bias - … to bias + …")

    def __post_init__(self) -> None:
        options.check_all(self)
        self.mechanism()

    # ---------------------------------------------------------------- what a subclass says

    def cause_names(self) -> tuple[str, ...]:
        """The causes, which are the classes, by name."""
        raise NotImplementedError

    def structures(self) -> int:
        """How many values the structural factor has."""
        return 1

    def kinds(self) -> dict[str, str]:
        """What each spurious factor follows."""
        return {"attribute": self.attributes, "size": self.size}

    def graphs(self, split: str, draw: Draw, env: Ints, rng: np.random.Generator) -> GraphStore:
        """The graphs of one split, one for each row of `draw`.

        Args:
            split: The name of the part.
            draw: Cause, label and spurious factors of each graph.
            env: The environment of each graph, [n].
            rng: The source of randomness.
        """
        raise NotImplementedError

    # ---------------------------------------------------------------- what follows from it

    def mechanism(self) -> Mechanism:
        """How the training data comes about."""
        kinds = self.kinds()
        noise = self.noise
        if noise is None:
            noise = PIIF_NOISE if "piif" in kinds.values() else 0.0
        factors = {}
        for name, kind in kinds.items():
            own = getattr(self, f"{name}_bias", None)
            strength = (
                self._strengths("bias", self.bias) if own is None else self._strengths(f"{name}_bias", own)
            )
            factors[name] = Factor(kind, strength)
        return Mechanism(**factors, noise=noise)

    def _strengths(self, name: str, bias: float) -> tuple[float, ...]:
        """One bias for each environment, spread evenly around `bias`."""
        if self.environments == 1:
            return (bias,)
        low, high = bias - self.bias_spread, bias + self.bias_spread
        if low < -1e-9 or high > 1 + 1e-9:
            raise UsageError(
                f"{name}={bias} with bias_spread={self.bias_spread} leaves [0, 1]: take a smaller spread."
            )
        return tuple(np.linspace(low, high, self.environments).clip(0, 1).tolist())

    def build(self, progress: Progress = silent) -> Splits:
        """Generate all splits; each has its own random stream, so that no size changes another split."""
        parts = {}
        for number, name in enumerate(SPLIT_NAMES):
            progress(number, len(SPLIT_NAMES), f"{self.name} {name}")
            parts[name] = self._part(name, np.random.default_rng([self.seed, number]))
        progress(len(SPLIT_NAMES), len(SPLIT_NAMES), self.name)
        names = self.cause_names()
        notes = {"selection": "ood_val is unbiased but has the sizes of the training graphs"}
        return Splits(parts, Task(len(names), self.metric, names), notes)

    def _part(self, name: str, rng: np.random.Generator) -> GraphStore:
        classes, shifted = len(self.cause_names()), name.startswith("ood")
        counts = {"train": self.train_per_class, "val": self.val_per_class, "test": self.test_per_class}
        row = np.arange(counts[name.rpartition("_")[2]] * classes)
        # Classes and environments take turns, so that every prefix of a split is balanced.
        cause, env = row % classes, row // classes % self.environments
        mechanism = self.mechanism().unbiased() if shifted else self.mechanism()
        draw = mechanism.sample(cause, env, rng, classes=classes, structures=self.structures(), sizes=SIZES)
        if not self.noisy_labels:
            draw = replace(draw, label=cause)
        store = self.graphs(name, draw, env, rng)
        return store.with_env(torch.from_numpy(env)) if self.environments > 1 and not shifted else store


def check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse unknown names, repeated ones, and none at all."""
    for name in names:
        if name not in known:
            raise unknown(what, name, known)
    if len(set(names)) != len(names) or not names:
        raise UsageError(f"{what}s={','.join(names)}: name at least one {what}, and each only once.")


def check_range(name: str, limits: Sequence[int]) -> None:
    """Refuse what is not two sizes, the smaller first."""
    if len(limits) != 2 or not 1 <= limits[0] <= limits[1]:
        raise UsageError(
            f"{name}={','.join(map(str, limits))}: give the smallest and the largest number of nodes."
        )
