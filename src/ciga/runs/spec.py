"""A run to be done, as one plain value: what `ciga run` is told, what a worker is sent, what a table repeats.

`ciga.runs.plan.plan` resolves it: every option gets its value, and the run its hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunSpec:
    """One run: names, and what differs from their defaults.

    Args:
        dataset: a dataset's name.
        method: a method's name.
        seed: of the run.
        data: options of the dataset.
        settings: of the method, its network and its schedule; they win over the preset.
        preset: where settings start; empty for the default of this dataset (`ciga.runs.settings`).
        protocol: `ood`, or `iid`: all parts pooled and dealt out again, for oracle rows.
        plugins: Python files that register what is named here.
    """

    dataset: str
    method: str
    seed: int = 1
    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = ""
    protocol: str = "ood"
    plugins: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON; `RunSpec.from_dict` reads it back."""
        return {**asdict(self), "plugins": list(self.plugins)}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> RunSpec:
        """What `as_dict` gave."""
        return cls(**{**said, "plugins": tuple(said["plugins"])})

    def __str__(self) -> str:
        given = ", ".join(f"{k}={v}" for k, v in {**self.data, **self.settings}.items())
        kind = " (IID)" if self.protocol == "iid" else f" ({self.preset})" if self.preset else ""
        what = f"{self.method}{kind} on {self.dataset}" + (f" ({given})" if given else "")
        return f"{what}, seed {self.seed}"
