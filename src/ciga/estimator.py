"""Every method behind scikit-learn's contract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from ciga.data.splits import Splits, Task
from ciga.data.store import GraphStore
from ciga.errors import CigaError, UsageError
from ciga.files import read_tensors, write_json, write_tensors
from ciga.nn.encoder import Spec
from ciga.records import versions
from ciga.selection import default_selector
from ciga.settings import resolve
from ciga.train import fit, pick_device

FORMAT = "ciga.model/1"
Graphs = GraphStore | Sequence[Any]


@dataclass
class Subgraph:
    """The invariant subgraph of one graph, per directed edge in the order the graph came with."""

    edge_index: Tensor  # [2, E]
    score: Tensor  # [E] probability of each edge to be in it
    kept: Tensor  # [E] True where the edge is in it


class GraphOODClassifier(ClassifierMixin, BaseEstimator):
    """A graph classifier that is meant to hold up under distribution shift.

    Args:
        method: any registered method (`ciga methods` lists them).
        validation: share of the training graphs held out to choose the epoch, unless `fit` is given a
            validation set of its own.
        metric: what the epoch is chosen by.
        seed, device, threads: as in `ciga run`.
        settings: any setting of the method, its network or its schedule: `alpha=4.0, width=64, epochs=30`.

    Example:
        >>> model = GraphOODClassifier("ciga-v2", budget="count", size=8, epochs=20)  # doctest: +SKIP
        >>> model.fit(graphs, labels).predict(others)  # doctest: +SKIP
    """

    def __init__(
        self,
        method: str = "ciga-v2",
        *,
        validation: float = 0.1,
        metric: str = "accuracy",
        seed: int = 1,
        device: str = "auto",
        threads: int = 1,
        **settings: Any,
    ) -> None:
        self.method = method
        self.validation = validation
        self.metric = metric
        self.seed = seed
        self.device = device
        self.threads = threads
        self.settings = settings

    # ---------------------------------------------------------------- scikit-learn's contract

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters, settings included."""
        return {**super().get_params(deep), **self.settings}

    def set_params(self, **params: Any) -> GraphOODClassifier:
        """Change parameters or settings; unknown ones are refused when fitting."""
        own = set(self._get_param_names())
        for key, value in params.items():
            if key in own:
                setattr(self, key, value)
            else:
                self.settings[key] = value
        return self

    def fit(
        self,
        graphs: Graphs,
        y: Sequence[Any] | None = None,
        *,
        env: Sequence[int] | None = None,
        validation: tuple[Graphs, Sequence[Any]] | None = None,
    ) -> GraphOODClassifier:
        """Train on `graphs` (PyG `Data` objects or a `GraphStore`) with labels `y`.

        Labels may be anything sortable; without `y` they are taken from the graphs. `env` names the
        environment of each graph for methods that use it. `validation` is a pair (graphs, labels), best
        drawn from a shifted distribution, by which the epoch is chosen.
        """
        chosen = resolve(self.method, self.settings, preset="none")
        store = as_store(graphs)
        labels = np.asarray(store.y if y is None else y)
        if labels.shape != (store.num_graphs,):
            raise UsageError(f"There are {store.num_graphs} graphs but labels of shape {labels.shape}.")
        self.classes_, coded = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise UsageError(f"All labels are {self.classes_[0]!r}: there is nothing to tell apart.")
        store = store.labelled(torch.from_numpy(coded.copy()))
        if env is not None:
            store = store.with_env(torch.as_tensor(np.unique(np.asarray(env), return_inverse=True)[1]))
        task = Task(len(self.classes_), self.metric, tuple(map(str, self.classes_)))
        splits = Splits(self._parts(store, coded, validation), task)
        self.fitted_ = fit(
            chosen.method,
            splits,
            backbone=chosen.backbone,
            training=chosen.training,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
        )
        self.n_features_in_ = store.num_features
        self._adopt(chosen.flat(), self.fitted_.spec, self.fitted_.network(), splits.fingerprint())
        return self

    def predict_proba(self, graphs: Graphs) -> np.ndarray[Any, Any]:
        """Probability of each class, [n, C], columns as in `classes_`."""
        return torch.cat([logits.softmax(1) for logits, _, _ in self._infer(graphs)]).numpy()

    def predict(self, graphs: Graphs) -> np.ndarray[Any, Any]:
        """The likeliest class of each graph."""
        return np.asarray(self.classes_[self.predict_proba(graphs).argmax(1)])

    # ---------------------------------------------------------------- explanations

    def subgraphs(self, graphs: Graphs) -> list[Subgraph]:
        """The invariant subgraph of each graph: edge scores, and which edges were kept."""
        self._check()
        if not self.method_.extracts:
            raise UsageError(f"{self.method} does not extract a subgraph: use ciga-v2, gsat or dir.")
        out = []
        for _, edges, batch in self._infer(graphs):
            score, kept = edges[0].sigmoid()[batch.pair], edges[1][batch.pair]
            sizes = torch.bincount(batch.edge_batch, minlength=batch.num_graphs).tolist()
            first = torch.searchsorted(batch.batch, batch.edge_batch)
            local = batch.edge_index - first
            for ends, s, k in zip(local.split(sizes, 1), score.split(sizes), kept.split(sizes), strict=True):
                out.append(Subgraph(ends, s, k))
        return out

    # ---------------------------------------------------------------- files

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder of JSON and safetensors."""
        self._check()
        folder = Path(folder)
        write_tensors(folder / "weights.safetensors", self.network_.state_dict(), {"format": FORMAT})
        # The description comes last: a folder without it is no model, whatever else is in it.
        write_json(
            folder / "model.json",
            {
                "format": FORMAT,
                "method": self.method,
                "parameters": {k: getattr(self, k) for k in self._get_param_names() if k != "method"},
                "settings": self.settings_,
                "spec": asdict(self.spec_),
                "classes": self.classes_.tolist(),
                "fingerprint": self.fingerprint_,
                "selected": self.selected_,
                "versions": versions(),
            },
        )

    @classmethod
    def load(cls, folder: str | Path) -> GraphOODClassifier:
        """Read a model that `save` wrote. Nothing in the folder is executed."""
        folder = Path(folder)
        if not (folder / "model.json").is_file():
            raise CigaError(f"{folder} is not a model folder: it has no model.json.")
        try:
            about = json.loads((folder / "model.json").read_text())
            if about["format"] != FORMAT:
                raise CigaError(f"{folder} has format {about['format']}, this version reads {FORMAT}.")
            model = cls(about["method"], **about["parameters"], **about["settings"])
            spec = Spec(**{**about["spec"], "degrees": tuple(about["spec"]["degrees"])})
            model.classes_ = np.asarray(about["classes"])
            model.selected_ = about["selected"]
            fingerprint = about["fingerprint"]
            if model.classes_.shape != (spec.classes,):
                raise ValueError("the number of classes")
            chosen = resolve(model.method, model.settings, preset="none")
            network = chosen.method.network(spec, chosen.backbone)
        except (ValueError, KeyError, TypeError, RuntimeError) as error:
            raise CigaError(f"{folder / 'model.json'} is damaged: {error!r}.") from None
        tensors, _ = read_tensors(folder / "weights.safetensors")
        try:
            network.load_state_dict(tensors)
        except RuntimeError as error:
            raise CigaError(f"The weights in {folder} do not fit its model.json: {error}") from None
        model.n_features_in_ = spec.features
        model._adopt(chosen.flat(), spec, network.eval(), fingerprint)
        return model

    # ---------------------------------------------------------------- inner workings

    def _parts(
        self, store: GraphStore, coded: np.ndarray[Any, Any], validation: tuple[Graphs, Sequence[Any]] | None
    ) -> dict[str, GraphStore]:
        if validation is not None:
            place = {c: i for i, c in enumerate(self.classes_.tolist())}
            strange = [v for v in validation[1] if v not in place]
            if strange:
                raise UsageError(f"The validation label {strange[0]!r} does not occur in training.")
            held = as_store(validation[0]).labelled(torch.tensor([place[v] for v in validation[1]]))
            return {"train": store, "ood_val": held}
        rows = np.arange(store.num_graphs)
        held_out = round(self.validation * len(rows))
        if held_out < 1:
            return {"train": store}
        # A class with one member, or fewer places than classes, cannot be stratified: draw plainly then.
        possible = np.bincount(coded).min() >= 2 and min(held_out, len(rows) - held_out) >= len(self.classes_)
        train, held_rows = train_test_split(
            rows, test_size=held_out, random_state=self.seed, stratify=coded if possible else None
        )
        return {"train": store.subset(train), "id_val": store.subset(held_rows)}

    def _adopt(self, settings: dict[str, Any], spec: Spec, network: nn.Module, fingerprint: str) -> None:
        self.settings_, self.spec_, self.fingerprint_ = settings, spec, fingerprint
        self.method_ = resolve(self.method, self.settings, preset="none").method
        self.network_ = network.to(pick_device(self.device))
        if hasattr(self, "fitted_"):
            name = default_selector(self.fitted_.splits).name
            self.selected_ = {"selector": name, **self.fitted_.selected[name]}

    def _check(self) -> None:
        if not hasattr(self, "network_"):
            raise NotFittedError("This classifier is not fitted yet: call fit(graphs, y) first.")

    def _infer(self, graphs: Graphs) -> list[tuple[Tensor, Any, Any]]:
        """(logits, edge scores, batch) for each batch of the graphs."""
        self._check()
        store = as_store(graphs)
        for what in ("features", "edge_features"):
            mine = store.num_features if what == "features" else store.edge_features
            wanted = getattr(self.spec_, what)
            if mine != wanted:
                words = what.replace("_", " ")
                raise UsageError(f"The graphs have {mine} {words}, the model was trained on {wanted}.")
        place = next((p.device for p in self.network_.parameters()), torch.device("cpu"))
        out = []
        with torch.inference_mode():
            self.network_.eval()
            for batch in store.batches(256, chunk=4):
                logits, edges = self.method_.infer(self.network_, batch.to(place))
                out.append((logits.cpu(), None if edges is None else tuple(e.cpu() for e in edges), batch))
        return out


def as_store(graphs: Graphs) -> GraphStore:
    """Any accepted form of graphs as a store."""
    if isinstance(graphs, GraphStore):
        return graphs
    graphs = list(graphs)
    if graphs and isinstance(graphs[0], GraphStore):  # what scikit-learn's indexing makes of a store
        return GraphStore.concat(graphs)
    return GraphStore.from_pyg(graphs)
