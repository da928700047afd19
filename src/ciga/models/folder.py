"""Model folders read with suspicion: they may come from anyone, so nothing in them is believed unchecked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ciga.errors import CigaError, UsageError
from ciga.files import check_writable, read_tensors, recover, remove_leftovers
from ciga.methods.base import methods
from ciga.nn.encoder import Spec
from ciga.registry import ENVIRONMENT
from ciga.runs.settings import Settings

#: Endings of files that can run code when loaded. We never load them, and a folder with one is not ours.
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt", ".joblib", ".npy", ".npz")
#: A description larger than this is not one that we wrote.
LARGEST_JSON = 64 * 2**20
#: The files that models are saved as, within their folder.
OURS = re.compile(
    r"nearest\.safetensors|(members/[^/]+/)?(model\.json|report\.json|story\.json|shift\.safetensors"
    r"|weights-\d+\.safetensors)"
)


def check_free(folder: Path) -> None:
    """Refuse a folder that holds anything besides a model, or that cannot be written: nothing is lost."""
    recover(folder)
    if folder.exists() and (
        not folder.is_dir() or (any(folder.iterdir()) and not (folder / "model.json").is_file())
    ):
        raise UsageError(f"{folder} exists and is not a model folder: choose another --out.")
    remove_leftovers(folder)
    foreign = _foreign(folder)
    if foreign:
        one = len(foreign) == 1
        listed = ", ".join(foreign[:4]) + (f" and {len(foreign) - 4:,} more" if len(foreign) > 4 else "")
        raise UsageError(
            f"{folder} holds {listed}, which {'is' if one else 'are'} not part of its model and would be "
            f"deleted with it: move {'it' if one else 'them'} elsewhere, or choose another --out."
        )
    check_writable(folder)


def _foreign(folder: Path) -> list[str]:
    """The files in a model's folder that no model is saved as."""
    inside = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    files = [name for name, path in inside.items() if path.is_symlink() or not path.is_dir()]
    return sorted(name for name in files if not OURS.fullmatch(name))


def check_folder(folder: Path) -> None:
    """Refuse folders with pickles in them, or with links that lead out."""
    recover(folder)
    if not (folder / "model.json").is_file():
        raise CigaError(f"{folder} is not a model folder: it has no model.json.")
    inside = folder.resolve()
    for path in folder.rglob("*"):
        if path.suffix.lower() in PICKLES:
            raise CigaError(
                f"{folder} holds {path.name}, a kind of file that can run code when loaded: "
                "ciga did not write this folder."
            )
        if not _resolved(path).is_relative_to(inside):
            raise CigaError(f"{path} points outside of its model folder.")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # Python 3.12 raises RuntimeError for a loop
        raise CigaError(f"{path} is a link that leads back to itself: remove it.") from None


def check_plugins(folder: Path, about: dict[str, Any]) -> None:
    """Refuse a model of a plugin's method while that plugin is not loaded."""
    needed, method = about.get("plugins"), about.get("method")
    if isinstance(needed, dict) and needed and method not in methods:
        raise UsageError(
            f"{folder} has the method '{method}' of the plugin {', '.join(map(str, needed))}: name that file "
            f"with --plugin FILE, or in {ENVIRONMENT}."
        )


def check_shares(folder: Path, shares: Any, sizes: Mapping[str, int], method: str) -> dict[str, float]:
    """Refuse shares that are not those of a model's methods, or not shares.

    Args:
        folder: of the model, for error messages.
        shares: what model.json says.
        sizes: the number of networks of each method.
        method: the one whose subgraphs are shown.
    """
    if not shares:
        return {}
    sound = (
        isinstance(shares, dict)
        and shares.keys() <= sizes.keys()
        and all(isinstance(share, (int, float)) and 0 <= share <= 1 for share in shares.values())
        and abs(sum(shares.values()) - 1) < 1e-6
        and len({sizes[name] for name in [*shares, method]}) == 1
    )
    if not sound:
        raise CigaError(f"{folder / 'model.json'} is damaged (shares): fit the model again.")
    return {name: float(share) for name, share in shares.items()}


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file."""
    if path.stat().st_size > LARGEST_JSON:
        raise CigaError(f"{path} is too large to be the description of a model.")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise CigaError(f"{path} is damaged: fit the model again.") from None
    if not isinstance(value, dict):
        raise CigaError(f"{path} is damaged: fit the model again.")
    return value


def load_network(path: Path, chosen: Settings, spec: Spec) -> nn.Module:
    """The network with the weights of a file; sizes are compared before anything large is made."""
    tensors, _ = read_tensors(path)
    misfit = CigaError(f"The weights in {path} do not fit the model.json beside them.")
    try:
        if not chosen.method.closed_form and not _plausible(tensors, chosen, spec):
            raise misfit
        network = chosen.method.network(spec, chosen.backbone)
        network.load_state_dict(tensors)
    except (RuntimeError, ValueError, TypeError, MemoryError):
        raise misfit from None
    if not all(bool(t.isfinite().all()) for t in tensors.values() if t.is_floating_point()):
        raise CigaError(f"The weights in {path} are not all numbers: fit the model again.")
    return network.eval()


def _plausible(tensors: dict[str, Tensor], chosen: Settings, spec: Spec) -> bool:
    """Whether a network of these settings has tensors of these shapes: found out without making them."""
    if chosen.backbone.layers > len(tensors):
        return False
    try:
        with torch.device("meta"):
            state = chosen.method.network(spec, chosen.backbone).state_dict()
    except (NotImplementedError, RuntimeError):
        # Some layers compute while they are built. All of them hold a square of their width.
        return chosen.backbone.width**2 <= sum(t.numel() for t in tensors.values())
    return {k: v.shape for k, v in state.items()} == {k: v.shape for k, v in tensors.items()}
