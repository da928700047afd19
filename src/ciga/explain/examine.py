"""All that the report shows of a model on a set of graphs: predictions, pictures, fragments, fidelity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ciga.explain.explanation import Explanation, explanations_of
from ciga.explain.fidelity import Fidelity, fidelity
from ciga.explain.fragments import enriched, graph_fragments, molecule_fragments
from ciga.explain.molecules import draw_molecule
from ciga.explain.svg import draw_graph
from ciga.graphs.store import GraphStore
from ciga.models.model import Model
from ciga.models.summary import plots
from ciga.progress import Progress, silent
from ciga.scoring import metrics

#: Graphs drawn in the gallery, and graphs on which fidelity is measured, at most.
GALLERY, MEASURED = 150, 2000


@dataclass
class Examined:
    """A model's view of a set of graphs, as plain values."""

    graphs: int
    cards: list[dict[str, Any]]
    fragments: list[dict[str, Any]] = field(default_factory=list)
    fidelity: dict[str, Any] = field(default_factory=dict)
    quality: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    pictures: dict[str, Any] = field(default_factory=dict)
    flagged: float | None = None
    seen: int = 0  # graphs that are in the training data
    scored: int = 0  # labelled graphs behind `scores` and `pictures`
    stability: float | None = None
    errors: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def examine(
    model: Model,
    store: GraphStore,
    *,
    rows: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    gallery: int = GALLERY,
    seed: int = 0,
    progress: Progress = silent,
) -> Examined:
    """Look at every graph of a store; labels of -1 are unknown.

    Args:
        model: the model that looks.
        store: the graphs.
        rows: where they stand in their file; else the column `row` of the store says it, where there is one.
        names: their names in that file; empty for those without.
        gallery: how many are drawn at most.
        seed: of the random parts, and of the choice of what is drawn.
        progress: told how far it is.
    """
    model.check(store)
    extracts = model.method.extracts
    explanations: list[Explanation] = []
    spreads, ratios, reasons, faithful, stable, edges = [], [], [], [], [], []
    generator = torch.Generator().manual_seed(seed)
    for batch in store.batches(256, chunk=4):
        progress(len(explanations), store.num_graphs, "explaining")
        answer = model.predict(batch)
        spreads.append(answer.spread)
        if answer.score is not None and (truth := batch.pair_truth) is not None:
            edges.append((answer.score, truth, batch.pair_batch + len(explanations)))
        explanations += explanations_of(batch, answer)
        if model.gauge is not None:
            shift = model.gauge.measure(batch, answer.embedded, store)
            ratios.append(shift.ratio)
            reasons += shift.reasons()
        if answer.kept is not None and answer.member_kept is not None:
            stable.append(_agreement(answer.member_kept, batch.pair_batch, batch.num_graphs))
            if len(explanations) - batch.num_graphs < MEASURED:
                faithful.append(fidelity(model, batch, answer.kept, generator))
    probability = torch.stack([e.probability for e in explanations])
    seen_before = None if model.gauge is None else model.gauge.seen(store)
    if seen_before is None:
        seen_before = torch.zeros(store.num_graphs, dtype=torch.bool)
    per_graph = {
        "probability": probability,
        "seen": seen_before,
        "spread": torch.cat(spreads),
        "shift": torch.cat(ratios).max(1).values if ratios else torch.full((store.num_graphs,), math.nan),
    }
    out = Examined(store.num_graphs, [])
    smiles = store.columns.get("smiles")
    smiles = [str(s) for s in smiles] if isinstance(smiles, list) else None
    lines = store.columns.get("row")
    if rows is None and isinstance(lines, Tensor):
        rows = [int(line) for line in lines]
    _score(out, store, probability, seen_before)
    if edges:
        score, truth, owner = (torch.cat(column) for column in zip(*edges, strict=True))
        out.quality = metrics.explanation(score, truth, owner, store.num_graphs)
    if ratios:
        out.flagged = float((per_graph["shift"] > 1).double().mean())
    if extracts:
        found = molecule_fragments(smiles, explanations) if smiles else graph_fragments(explanations)
        out.fragments = enriched(found, probability.argmax(1), len(model.classes))
        out.fidelity = Fidelity.joined(faithful).summary()
        if len(model.members) > 1:
            agree = torch.cat(stable)
            out.stability = float(agree[agree.isfinite()].mean()) if bool(agree.isfinite().any()) else None
        if store.num_graphs > out.fidelity["graphs"]:
            out.notes.append(f"Fidelity was measured on the first {out.fidelity['graphs']:,} graphs.")
    chosen = _choose(per_graph, store.y, gallery, seed)
    if len(chosen) < store.num_graphs:
        out.notes.append(
            f"The gallery shows {len(chosen):,} of {store.num_graphs:,} graphs: some that were predicted "
            "wrongly, some that were flagged, and others drawn at random."
        )
    for done, i in enumerate(chosen):
        progress(done, len(chosen), "drawing")
        drawn = draw_molecule(smiles[i], explanations[i]) if smiles else None
        picture = drawn or draw_graph(explanations[i])
        row = i + 1 if rows is None else rows[i]
        what = "row" if rows is not None else "molecule" if smiles else "graph"
        name = names[i] if names and names[i].strip() else f"{what} {row}"
        why = reasons[i] if reasons else ""
        card = _card(model, explanations[i], per_graph, i, row, name, why, picture)
        out.cards.append({**card, "smiles": smiles[i] if smiles else ""})
    return out


