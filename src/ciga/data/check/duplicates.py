"""One spelling for each molecule, to find those that stand in a table twice."""

from __future__ import annotations

from ciga.parallel import parallel_map
from ciga.progress import Progress, silent


def canonical_smiles(smiles: list[str], progress: Progress = silent) -> list[str]:
    """RDKit's canonical form of each molecule; what RDKit cannot read stays as it is."""
    return parallel_map(_canonical, smiles, progress, "canonical SMILES", chunk=2000)


def _canonical(smiles: str) -> str:
    from ciga.data.reading.chem import rdkit

    chem = rdkit()
    molecule = chem.MolFromSmiles(smiles)
    return smiles if molecule is None else str(chem.MolToSmiles(molecule))
