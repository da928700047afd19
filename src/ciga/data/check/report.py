"""What a score on these splits may really mean: leakage, shifts, dead columns, odd environments."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ciga.data.check.duplicates import canonical_smiles
from ciga.data.check.label_ties import label_ties
from ciga.data.reading.similarity import hardness, to_training
from ciga.data.reading.tables import Rejected, read_rejected
from ciga.errors import MissingExtra, counted
from ciga.graphs.hashes import exact_hashes, wl_hashes
from ciga.graphs.splits import Splits
from ciga.graphs.store import GraphStore
from ciga.progress import Progress, silent
from ciga.scoring.stats import holm

Values = NDArray[Any]

#: The most graphs of a split that tests look at, drawn with a fixed seed: more only makes p smaller.
SAMPLE = 5_000
#: A difference is called a shift if it is both sure (Holm-corrected) and large enough to matter.
SURE, LARGE = 0.01, 0.1
#: The number of features that are listed by name.
LISTED = 20


@dataclass
class Report:
    """The findings, as plain values; `as_dict()` is JSON, printing with rich gives tables."""

    name: str
    splits: dict[str, Any]
    duplicates: dict[str, Any]
    label_shift: dict[str, Any]
    shifts: dict[str, Any]
    label_ties: dict[str, Any]
    constant_columns: dict[str, Any]
    environments: dict[str, Any] | None
    similarity: dict[str, Any] = field(default_factory=dict)  # to train, of molecules
    rejected: list[Rejected] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "rejected": [vars(r) for r in self.rejected], "warnings": self.warnings()}

    def warnings(self) -> list[str]:
        """One sentence for each thing to look at before trusting a score."""
        out = []
        for kind, pairs in self.duplicates.items():
            for pair, found in pairs.items():
                if pair != "note" and found["graphs"]:
                    where, other = pair.split(" in ")
                    conflict = f"; {found['other_label']} with another label" if found["other_label"] else ""
                    same = counted(found["graphs"], "graph")
                    be = "is" if found["graphs"] == 1 else "are"
                    out.append(f"{same} of {where} {be} also in {other} ({kind}{conflict}).")
        for part, shift in self.label_shift.items():
            if max(shift["shares"]) == 1:
                use = "no epoch is chosen by it" if part.endswith("val") else "most scores say nothing there"
                out.append(f"All graphs of {part} are of one class: {use}.")
            if shift["shifted"]:
                out.append(f"The class shares of {part} differ from those of train by {shift['effect']:.2f}.")
        for part, ties in self.label_ties.items():
            for tie in [entry for entry in ties["largest"] if entry["shifted"]][:3]:
                r = f"r = {tie['train_r']:+.2f} in train, {tie['r']:+.2f} in {part}"
                out.append(f"The tie between {tie['what']} and class {tie['class']} changes: {r}.")
        for table, columns in self.constant_columns.items():
            dead, late = len(columns["everywhere"]), len(columns["in train only"])
            if dead:
                said = "is constant and says nothing" if dead == 1 else "are constant and say nothing"
                out.append(f"{counted(dead, 'column')} of {table} {said}.")
            if late:
                be = "is" if late == 1 else "are"
                out.append(f"{counted(late, 'column')} of {table} {be} constant in train only.")
        if self.environments and self.environments["single_class"]:
            found = self.environments
            one, of = len(found["single_class"]), found["environments"]
            have = "has" if one == 1 else "have"
            out.append(f"{one} of {counted(of, 'training environment')} {have} one class only.")
        if self.rejected:
            be = "was" if len(self.rejected) == 1 else "were"
            out.append(f"{counted(len(self.rejected), 'row')} {be} set aside.")
        return out

    def __rich__(self) -> Any:
        from ciga.data.check.view import view

        return view(self)


def check(splits: Splits, name: str = "", progress: Progress = silent) -> Report:
    """Look for leakage between the parts and for shifts between `train` and each other part."""
    label_shift, shifts, ties = _label_shift(splits), _shifts(splits), label_ties(splits, SAMPLE)
    tests = [entry for part in shifts.values() for entry in part["tests"]]
    _correct([*label_shift.values(), *tests, *(entry for part in ties.values() for entry in part)])
    for part in shifts.values():
        _summarise(part)
    return Report(
        name,
        {part: splits[part].stats() for part in splits},
        _duplicates(splits, progress),
        label_shift,
        shifts,
        {part: _largest(entries) for part, entries in ties.items()},
        _constant_columns(splits),
        _environments(splits),
        _similarity(splits, progress),
        _rejected(splits),
        dict(splits.notes),
    )


# ---------------------------------------------------------------- duplicates


def _duplicates(splits: Splits, progress: Progress) -> dict[str, Any]:
    """For each kind of sameness and each pair of parts: how many graphs of the later are in the earlier."""
    keys = {
        "exact": {part: exact_hashes(splits[part]) for part in splits},
        "WL hash": {part: wl_hashes(splits[part]) for part in splits},
    }
    out: dict[str, Any] = {kind: _pairs(splits, hashes) for kind, hashes in keys.items()}
    columns = {part: splits[part].columns.get("smiles") for part in splits}
    if all(isinstance(column, list) for column in columns.values()):
        try:
            texts = [text for column in columns.values() for text in column or []]
            canonical = np.array(canonical_smiles([str(t) for t in texts], progress))
            bounds = np.cumsum([splits[part].num_graphs for part in splits])[:-1]
            out["canonical SMILES"] = _pairs(
                splits, dict(zip(splits, np.split(canonical, bounds), strict=True))
            )
        except MissingExtra as error:
            out["canonical SMILES"] = {"note": f"not looked at. {error}"}
    return out


def _pairs(splits: Splits, keys: dict[str, Values]) -> dict[str, Any]:
    names, out = list(splits), {}
    for i, earlier in enumerate(names):
        values, first = np.unique(keys[earlier], return_index=True)
        for later in names[i + 1 :]:
            place = np.searchsorted(values, keys[later]).clip(max=len(values) - 1)
            rows = np.flatnonzero(values[place] == keys[later])
            twins = first[place[rows]]
            differ = splits[later].y.numpy()[rows] != splits[earlier].y.numpy()[twins]
            out[f"{later} in {earlier}"] = {
                "graphs": len(rows),
                "share": len(rows) / splits[later].num_graphs,
                "other_label": int(differ.sum()),
                "examples": [[int(a), int(b)] for a, b in zip(rows[:5], twins[:5], strict=True)],
            }
    return out


# ---------------------------------------------------------------- shifts


def _label_shift(splits: Splits) -> dict[str, Any]:
    """Class shares, their total variation distance from train's, and a chi-squared test."""
    from scipy.stats import chi2_contingency

    counts = {part: torch.bincount(splits[part].y, minlength=splits.task.classes).numpy() for part in splits}
    train, out = counts["train"], {}
    for part in list(splits)[1:]:
        table = np.stack([train, counts[part]])
        table = table[:, table.sum(0) > 0]
        p = float(chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0
        shares = [c / c.sum() for c in (train, counts[part])]
        out[part] = {
            "shares": shares[1].tolist(),
            "train_shares": shares[0].tolist(),
            "effect": float(np.abs(shares[1] - shares[0]).sum() / 2),
            "p": p,
        }
    return out


def _shifts(splits: Splits) -> dict[str, Any]:
    """Kolmogorov-Smirnov tests of sizes, degrees and features between train and each other part."""
    described = {part: _describe(splits[part]) for part in splits}
    train, out = described["train"], {}
    for part in list(splits)[1:]:
        both = [name for name in train if len(train[name]) and len(described[part][name])]
        out[part] = {"tests": [_compare(name, train[name], described[part][name]) for name in both]}
    return out


def _describe(store: GraphStore) -> dict[str, Values]:
    """One number per graph, by name: its size and degree, and the features of one of its nodes and edges.

    One node drawn at random stands for its graph: nodes of one graph are not independent, and the mean over
    a graph varies less the larger the graph is, so that every size shift would look like a feature shift.
    """
    draw = torch.Generator().manual_seed(0)
    rows = torch.randperm(store.num_graphs, generator=draw)[:SAMPLE].sort().values
    nodes, edges = store.num_nodes[rows].double(), store.num_edges[rows].double()
    out = {"nodes": nodes, "edges": edges, "degree": edges / nodes.clamp(min=1)}
    for what, table, pointer, counts in (
        ("x", store.x, store.node_ptr, store.num_nodes),
        ("edge_attr", store.edge_attr, store.edge_ptr, store.num_edges),
    ):
        if table is not None:
            some = rows[counts[rows] > 0]
            place = torch.rand(len(some), generator=draw, dtype=torch.double) * counts[some]
            drawn = table[pointer[some] + place.long()].double()
            out |= {f"{what}[{i}]": drawn[:, i] for i in range(table.size(1))}
    return {name: value.numpy() for name, value in out.items()}


def _compare(name: str, train: Values, other: Values) -> dict[str, Any]:
    from scipy.stats import ks_2samp

    spread = np.sqrt((train.var() + other.var()) / 2)
    gap = float(other.mean() - train.mean())
    test = ks_2samp(train, other, method="asymp")
    return {
        "what": name,
        "train_mean": float(train.mean()),
        "mean": float(other.mean()),
        "effect": float(test.statistic),
        "cohens_d": gap / float(spread) if spread > 1e-12 else None if gap else 0.0,
        "p": float(test.pvalue),
    }


def _correct(entries: list[dict[str, Any]]) -> None:
    """Holm's correction over all tests of the report, and the verdict."""
    for entry, corrected in zip(entries, holm([e["p"] for e in entries]), strict=True):
        entry["p_holm"] = corrected
        entry["shifted"] = corrected < SURE and entry["effect"] >= LARGE


def _summarise(part: dict[str, Any]) -> None:
    """Keep sizes and the features that differ most; count the rest."""
    tests = part.pop("tests")
    part |= {entry["what"]: entry for entry in tests[:3]}
    part["features"] = _largest(tests[3:])


def _largest(tests: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "tested": len(tests),
        "shifted": sum(entry["shifted"] for entry in tests),
        "largest": sorted(tests, key=lambda e: -float(e["effect"]))[:LISTED],
    }


# ---------------------------------------------------------------- columns and environments


def _constant_columns(splits: Splits) -> dict[str, Any]:
    """Feature columns with one value: in all parts, or in train only (a model cannot learn those)."""
    out = {}
    for what in ("x", "edge_attr"):
        tables = {part: getattr(splits[part], what) for part in splits}
        if tables["train"] is None or not tables["train"].numel():
            continue
        first = tables["train"][0]
        same = {part: (table == first).all(0) for part, table in tables.items()}
        everywhere = torch.stack(list(same.values())).all(0)
        out[what] = {
            "everywhere": everywhere.nonzero().flatten().tolist(),
            "in train only": (same["train"] & ~everywhere).nonzero().flatten().tolist(),
        }
    return out


def _environments(splits: Splits) -> dict[str, Any] | None:
    """How many graphs and classes the training environments have, and who meets new ones."""
    train = splits.train
    if train.env is None:
        return None
    names, place = torch.unique(train.env, return_inverse=True)
    table = torch.zeros(len(names), splits.task.classes, dtype=torch.long)
    table.index_put_((place, train.y), torch.ones_like(place), accumulate=True)
    sizes, single = table.sum(1), (table > 0).sum(1) == 1
    unseen = {
        part: int((~torch.isin(env, names)).sum())
        for part in list(splits)[1:]
        if (env := splits[part].env) is not None
    }
    return {
        "environments": len(names),
        "graphs_least": int(sizes.min()),
        "graphs_median": float(sizes.double().median()),
        "graphs_most": int(sizes.max()),
        "single_class": names[single].tolist(),
        "single_class_share": float(sizes[single].sum() / sizes.sum()),
        "graphs_in_unseen": unseen,
    }


def _similarity(splits: Splits, progress: Progress) -> dict[str, Any]:
    """Tanimoto similarity of each part's molecules to their nearest in train, and what that means."""
    try:
        found = to_training(splits, progress)
    except MissingExtra:
        return {}
    return {part: {**values, "verdict": hardness(values["median"])} for part, values in found.items()}


def _rejected(splits: Splits) -> list[Rejected]:
    log = splits.notes.get("rejected.file")
    return read_rejected(Path(log)) if log and Path(log).is_file() else []
