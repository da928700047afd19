"""Draw the pictures of README and docs/concepts.md: python tools/pictures.py MODEL [RUNS_DIR]

The kept subgraphs are those of a run of README's table: CIGA-complement, held, Struc 0.60, seed 1. It takes
two minutes; a run in RUNS_DIR is reused. The molecule is one of the test molecules of MODEL, a folder that
this wrote (ten minutes):

    ciga fit BACE.csv.gz --label Class --split scaffold --out MODEL

Everything else is drawn from the generators.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import torch

import ciga
from ciga.data.dataset import make
from ciga.data.reading.chem import parse
from ciga.explain.draw import KEPT, REST, TRUE, draw_graph, pyplot
from ciga.explain.explanation import explanations_of
from ciga.explain.molecules import bond_scores
from ciga.files import read_tensors
from ciga.models.model import Model
from ciga.nn.encoder import Spec
from ciga.training.ensemble import infer

IMAGES = Path(__file__).parent.parent / "docs" / "images"
METHOD = "ciga-complement"
DATA = {"bias": 0.6, "variant": "paper"}
SETTINGS = {"gamma": 1.0, "settle": True, "trial": 8, "starts": 3}
STYLE = {"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "ciga", "figure.facecolor": "white"}
NAMES = ("cycle", "house", "crane")


def save(figure: Any, name: str) -> None:
    """One picture into docs/images."""
    figure.savefig(IMAGES / name, dpi=130, metadata={"Date": None} if name.endswith("svg") else None)


def trained(runs_dir: str) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Method, networks, data and record of the run that is drawn."""
    plan = ciga.plan("spmotif-struc", METHOD, seed=1, data=DATA, settings=SETTINGS)
    record: Any = ciga.execute(plan, runs_dir)
    splits = plan.load()
    file = Path(runs_dir) / plan.config.hash / f"weights.{record['selection']}.safetensors"
    networks = plan.settings.networks(Spec.of(splits), read_tensors(file)[0])
    return plan.settings.method, networks, splits, record


