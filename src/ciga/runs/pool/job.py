"""What a pool sends to whoever does a run, in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ciga.runs.spec import RunSpec


@dataclass(frozen=True)
class Job:
    """A run to be done for someone else.

    Args:
        spec: the run.
        runs_dir: where its record goes.
        device: auto, cpu, cuda or mps.
        threads: CPU threads of the run.
        kind: `run`, or `prepare`: only build the data, so that it is in the cache.
        want_record: send the record back, because the sender may not see `runs_dir`.
        ask_for_data: do not fail where raw files are missing: say so, and the data will be sent.
        splits: the folder of data that was sent.
    """

    spec: RunSpec
    runs_dir: str
    device: str = "auto"
    threads: int = 1
    kind: str = "run"
    want_record: bool = False
    ask_for_data: bool = False
    splits: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON; `Job.from_dict` reads it back."""
        return {**vars(self), "spec": self.spec.as_dict()}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Job:
        """What `as_dict` gave."""
        return cls(**{**said, "spec": RunSpec.from_dict(said["spec"])})
