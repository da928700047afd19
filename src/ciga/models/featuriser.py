"""How the graphs of a model come about, written down when it is fitted and checked when it is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ciga.errors import CigaError
from ciga.graphs.store import GraphStore


def featuriser_of(stores: Sequence[GraphStore], source: dict[str, Any]) -> dict[str, Any]:
    """How graphs of this kind come about: from SMILES where the data has them, else as they are."""
    from ciga.data.reading import featurise as molecules

    first = stores[0]
    shape = (first.num_features, first.edge_features)
    if "smiles" not in first.columns or shape != (molecules.ATOM_FEATURES, molecules.BOND_FEATURES):
        return {"kind": "graphs", "label": source.get("options", {}).get("label", "y")}
    from ciga.data.reading import chem

    options = source.get("options", {})
    return {
        "kind": "smiles",
        "column": options.get("smiles", "smiles"),
        "label": options.get("label", "label"),
        "threshold": options.get("threshold"),
        "version": molecules.VERSION,
        "rdkit": chem.version(),
    }


def check_featuriser(folder: Path, featuriser: dict[str, Any]) -> None:
    """Refuse graphs made in another way than this version makes them."""
    if featuriser["kind"] not in ("smiles", "graphs"):
        raise ValueError("featuriser")
    if featuriser["kind"] == "smiles":
        from ciga.data.reading import featurise as molecules

        if featuriser["version"] != molecules.VERSION:
            raise CigaError(
                f"{folder} reads SMILES by version {featuriser['version']!r} of the atom features, this ciga "
                f"has version {molecules.VERSION}: fit the model again."
            )
