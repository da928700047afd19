"""Every method behind scikit-learn's contract."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from torch import nn

from ciga import options
from ciga.data.reading.in_memory import are_molecules, listed, molecule_graphs
from ciga.errors import CigaError, UsageError, unknown
from ciga.explain.explanation import Explanation, explain
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import Batch, GraphStore
from ciga.methods.base import Method, methods
from ciga.models.featuriser import featuriser_of
from ciga.models.model import Model
from ciga.models.report_data import outline
from ciga.models.shift import Gauge, Shift
from ciga.nn.encoder import Backbone
from ciga.runs.settings import resolve
from ciga.training.device import pick_device
from ciga.training.members import fit_members
from ciga.training.schedule import Training

#: A store, a list of PyG graphs, or molecules: SMILES, RDKit molecules, a pandas Series, or a DataFrame.
Graphs = GraphStore | Sequence[Any]


class GraphOODClassifier(ClassifierMixin, BaseEstimator):
    """A graph classifier that is meant to hold up under distribution shift.

    Args:
        method: any registered method (`ciga methods` lists them).
        validation: share of the training graphs held out to choose the epoch, unless `fit` is given a
            validation set of its own.
        metric: what the epoch is chosen by; `auto` is roc_auc for two classes, else accuracy, as for files.
        seed: the same one gives the same model.
        device: auto, cpu, cuda or mps.
        threads: of torch.
        settings: any setting of the method, its network or its schedule: `alpha=4.0, width=64, epochs=30`.
            A misspelt one is refused at once.

    Examples:
        >>> model = GraphOODClassifier("ciga-v2", budget="count", size=8, epochs=20)  # doctest: +SKIP
        >>> model.fit(graphs, labels).predict(others)  # doctest: +SKIP
    """

    def __init__(
        self,
        method: str = "ciga-v2",
        *,
        validation: float = 0.1,
        metric: str = "auto",
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
        self._settings = settings
        self._check_settings()

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The method, and whatever is not the default."""
        defaults = {k: p.default for k, p in inspect.signature(type(self)).parameters.items()}
        values = {k: v for k, v in self.get_params(deep=False).items() if k != "method"}
        given = {k: v for k, v in values.items() if k not in defaults or v != defaults[k]}
        words = ", ".join([repr(self.method), *(f"{k}={v!r}" for k, v in given.items())])
        return f"{type(self).__name__}({words})"

    # ---------------------------------------------------------------- scikit-learn's contract

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters, settings included."""
        return {**super().get_params(deep), **self._settings}

    def set_params(self, **params: Any) -> GraphOODClassifier:
        """Change parameters or settings; what no method of this name has is refused, and nothing changes."""
        own = set(self._get_param_names())
        named = {k: v for k, v in params.items() if k in own}
        settings = {k: v for k, v in params.items() if k not in own}
        self._check_settings(named.get("method", self.method), settings)
        for key, value in named.items():
            setattr(self, key, value)
        self._settings |= settings
        return self

    def _check_settings(self, method: str | None = None, settings: Mapping[str, Any] | None = None) -> None:
        """Refuse names that are no settings; those of a method that is not registered yet wait for `fit`."""
        method = method or self.method
        if method in methods:
            kinds = (methods[method], Backbone, Training)
            known = {key for kind in kinds for key in options.fields_of(kind)}
            for key in self._settings if settings is None else settings:
                if key not in known:
                    raise unknown(f"setting of {method}", key, known)

    def fit(
        self,
        graphs: Graphs,
        y: Sequence[Any] | None = None,
        *,
        env: Sequence[int] | None = None,
        validation: tuple[Graphs, Sequence[Any]] | None = None,
    ) -> GraphOODClassifier:
        """Train on `graphs` (PyG `Data` objects, a `GraphStore`, or molecules) with labels `y`.

        Args:
            graphs: PyG `Data` objects, a `GraphStore`, or molecules.
            y: Labels, anything sortable; without them, those of the graphs.
            env: The environment of each graph, for methods that use it.
            validation: A pair (graphs, labels) that chooses the epoch, best from a shifted distribution.
        """
        chosen = resolve(self.method, self._settings)  # from the preset own-data
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
        metric = self.metric
        if metric == "auto":
            metric = "roc_auc" if len(self.classes_) == 2 else "accuracy"
        task = Task(len(self.classes_), metric, tuple(map(str, self.classes_)))
        splits = Splits(self._parts(store, coded, validation), task)
        self.fitted_ = fit_members(
            chosen.method,
            splits,
            backbone=chosen.backbone,
            training=chosen.training,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
        )
        selection, networks = self.fitted_.selector.name, self.fitted_.networks()
        model = Model(
            method_name=self.method,
            settings=chosen.flat(),
            spec=self.fitted_.spec,
            classes=self.classes_.tolist(),
            metric=metric,
            seeds=[self.seed] if len(networks) == 1 else [*range(1, len(networks) + 1)],
            members=networks,
            selection=selection,
            featuriser=featuriser_of([store], {}),
            fingerprint=splits.fingerprint(),
            parameters={k: getattr(self, k) for k in self._get_param_names() if k != "method"},
        ).to(pick_device(self.device))
        run = {
            "selected": self.fitted_.selected,
            "history": self.fitted_.history,
            "seconds": self.fitted_.seconds,
        }
        model.report_data = outline({self.method: [run]}, metric, selection)
        model.gauge = Gauge.calibrate(model.embed, splits)
        self.model_ = model
        self.n_features_in_ = store.num_features
        return self

    def predict_proba(self, graphs: Graphs) -> np.ndarray[Any, Any]:
        """Probability of each class, [n, C], columns as in `classes_`."""
        found = [self.model_.predict(batch).probability for batch in self._batches(graphs)]
        return torch.cat(found).numpy()

    def predict(self, graphs: Graphs) -> np.ndarray[Any, Any]:
        """The likeliest class of each graph, or of each molecule: `predict(["CCO", "c1ccccc1"])`."""
        best = self.predict_proba(graphs).argmax(1)
        return np.asarray(self.classes_[best])

    # ---------------------------------------------------------------- explanations and trust

    def explain(self, graphs: Graphs) -> list[Explanation]:
        """What the model saw in each graph: the invariant subgraph, its scores, the prediction."""
        self._check()
        return explain(self.model_, self._store(graphs))

    def subgraphs(self, graphs: Graphs) -> list[Explanation]:
        """The same as `explain`: edge scores, and which edges were kept."""
        return self.explain(graphs)

    def shift(self, graphs: Graphs) -> Shift:
        """How unlike the training graphs these are: `.flag` [n], `.score` [n], `.reasons()`."""
        self._check()
        store, gauge = self._store(graphs), self.model_.gauge
        assert gauge is not None
        every = store.batches(256, chunk=4)
        return Shift(torch.cat([gauge.measure(b, self.model_.embed(b), store).ratio for b in every]))

    def report(
        self, graphs: Graphs, path: str | Path, y: Sequence[Any] | None = None, title: str = "Report"
    ) -> None:
        """Write one HTML file with the model's training and what it makes of these graphs.

        Args:
            graphs: What the model is asked about.
            path: The HTML file.
            y: Their true labels, where they are known.
            title: Of the page.
        """
        from ciga.explain.examine import examine
        from ciga.explain.report import report_model

        self._check()
        store = self._store(graphs)
        if y is not None:
            place = {c: i for i, c in enumerate(self.classes_.tolist())}
            store = store.labelled(torch.tensor([place.get(v, -1) for v in np.asarray(y).tolist()]))
        elif int(store.y.max()) >= len(self.classes_) or self.classes_.tolist() != list(
            range(len(self.classes_))
        ):
            # The graphs' own numbers are labels only if the classes are such numbers.
            store = store.labelled(torch.full((store.num_graphs,), -1))
        report_model(self.model_, examine(self.model_, store), path, title=title)

    # ---------------------------------------------------------------- files

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder of JSON and safetensors."""
        self._check()
        self.model_.save(folder)

    @classmethod
    def load(cls, folder: str | Path) -> GraphOODClassifier:
        """Read a model that `save` or `ciga fit` wrote. Nothing in the folder is executed."""
        model = Model.load(folder)
        if not set(model.parameters) <= set(cls._get_param_names()):
            raise CigaError(f"{Path(folder) / 'model.json'} is damaged: fit the model again.")
        made = cls(model.method_name, **{"metric": model.metric, **model.parameters}, **model.settings)
        made.classes_ = np.asarray(model.classes)
        made.n_features_in_ = model.spec.features
        made.model_ = model.to(pick_device(made.device))
        return made

    @property
    def network_(self) -> nn.Module:
        """The trained network (the first one of an ensemble)."""
        return self.model_.members[0]

    @property
    def method_(self) -> Method[Any]:
        """The method with its hyper-parameters."""
        return self.model_.method

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

    def _check(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError("This classifier is not fitted yet: call fit(graphs, y) first.")

    def _batches(self, graphs: Graphs) -> Iterator[Batch]:
        self._check()
        store = self._store(graphs)
        self.model_.check(store)
        return store.batches(256, chunk=4)

    def _store(self, graphs: Graphs) -> GraphStore:
        featuriser = self.model_.featuriser
        return as_store(graphs, str(featuriser.get("column", "smiles")), featuriser["kind"] == "smiles")


def as_store(graphs: Graphs, column: str = "smiles", molecules: bool = True) -> GraphStore:
    """Any accepted form of graphs as a store; molecules are refused where they are not wanted."""
    if isinstance(graphs, GraphStore):
        return graphs
    graphs = listed(graphs, column)
    if are_molecules(graphs):
        if not molecules:
            raise UsageError("The model was fitted on graphs, not on molecules: give it graphs.")
        return molecule_graphs(graphs)
    if graphs and isinstance(graphs[0], GraphStore):  # what scikit-learn's indexing makes of a store
        return GraphStore.concat(graphs)
    return GraphStore.from_pyg(graphs)
