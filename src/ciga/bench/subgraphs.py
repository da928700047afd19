"""Pictures of what a trained model keeps: truth, kept edges and scores side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ciga.bench.chosen import Chosen
from ciga.bench.exhibit import Cell, Figure, Picture
from ciga.bench.tables import DEFAULT
from ciga.errors import CigaError
from ciga.explain.draw import KEPT, REST, TRUE, pyplot
from ciga.explain.layout import CAREFUL, stress_layout
from ciga.files import atomic, read_tensors
from ciga.graphs.store import GraphStore
from ciga.nn.encoder import Spec
from ciga.training.ensemble import infer

WRONG = "#B3261E"


def draw_subgraphs(shown: Figure, chosen: Chosen, out: Path) -> list[Path]:
    """One picture for each dataset whose model is here; of molecules, one for each class."""
    paths: list[Path] = []
    for picture in shown.pictures:
        assert picture.cell is not None
        if chosen.datasets and not {picture.cell.dataset, picture.key} & set(chosen.datasets):
            continue
        found = _model(chosen.variation.fit(picture.cell), chosen)
        if found is not None:
            draw = _molecules if picture.cell.dataset.startswith("drugood") else _motifs
            paths += draw(shown, picture, out, *found)
    if not paths:
        raise CigaError(
            f"No model of {shown.name} is here: train some with  ciga bench {shown.name} --quick,  or all "
            f"with  ciga bench {shown.name}  (records without weights are not enough)."
        )
    return paths


def _model(cell: Cell, chosen: Chosen) -> tuple[Any, Any, Any] | None:
    """Method, networks and data of the first seed that has weights."""
    from ciga.runs.plan import plan

    for seed in cell.seeds:
        planned = plan(cell.with_seed(seed, chosen.variation.preset, chosen.variation.plugins))
        record = chosen.records.find(planned.config)
        if record is None:
            continue
        rule = record["selection"] if chosen.select == DEFAULT else chosen.select
        folders = [runs.folder(planned.config) for runs in chosen.records.runs]
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
    """A row for each class; of each of its smaller test graphs the truth, what was kept, and the scores."""
    from ciga.bench.look import STYLE, save

    test, names = splits["ood_test"], splits.task.class_names
    plt = pyplot()
    with plt.rc_context({**STYLE, "axes.titleweight": "normal", "axes.titlelocation": "center"}):
        gap = [0.18]  # between two graphs
        widths = [*([1, 1, 1, *gap] * shown.examples)][:-1]
        figure, axes = plt.subplots(
            len(names),
            len(widths),
            figsize=(2.45 * shown.examples, 1.02 * len(names) + 0.3),
            squeeze=False,
            layout="constrained",
            gridspec_kw={"width_ratios": widths},
        )
        figure.get_layout_engine().set(w_pad=0.01, h_pad=0.02, wspace=0, hspace=0)
        for label, name in enumerate(names):
            for axis in axes[label]:
                axis.axis("off")
            for place, row in enumerate(_examples(test, label, shown.examples)):
                batch, guess, score, kept = _look(method, networks, test, row)
                trio = axes[label, 4 * place : 4 * place + 3]
                draw_trio(trio, batch.edge_index, batch.num_nodes, batch.edge_truth, kept, score)
                right = {} if guess == label else {"color": WRONG, "weight": "bold"}
                trio[1].set_title(f"{name}, predicted {names[guess]}", fontsize=7.5, pad=2, **right)
                words = ("truth" if batch.edge_truth is not None else "graph", "kept", "score")
                for axis, word in zip(trio, words, strict=True):
                    under = {"ha": "center", "va": "top", "fontsize": 6.5, "color": "#555555"}
                    axis.text(0.5, 0.02, word, transform=axis.transAxes, **under)
        title = f"{picture.title}: test graphs. Scores go from pale to dark."
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        return save(figure, out / f"{shown.name}-{picture.key}")


def _examples(test: GraphStore, label: int, count: int) -> list[int]:
    """Some of the smaller graphs of a class: readable as pictures."""
    mine = (test.y == label).nonzero().flatten()
    order = mine[test.num_nodes[mine].argsort(stable=True)]
    last = min(max(len(order) // 2, count - 1), len(order) - 1)
    picks: list[int] = order[torch.linspace(0, last, count).round().long().unique()].tolist()
    return picks


def draw_trio(axes: Any, edge_index: Any, nodes: int, truth: Any, kept: Any, score: Any) -> None:
    """One graph three times, side by side.

    Args:
        axes: three of them.
        edge_index: directed edges [2, E].
        nodes: their number.
        truth: which edges are of the invariant part [E]; None where nobody knows.
        kept: which edges the model keeps [E].
        score: its score of each edge [E].
    """
    from matplotlib.collections import LineCollection

    at = stress_layout(edge_index, nodes, CAREFUL)
    ends = [(at[u], at[v]) for u, v in edge_index.t().tolist()]
    rank = score.argsort().argsort().double() / max(len(score) - 1, 1)
    top = score.argsort().tolist()  # what scores high is drawn over the rest
    looks: list[tuple[list[Any], list[float]]] = [
        (
            [TRUE if truth is not None and t else REST for t in (kept if truth is None else truth).tolist()],
            [],
        ),
        ([KEPT if k else REST for k in kept.tolist()], []),
        (pyplot().get_cmap("Blues")(0.12 + 0.88 * rank.numpy()).tolist(), (0.5 + 1.2 * rank).tolist()),
    ]
    for axis, (colours, widths) in zip(axes, looks, strict=True):
        wide = widths or [0.5 if c == REST else 1.7 for c in colours]
        order = top if widths else sorted(range(len(ends)), key=[c != REST for c in colours].__getitem__)
        lines = LineCollection(
            [ends[i] for i in order],
            colors=[colours[i] for i in order],
            linewidths=[wide[i] for i in order],
            capstyle="round",
            zorder=2,
        )
        axis.add_collection(lines)
        axis.scatter(at[:, 0], at[:, 1], s=1.5, color="#444444", zorder=3, linewidths=0)
        axis.set_aspect("equal", adjustable="datalim")
        axis.margins(0.06)
        axis.autoscale_view()
        axis.axis("off")


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
    """Above, the bonds that were kept; below, the score of every bond, from pale to dark."""
    from rdkit.Chem.Draw import rdMolDraw2D

    from ciga.data.reading import chem

    molecules = [chem.parse(smiles) for smiles, *_ in drawn]
    kept_bonds = [kept.nonzero().flatten().tolist() for *_, kept in drawn]
    solid = [dict.fromkeys(bonds, (0.62, 0.8, 0.94)) for bonds in kept_bonds]
    scores: list[dict[int, tuple[float, float, float]]] = []
    for _, _, score, _ in drawn:
        rank = (score.argsort().argsort().double() / max(len(score) - 1, 1)).tolist()
        # Also a scale of grey.
        scores.append({i: (0.95 - 0.75 * s, 0.97 - 0.45 * s, 1.0 - 0.2 * s) for i, s in enumerate(rank)})
    legends = [f"{legend}: kept" for _, legend, *_ in drawn] + ["score of each bond"] * len(drawn)
    size, paths = (360, 300), []
    for suffix, canvas in (("svg", rdMolDraw2D.MolDraw2DSVG), ("png", rdMolDraw2D.MolDraw2DCairo)):
        picture = canvas(size[0] * len(drawn), 2 * size[1], *size)
        picture.DrawMolecules(
            molecules * 2,
            legends=legends,
            highlightAtoms=[[] for _ in legends],
            highlightBonds=[*kept_bonds, *(list(found) for found in scores)],
            highlightBondColors=[*solid, *scores],
        )
        picture.FinishDrawing()
        text = picture.GetDrawingText()
        path = stem.with_name(f"{stem.name}.{suffix}")
        with atomic(path) as temporary:
            temporary.write_bytes(text.encode() if isinstance(text, str) else text)
        paths.append(path)
    return paths