def small_test_graphs(splits: Any) -> list[int]:
    """For each class a small test graph, large enough to show a base."""
    test = splits["ood_test"]
    rows = []
    for label in range(3):
        mine = (test.y == label).nonzero().flatten()
        order = mine[test.num_nodes[mine].argsort(stable=True)]
        rows.append(int(order[len(order) // 6]))
    return rows


def sure_molecule(model: Any) -> tuple[Any, list[bool], str]:
    """The surest answer for an active test molecule of at most 30 atoms: molecule, kept bonds, title."""
    test = make(model.source["dataset"], model.source["options"]).build()["ood_test"]
    active = ((test.y == 1) & (test.num_nodes <= 30)).nonzero().flatten().tolist()
    batch = test.batch(active)
    with torch.inference_mode():
        found = explanations_of(batch, model.predict(batch))
    best = max(range(len(found)), key=lambda i: float(found[i].probability[1]))
    molecule = parse(str(test.columns["smiles"][active[best]]))
    sure = 100 * float(found[best].probability[1])
    assert found[best].predicted == 1, "no active test molecule is predicted to be active"
    return molecule, bond_scores(molecule, found[best])[1], f"active molecule, {sure:.0f} % sure"


def draw_molecule(axis: Any, plt: Any, molecule: Any, kept: list[bool]) -> None:
    """RDKit's drawing, with the kept bonds on a pale ground."""
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas = rdMolDraw2D.MolDraw2DCairo(1200, 800)
    options = canvas.drawOptions()
    options.addStereoAnnotation = False
    options.bondLineWidth = 4
    options.fillHighlights = True
    options.highlightBondWidthMultiplier = 7
    options.setHighlightColour((0.50, 0.74, 0.90))
    options.padding = 0.02
    options.updateAtomPalette({9: (0.0, 0.35, 0.15), 17: (0.0, 0.35, 0.15)})  # green that is seen on blue
    bonds = [i for i, yes in enumerate(kept) if yes]
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, molecule, highlightAtoms=[], highlightBonds=bonds)
    canvas.FinishDrawing()
    axis.imshow(plt.imread(io.BytesIO(canvas.GetDrawingText())), interpolation="lanczos")
    axis.axis("off")


def kept_subgraphs(plt: Any, method: Any, networks: Any, splits: Any, model: Any) -> None:
    """The picture of README and home: true motif and kept edges of one test graph per class, and a molecule.

    Args:
        plt: matplotlib's pyplot.
        method: of the run.
        networks: what it trained.
        splits: what it was trained on.
        model: fitted on molecules.
    """
    from matplotlib.lines import Line2D

    figure, axes = plt.subplots(2, 2, figsize=(7.4, 5.4), layout="constrained")  # readable on a phone
    for axis, row in zip(axes.flat, small_test_graphs(splits), strict=False):
        batch = splits["ood_test"].batch([row])
        with torch.inference_mode():
            said = infer(method, networks, batch)
        draw_graph(axis, batch.edge_index, batch.num_nodes, said.partition.kept[batch.pair], batch.edge_truth)
        axis.set_title(f"{NAMES[int(batch.y)]}, predicted {NAMES[int(said.logits.argmax())]}", fontsize=14)
    molecule, kept, title = sure_molecule(model)
    draw_molecule(axes[1, 1], plt, molecule, kept)
    axes[1, 1].set_title(title, fontsize=14)
    handles = [
        Line2D([], [], color=TRUE, lw=9, alpha=0.8, label="the true motif"),
        Line2D([], [], color=KEPT, lw=3, label="what CIGA kept"),
        Line2D([], [], color=REST, lw=1.5, label="the rest"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=14)
    save(figure, "subgraphs.png")


def parts(plt: Any, splits: Any) -> None:
    """Concepts: G_c and G_s of one training graph, the first house that a single edge joins to its base."""
    train = splits["train"]
    for row in (train.y == 1).nonzero().flatten().tolist():
        batch = train.batch([row])
        house = torch.zeros(batch.num_nodes, dtype=torch.bool)
        house[batch.edge_index[:, batch.edge_truth]] = True
        if int((house[batch.edge_index[0]] & ~house[batch.edge_index[1]]).sum()) == 1:
            break
    figure, axis = plt.subplots(figsize=(4.6, 3.4), layout="constrained")
    draw_graph(axis, batch.edge_index, batch.num_nodes, torch.zeros_like(batch.edge_truth), batch.edge_truth)
    axis.set_title("G_c: the house (orange). G_s: the rest (grey).")
    save(figure, "concepts-parts.svg")


def mechanisms(plt: Any) -> None:
    """Concepts: FIIF, PIIF and MIIF as diagrams."""
    arrows = {
        "FIIF\nS follows the cause": [("C", "Y"), ("C", "S"), ("E", "S"), ("C", "G"), ("S", "G")],
        "PIIF\nS follows the label": [("C", "Y"), ("Y", "S"), ("E", "S"), ("C", "G"), ("S", "G")],
        "MIIF\nboth": [("C", "Y"), ("C", "S"), ("Y", "S"), ("E", "S"), ("C", "G"), ("S", "G")],
    }
    places = {"C": (0, 1), "Y": (1.2, 1.6), "S": (2, 0.8), "E": (2.9, 1.3), "G": (1, 0)}
    figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.6), layout="constrained")
    for axis, (title, pairs) in zip(axes, arrows.items(), strict=True):
        for name, (x, y) in places.items():
            axis.scatter(x, y, s=620, color=TRUE if name in "CY" else REST, zorder=2)
            axis.text(x, y, name, ha="center", va="center", fontsize=13, zorder=3)
        for a, b in pairs:
            style = {"arrowstyle": "-|>", "color": "#333333", "shrinkA": 14, "shrinkB": 14}
            axis.annotate("", xy=places[b], xytext=places[a], arrowprops=style)
        axis.set(xlim=(-0.4, 3.3), ylim=(-0.4, 2))
        axis.axis("off")
        axis.set_title(title, fontsize=12)
    save(figure, "concepts-mechanisms.svg")


def edge_auroc(plt: Any, method: Any, networks: Any, splits: Any) -> None:
    """Concepts: scores of motif edges and of all others over the test graphs."""
    true, other = [], []
    for batch in splits["ood_test"].batches(256):
        with torch.inference_mode():
            score = infer(method, networks, batch).partition.score.sigmoid()[batch.pair]
        true.append(score[batch.edge_truth])
        other.append(score[~batch.edge_truth])
    figure, axis = plt.subplots(figsize=(5.6, 3), layout="constrained")
    bins = torch.linspace(0, 1, 31).tolist()
    axis.hist(torch.cat(other).tolist(), bins, density=True, color=REST, label="other edges")
    axis.hist(torch.cat(true).tolist(), bins, density=True, color=TRUE, alpha=0.75, label="motif edges")
    axis.set(xlabel="score of an edge", ylabel="density", title="Edge AUROC asks how far these two are apart")
    axis.legend(frameon=False)
    save(figure, "concepts-edge-auroc.svg")


def selection(plt: Any, record: dict[str, Any]) -> None:
    """Concepts: which epoch each rule picks."""
    history = record["history"]
    figure, axis = plt.subplots(figsize=(5.6, 3), layout="constrained")
    for split, colour in (("id_val", REST), ("ood_val", KEPT)):
        axis.plot([row["metrics"][split]["accuracy"] for row in history], color=colour, label=split)
    for name, colour, height in (
        ("id-val", "#666666", 0.60),
        ("ood-val", KEPT, 0.68),
        ("ood-val-rest", "#9a6700", 0.76),
    ):
        epoch = record["selected"][name]["epoch"]
        axis.axvline(epoch, color=colour, ls=":")
        late = epoch > len(history) / 2  # its name stays inside the picture
        place = {"textcoords": "offset points", "xytext": (-5 if late else 5, 0), "va": "center"}
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # another rule's line may pass behind
        axis.annotate(
            name,
            (epoch, height),
            color=colour,
            ha="right" if late else "left",
            bbox=ground,
            zorder=3,
            **place,
        )
    axis.set(xlabel="epoch", ylabel="accuracy", ylim=(0.5, 1.02), title="One run, three rules, three epochs")
    axis.legend(frameon=False, loc="lower right")
    save(figure, "concepts-selection.svg")


def shift(plt: Any, splits: Any) -> None:
    """Concepts: what changes from training to test."""
    figure, axis = plt.subplots(figsize=(5.6, 3), layout="constrained")
    bins = list(range(0, 200, 8))
    for split, colour, alpha in (("train", REST, 1.0), ("ood_test", KEPT, 0.7)):
        axis.hist(
            splits[split].num_nodes.tolist(), bins, density=True, color=colour, alpha=alpha, label=split
        )
    axis.set(xlabel="nodes of a graph", ylabel="density", title="A shift: test graphs are larger")
    axis.legend(frameon=False)
    save(figure, "concepts-shift.svg")


def main() -> None:
    plt = pyplot()
    model = Model.load(Path(sys.argv[1]))
    method, networks, splits, record = trained(sys.argv[2] if len(sys.argv) > 2 else "runs")
    with plt.rc_context(STYLE):
        kept_subgraphs(plt, method, networks, splits, model.only(model.method_name))
        parts(plt, splits)
        mechanisms(plt)
        edge_auroc(plt, method, networks, splits)
        selection(plt, record)
        shift(plt, splits)


if __name__ == "__main__":
    main()
