"""How the spurious part of a graph comes to agree with its label: the FIIF, PIIF and MIIF causal models.

The cause C is what makes the label: Y := f_inv(C). A spurious factor S is drawn anew in each environment E:

* FIIF, fully informative invariant features: S := f_spu(C, E).
* PIIF, partially informative: S := f_spu(Y, E), with Y a noisy function of C: S knows of Y what C does not.
* MIIF, mixed: S_1 := f_spu(C, E) and S_2 := f_spu(Y, E).

A factor takes one of K values. The value its parent favours comes with probability b (the *bias* of the
environment), each other one with probability (1 - b) / (K - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ciga.errors import UsageError, unknown

Ints = NDArray[np.int64]
#: What a factor follows: the cause, the (noisy) label, or nothing, which makes it uniform.
KINDS = ("fiif", "piif", "none")


@dataclass(frozen=True)
class Factor:
    """One spurious factor: what it follows, and how strongly in each environment."""

    kind: str = "none"
    bias: tuple[float, ...] = (1.0,)  # one strength for all environments, or one for each

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("kind of spurious factor", str(self.kind), KINDS)
        if not self.bias:
            raise UsageError("A bias is needed: one number, or one for each environment.")
        for strength in self.bias:
            _share("bias", strength)

    def sample(self, cause: Ints, label: Ints, env: Ints, values: int, rng: np.random.Generator) -> Ints:
        """The factor of each graph, [n] numbers below `values`, from cause, label and environment [n].

        Args:
            cause: The causal part of each graph [n].
            label: The label of each graph [n].
            env: The environment of each graph [n].
            values: The number of values that the factor has.
            rng: The source of chance.
        """
        if values < 1:
            raise UsageError(f"A spurious factor needs at least one value, not {values}.")
        if self.kind == "none":
            return rng.integers(values, size=cause.size)
        strength = np.asarray(self.bias)
        if strength.size == 1:
            env = np.zeros_like(env)
        elif env.size and not (env.min() >= 0 and env.max() < strength.size):
            raise UsageError(
                f"There are {strength.size} biases, one for each environment, but an environment {env.max()}."
            )
        parent = cause if self.kind == "fiif" else label
        return _agree(parent % values, strength[env], values, rng)


@dataclass(frozen=True)
class Draw:
    """What a mechanism gave each graph, all [n]."""

    cause: Ints
    label: Ints
    structure: Ints
    attribute: Ints
    size: Ints


@dataclass(frozen=True)
class Mechanism:
    """Label noise, and three spurious factors: the structure, the attributes and the size of a graph."""

    structure: Factor = field(default_factory=Factor)
    attribute: Factor = field(default_factory=Factor)
    size: Factor = field(default_factory=Factor)
    noise: float = 0.0  # probability that the label is not the one of the cause

    def __post_init__(self) -> None:
        _share("noise", self.noise)

    def sample(
        self,
        cause: Any,
        env: Any,
        rng: np.random.Generator,
        *,
        classes: int,
        structures: int | None = None,
        attributes: int | None = None,
        sizes: int | None = None,
    ) -> Draw:
        """Label and spurious factors of graphs with these causes [n] in these environments [n].

        Args:
            cause: The causal part of each graph [n], a number below `classes`.
            env: The environment of each graph [n].
            rng: The source of chance.
            classes: The number of labels.
            structures: The number of values of the structure; by default `classes`.
            attributes: The same for the attribute.
            sizes: The same for the size.
        """
        cause, env = np.asarray(cause, dtype=np.int64), np.asarray(env, dtype=np.int64)
        if cause.ndim != 1 or cause.shape != env.shape:
            raise UsageError(
                f"cause and environment need one number per graph each, not {cause.shape} and {env.shape}."
            )
        if cause.size and not (cause.min() >= 0 and cause.max() < classes):
            raise UsageError(f"A cause is a number from 0 to {classes - 1}.")
        label = _agree(cause, np.full(cause.size, 1.0 - self.noise), classes, rng)
        sizes_of = {"structure": structures, "attribute": attributes, "size": sizes}
        drawn = {
            name: getattr(self, name).sample(cause, label, env, classes if values is None else values, rng)
            for name, values in sizes_of.items()
        }
        return Draw(cause, label, **drawn)

    def unbiased(self) -> Mechanism:
        """The same labelling with uniform spurious factors: an environment in which no shortcut pays."""
        return Mechanism(noise=self.noise)


def fiif(bias: float | Sequence[float], noise: float = 0.0) -> Mechanism:
    """All spurious factors follow the cause; noise in the label, if any, is seen by none of them."""
    factor = Factor("fiif", strengths(bias))
    return Mechanism(factor, factor, factor, noise)


def piif(bias: float | Sequence[float], noise: float) -> Mechanism:
    """All spurious factors follow the label, which differs from the cause with probability `noise`."""
    factor = Factor("piif", strengths(bias))
    return Mechanism(factor, factor, factor, noise)


def miif(
    bias: float | Sequence[float],
    noise: float,
    *,
    label_bias: float | Sequence[float] | None = None,
    structure: str = "fiif",
    attribute: str = "piif",
    size: str = "none",
) -> Mechanism:
    """Factors of both kinds: those called `fiif` follow the cause with `bias`, those called `piif` the label.

    `label_bias` is the strength of the latter, by default `bias` too.

    Args:
        bias: How strongly factors agree with the cause.
        noise: P(the label is not the one of the cause).
        label_bias: How strongly factors agree with the label.
        structure: What the structure follows: fiif, piif or none.
        attribute: What the attributes follow.
        size: What the size follows.
    """
    by_kind = {"fiif": strengths(bias), "piif": strengths(bias if label_bias is None else label_bias)}
    kinds = {"structure": structure, "attribute": attribute, "size": size}
    return Mechanism(
        **{name: Factor(kind, by_kind.get(kind, (1.0,))) for name, kind in kinds.items()}, noise=noise
    )


def strengths(bias: float | Sequence[float]) -> tuple[float, ...]:
    """One bias, or one for each environment, as a tuple."""
    return tuple(float(b) for b in bias) if isinstance(bias, Sequence | np.ndarray) else (float(bias),)


def _share(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:  # refuses NaN as well
        raise UsageError(f"{name}={value} is not a probability: it must lie between 0 and 1.")


def _agree(favoured: Ints, probability: NDArray[np.float64], values: int, rng: np.random.Generator) -> Ints:
    """`favoured` [n] with `probability` [n], else one of the other values, each as likely."""
    if values == 1:
        return np.zeros_like(favoured)
    other = (favoured + rng.integers(1, values, size=favoured.size)) % values
    return np.where(rng.random(favoured.size) < probability, favoured, other)
