"""Plain words for what the library calls by short names: parts of the data, metrics, methods, features.

A chemist reads "new scaffolds" and "bond in a ring", not `ood_test` and `edge_attr[5]`. The short names stay
in the folds of the report, for whoever types commands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ciga.data.reading.feature_names import COLUMN, feature_name
from ciga.errors import counted

METRICS = {
    "roc_auc": "ROC-AUC",
    "accuracy": "accuracy",
    "mcc": "Matthews correlation",
    "log_loss": "log loss",
}
#: What blind guessing scores, where that does not depend on the data.
GUESSING = {"roc_auc": "0.5 is guessing", "mcc": "0 is guessing"}
SELECTORS = {
    "id-val": "the best on validation data like training",
    "ood-val": "the best on shifted validation data",
    "id-val-rest": "the best on validation data like training, minus what the rest alone predicts",
    "ood-val-rest": "the best on shifted validation data, minus what the rest alone predicts",
    "oracle": "the best on test data: a bound, not a result",
    "last": "the last epoch",
}
#: How the data were cut -> (what the shifted parts hold, what the parts like training hold).
CUTS = {
    "scaffold": ("new scaffolds", "known scaffolds"),
    "assay": ("new assays", "known assays"),
    "cluster": ("new clusters of similar {many}", "known clusters"),
    "similarity": ("{many} least like training", "{many} like training"),
    "group": ("new groups", "known groups"),
    "size": ("larger {many}", "{many} of training size"),
    "-size": ("smaller {many}", "{many} of training size"),
    "degree": ("more densely linked {many}", "{many} linked as in training"),
    "-degree": ("more sparsely linked {many}", "{many} linked as in training"),
    "density": ("{many} of another density", "{many} as dense as in training"),
    "time": ("later {many}", "{many} of the same time"),
    "order": ("later rows", "rows of the same time"),
    "column": ("held-out rows", "rows like training"),
    "files": ("the test file", "rows like training"),
}
OTHERWISE = ("shifted {many}", "{many} like training")
PARTS = ("train", "id_val", "id_test", "ood_val", "ood_test")


@dataclass(frozen=True)
class Words:
    """The words of one report."""

    one: str  # molecule, graph
    many: str
    node: str  # atom, node
    edge: str  # bond, edge
    new: str  # what the shifted parts hold: "new scaffolds"
    known: str  # what the parts like training hold: "known scaffolds"
    named: bool  # whether the features have names

    @classmethod
    def of(cls, molecules: bool, rule: str, descending: bool = False) -> Words:
        """The words for molecules or other graphs, cut by a rule such as `scaffold` or `order date`."""
        kind, _, column = rule.replace(":", " ").partition(" ")
        new, known = CUTS.get(f"-{kind}" if descending else kind, CUTS.get(kind, OTHERWISE))
        if kind == "group" and column:
            new, known = f"new values of {column}", f"known values of {column}"
        if kind == "order" and column:
            new = f"rows with {'lower' if descending else 'higher'} {column}"
            known = f"rows with {column} as in training"
        one, node, edge = ("molecule", "atom", "bond") if molecules else ("graph", "node", "edge")
        many = f"{one}s"
        return cls(one, many, node, edge, new.format(many=many), known.format(many=many), molecules)

    def part(self, name: str) -> str:
        """`ood_test` -> "new scaffolds"; `id_val` -> "known scaffolds (validation)"."""
        if name == "train":
            return "training"
        kind, _, use = name.partition("_")
        held = {"ood": self.new, "id": self.known}.get(kind)
        if held is None:
            return name
        return held if use == "test" else f"{held} (validation)"

    def count(self, number: int) -> str:
        """`1 molecule`, `1,513 molecules`."""
        return counted(number, self.one, self.many)

    def feature(self, name: str) -> str:
        """`x[30]` -> "aromatic atom"; `nodes` -> "number of atoms"."""
        plain = {
            "nodes": f"number of {self.node}s",
            "edges": f"number of {self.edge}s",
            "degree": f"neighbours per {self.node}",
        }
        found = COLUMN.fullmatch(name)
        if found is None:
            return plain.get(name, name)
        known = feature_name(name) if self.named else None
        return known or f"{self.node if found[1] == 'x' else self.edge} feature {found[2]}"

    def closed(self, method: str, columns: Sequence[int]) -> str:
        """What the gates of a method closed in every training run, by name."""
        if not columns:
            return f"{method} uses every {self.node} feature: its gates closed none in all training runs."
        names = ", ".join(self.feature(f"x[{column}]") for column in columns)
        number = counted(len(columns), f"{self.node} feature")
        return f"{method} ignores {number} (closed by gates in every training run): {names}."

    def unlike(self, reasons: str) -> str:
        """Why a graph was flagged: `size, features` -> "its size, its atoms and bonds"."""
        plain = {
            "size": "its size",
            "features": f"its {self.node}s and {self.edge}s",
            "embedding": "how the model sees it",
            "similarity": "nothing like it in training",
        }
        return ", ".join(plain.get(reason, reason) for reason in reasons.split(", "))

    def titled(self, text: str) -> str:
        """A title with plain names for the parts of the data; names of files stay as they are."""
        return re.sub(r"\b(?:id|ood)_(?:val|test)\b(?!\.\w)", lambda m: self.part(m[0]), text)

    def sentence(self, text: str) -> str:
        """A sentence with all its short names replaced."""
        text = COLUMN.sub(lambda m: self.feature(m[0]), text)
        text = re.sub(r"\bcolumn(s?) of x\b", rf"{self.node} feature\1", text)
        text = re.sub(r"\bcolumn(s?) of edge_attr\b", rf"{self.edge} feature\1", text)
        text = re.sub(r"\b(?:id|ood)_(?:val|test)\b", lambda m: f"“{self.part(m[0])}”", text)
        text = re.sub(r"\btrain\b", "the training data", text)
        text = re.sub(r"\b(?:roc_auc|mcc)\b", lambda m: METRICS[m[0]], text)
        return re.sub(r"\bgraph(s?)\b", lambda m: f"{self.one}{m[1]}", text)


def words_of(source: Mapping[str, Any], molecules: bool, notes: Mapping[str, str]) -> Words:
    """The words that fit a model's data.

    Args:
        source: the dataset's name and options, as a model keeps them.
        molecules: whether the graphs are molecules.
        notes: the notes of the data, which say how they were split.
    """
    name = str(source.get("dataset", ""))
    rule = notes.get("split") or next((cut for cut in CUTS if name.endswith(f"-{cut}")), "")
    if not rule:
        rule = _shift_of(name)
    return Words.of(molecules, rule, bool(source.get("options", {}).get("descending", False)))


def _shift_of(name: str) -> str:
    """The rule behind the shift a dataset of the library is made with, if it has one of those above."""
    from ciga.data.dataset import datasets

    if name not in datasets:
        return ""
    return {"graph size": "size", "degree": "density"}.get(datasets[name].shift, "")


def metric_name(metric: str) -> str:
    """A metric as people write it."""
    return METRICS.get(metric, metric)


def method_name(method: str) -> str:
    """A method as people call it."""
    return {"erm": "plain network (ERM)", "auto": "the mixture"}.get(method, method)