def _score(out: Examined, store: GraphStore, probability: Tensor, seen: Tensor) -> None:
    """Scores of the labelled graphs; of those that are not in the training data, where there are any."""
    known = store.y >= 0
    fresh = known & ~seen
    out.seen = int(seen.sum())
    chosen = fresh if bool(fresh.any()) else known
    out.scored = int(chosen.sum())
    if out.scored:
        logits = probability[chosen].double().clamp(min=1e-12).log()
        out.scores = metrics.classification(logits, store.y[chosen])
        out.pictures = plots(probability[chosen], store.y[chosen])
    if out.seen and out.scored:
        about = (
            f"scores, confusion and reliability here are of the other {out.scored:,}"
            if chosen is fresh
            else "its scores here say nothing about new graphs"
        )
        out.notes.append(
            f"The model was trained on {out.seen:,} of the {store.num_graphs:,} graphs: {about}."
        )


def _agreement(kept: Tensor, graph: Tensor, graphs: int) -> Tensor:
    """Mean Jaccard index of the members' subgraphs over all pairs of members, [G]."""
    members = len(kept)
    every = []
    for a in range(members):
        for b in range(a + 1, members):
            both = torch.zeros(graphs).index_add_(0, graph, (kept[a] & kept[b]).float())
            either = torch.zeros(graphs).index_add_(0, graph, (kept[a] | kept[b]).float())
            every.append(both / either)
    return torch.stack(every).mean(0) if every else torch.full((graphs,), math.nan)


def _choose(rows: dict[str, Tensor], y: Tensor, most: int, seed: int) -> list[int]:
    """Which graphs to draw: a third of the places for wrong ones, a third for flagged ones, or by chance."""
    total = len(y)
    if total <= most:
        return list(range(total))
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    wrong = (rows["probability"].argmax(1) != y) & (y >= 0)
    flagged = rows["shift"] > 1
    picked: dict[int, None] = {}
    for mask, places in (
        (wrong, most // 3),
        (flagged, most // 3),
        (torch.ones(total, dtype=torch.bool), most),
    ):
        fresh = [i for i in order[mask[order]].tolist() if i not in picked]
        picked |= dict.fromkeys(fresh[: min(places, most - len(picked))])
    return sorted(picked)


def _card(
    model: Model,
    explanation: Explanation,
    rows: dict[str, Tensor],
    i: int,
    row: int,
    name: str,
    reasons: str,
    picture: tuple[str, list[float], list[bool]],
) -> dict[str, Any]:
    svg, scores, kept = picture
    label = explanation.label
    spread, shift = float(rows["spread"][i]), float(rows["shift"][i])
    correct = "unknown" if label is None else "right" if label == explanation.predicted else "wrong"
    return {
        "row": row,
        "name": name,
        "svg": svg,
        "scores": [round(s, 3) for s in scores] if model.method.extracts else [],
        "kept": [int(k) for k in kept],
        "label": None if label is None else model.names[label],
        "predicted": model.names[explanation.predicted],
        "confidence": float(explanation.probability.max()),
        "spread": None if math.isnan(spread) else spread,
        "correct": correct,
        "shift": None if math.isnan(shift) else shift,
        "flagged": shift > 1,
        "seen": bool(rows["seen"][i]),
        "reasons": reasons,
        "quality": explanation.quality() if model.method.extracts else {},
        "edges": len(kept),
        "kept_edges": sum(kept),
        "nodes": explanation.num_nodes,
    }
