"""Pictures of what a trained model keeps: motifs with their truth, molecules with their bonds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ciga.bench.grid import Variation
from ciga.bench.paper import Cell, Figure, Picture
from ciga.bench.tables import DEFAULT
from ciga.errors import CigaError
from ciga.explain.draw import gallery
from ciga.files import atomic, read_tensors
from ciga.graphs.store import GraphStore
from ciga.nn.encoder import Spec
from ciga.runs.records import Records
from ciga.training.ensemble import infer


def draw_subgraphs(
    shown: Figure, records: Records, variation: Variation, out: Path, select: str, datasets: Sequence[str]
) -> list[Path]:
    """One picture for each dataset whose model is here; of molecules, one for each class."""
    paths: list[Path] = []
    for picture in shown.pictures:
        assert picture.cell is not None
        if datasets and picture.cell.dataset not in datasets and picture.key not in datasets:
            continue
        cell = variation.fit(picture.cell)
        found = _model(cell, records, variation, select)
        if found is not None:
            draw = _molecules if picture.cell.dataset.startswith("drugood") else _motifs
            paths += draw(shown, picture, out, *found)
    if not paths:
        raise CigaError(
            f"No model of {shown.name} is here: train them with  ciga bench {shown.name}  "
            "(records without weights will not do)."
        )
    return paths


def _model(cell: Cell, records: Records, variation: Variation, select: str) -> tuple[Any, Any, Any] | None:
    """Method, networks and data of the first seed that has weights."""
    from ciga.runs.plan import plan

    for seed in cell.seeds:
        planned = plan(cell.with_seed(seed, variation.preset, variation.plugins))
        record = records.find(planned.config)
        if record is None:
            continue
        rule = record["selection"] if select == DEFAULT else select
        folders = [runs.folder(planned.config) for runs in records.runs]
        files = [f / f"weights.{rule}.safetensors" for f in folders]
        file = next((f for f in files if f.is_file()), None)
        if file is None:
            continue
        splits = planned.load()
        networks = planned.settings.networks(Spec.of(splits), read_tensors(file)[0])
        return planned.settings.method, networks, splits
    return None


def _look(method: Any, networks: Any, store: GraphStore, row: int) -> tuple[Any, int, Any, Any]:
    """The batch of one graph, the predicted class, the score and the choice of each directed edge [E]."""
    with torch.inference_mode():
        batch = store.batch([row])
        said = infer(method, networks, batch)
    assert said.partition is not None
    score, kept = said.partition.score[batch.pair], said.partition.kept[batch.pair]
    return batch, int(said.logits.argmax()), score, kept


def _motifs(
    shown: Figure, picture: Picture, out: Path, method: Any, networks: Any, splits: Any
) -> list[Path]:
    """For each class its smaller test graphs: readable as pictures."""
    test, names = splits["ood_test"], splits.task.class_names
    lines = []
    for label, name in enumerate(names):
        mine = (test.y == label).nonzero().flatten()
        order = mine[test.num_nodes[mine].argsort(stable=True)]
        last = min(max(len(order) // 2, shown.examples - 1), len(order) - 1)
        picks = order[torch.linspace(0, last, shown.examples).round().long().unique()].tolist()
        graphs = []
        for row in picks:
            batch, guess, _, kept = _look(method, networks, test, row)
            graphs.append(
                {
                    "edge_index": batch.edge_index,
                    "nodes": batch.num_nodes,
                    "kept": kept,
                    "truth": batch.edge_truth,
                    "caption": f"{name}, predicted {names[guess]}",
                }
            )
        lines.append((name, graphs))
    paths = [out / f"{shown.name}-{picture.key}.{suffix}" for suffix in ("svg", "png")]
    gallery(lines, paths, f"{picture.title}: test graphs")
    return paths


def _molecules(
    shown: Figure, picture: Picture, out: Path, method: Any, networks: Any, splits: Any
) -> list[Path]:
    """For each class the middle-sized test molecules, kept bonds coloured by their score."""
    from ciga.data.reading import chem

    chem.rdkit()
    test, names = splits["ood_test"], splits.task.class_names
    paths = []
    for label, name in enumerate(names):
        mine = (test.y == label).nonzero().flatten()
        order = mine[test.num_nodes[mine].argsort(stable=True)]
        picks = order[len(order) // 2 :][: shown.examples].tolist()
        drawn = []
        for row in picks:
            _, guess, score, kept = _look(method, networks, test, row)
            # A bond is two directed edges in a row, u -> v and v -> u, and both have its score.
            said = f"{name}, predicted {names[guess]}"
            drawn.append((test.columns["smiles"][row], said, score[::2], kept[::2]))
        stem = out / f"{shown.name}-{picture.key}-{name}"
        paths += _draw_molecules(drawn, stem)
    return paths


def _draw_molecules(drawn: Sequence[tuple[str, str, Any, Any]], stem: Path) -> list[Path]:
    from rdkit.Chem.Draw import rdMolDraw2D

    from ciga.data.reading import chem

    molecules = [chem.parse(smiles) for smiles, *_ in drawn]
    bonds, colours = [], []
    for _, _, score, kept in drawn:
        strength = score.sigmoid()
        low, high = float(strength.min()), float(strength.max())
        chosen = kept.nonzero().flatten().tolist()
        bonds.append(chosen)
        share = {i: (float(strength[i]) - low) / (high - low or 1.0) for i in chosen}
        # From pale to full blue: also a scale of grey.
        colours.append({i: (0.85 - 0.85 * s, 0.9 - 0.45 * s, 1.0 - 0.3 * s) for i, s in share.items()})
    size, paths = (360, 300), []
    for suffix, canvas in (("svg", rdMolDraw2D.MolDraw2DSVG), ("png", rdMolDraw2D.MolDraw2DCairo)):
        picture = canvas(size[0] * len(drawn), size[1], *size)
        picture.DrawMolecules(
            molecules,
            legends=[legend for _, legend, *_ in drawn],
            highlightAtoms=[[] for _ in drawn],
            highlightBonds=bonds,
            highlightBondColors=colours,
        )
        picture.FinishDrawing()
        text = picture.GetDrawingText()
        path = stem.with_name(f"{stem.name}.{suffix}")
        with atomic(path) as temporary:
            temporary.write_bytes(text.encode() if isinstance(text, str) else text)
        paths.append(path)
    return paths
