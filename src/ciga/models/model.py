"""A fitted model: an ensemble over seeds, and the folder it lives in.

    MODEL/
      model.json            method, settings, classes, featuriser, data fingerprint, versions
      weights-1.safetensors weights of seed 1, and one such file for each further seed
      shift.safetensors     the shift gauge (absent where there is none)
      nearest.safetensors   fingerprints of the training graphs (may be absent)
      report.json           scores, learning curves and advice from training, for the report (may be absent)
      members/NAME/         a folder of this kind for each other method that was trained (may be absent)

Nothing in a folder is executed, no file name is read from inside it, and everything is checked before use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ciga.errors import CigaError, UsageError, unknown
from ciga.files import read_tensors, whole_folder, write_json, write_tensors
from ciga.graphs.store import Batch, GraphStore
from ciga.methods.base import Method
from ciga.models.featuriser import check_featuriser
from ciga.models.folder import (
    check_folder,
    check_free,
    check_plugins,
    check_shares,
    load_network,
    read_json,
)
from ciga.models.neighbours import Neighbours
from ciga.models.shift import MEASURES, Gauge
from ciga.models.temperature import LEAST, MOST
from ciga.models.types import ReportData, of_one, training_graphs
from ciga.nn.encoder import Spec
from ciga.registry import plugin_of
from ciga.runs.records import versions
from ciga.runs.settings import Settings, resolve
from ciga.training.ensemble import joined

FORMAT = "ciga.models.model/2"
#: The formats of a model that answers together with its rivals, and of one with a temperature: versions that
#: cannot mix, or would leave it out, must not read them.
MIXED, COOLED = "ciga.models.model/3", "ciga.models.model/4"
#: The folder of the other methods.
MEMBERS = "members"
NEAREST = "nearest.safetensors"


@dataclass
class Answer:
    """What the ensemble says of a batch. The edge tensors are None for methods that extract nothing."""

    every: Tensor  # [S, G, C] each member's probabilities
    probability: Tensor  # [G, C] their mean
    spread: Tensor  # [G] standard deviation over the members of the predicted class's probability
    embedded: list[Tensor]  # each member's graph representations [G, d]
    score: Tensor | None = None  # [P] mean probability of each undirected edge to be kept
    kept: Tensor | None = None  # [P] the subgraph: the method's budget applied to that score
    member_kept: Tensor | None = None  # [S, P] each member's own choice


@dataclass
class Model:
    """Networks of one method trained with several seeds, with all that is needed to use them.

    `rivals` are models of other methods on the same data. With `shares` the answer is a mixture of all of
    them; the subgraph is always this method's.
    """

    method_name: str
    settings: dict[str, Any]
    spec: Spec
    classes: list[Any]
    metric: str
    seeds: list[int]
    members: list[nn.Module]
    selection: str = "last"
    featuriser: dict[str, Any] = field(default_factory=lambda: {"kind": "graphs"})
    source: dict[str, Any] = field(default_factory=dict)  # dataset and options it was fitted on
    fingerprint: str = ""
    versions: dict[str, str] = field(default_factory=versions)
    gauge: Gauge | None = None
    report_data: ReportData = field(default_factory=ReportData)
    parameters: dict[str, Any] = field(default_factory=dict)  # of the estimator that made it
    rivals: dict[str, Model] = field(default_factory=dict)  # by method
    shares: dict[str, float] = field(default_factory=dict)  # of each method in the answer; none: this one's
    temperature: float = 1.0  # what logits are divided by (`ciga.models.temperature`)

    # ---------------------------------------------------------------- use

    @cached_property
    def chosen(self) -> Settings:
        """The settings as objects."""
        return resolve(self.method_name, self.settings, preset="none")

    @property
    def method(self) -> Method[Any]:
        """The method with its hyper-parameters."""
        return self.chosen.method

    @property
    def names(self) -> list[str]:
        """The classes as text."""
        return [str(c) for c in self.classes]

    @property
    def label(self) -> str:
        """What gives the answer: the method, or the methods with their shares, the largest first."""
        if not self.shares:
            return self.method_name
        order = sorted(self.shares.items(), key=lambda item: -item[1])
        return "mix of " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in order if share)

    @property
    def trained_on(self) -> int | None:
        """The number of training graphs, where the record of the training says it."""
        return training_graphs(self.report_data)

    def only(self, method: str) -> Model:
        """The model of one method alone, of those that were trained."""
        if method != self.method_name and method not in self.rivals:
            raise unknown("member of this model", method, [self.method_name, *self.rivals])
        found = self if method == self.method_name else self.rivals[method]
        told = of_one(self.report_data, method, own=found is self)
        return replace(found, rivals={}, shares={}, report_data=told)

    def to(self, device: torch.device | str) -> Model:
        for member in self.members:
            member.to(device)
        for rival in self.rivals.values():
            rival.to(device)
        return self

    @property
    def device(self) -> torch.device:
        return next((p.device for m in self.members for p in m.parameters()), torch.device("cpu"))

    def check(self, store: GraphStore) -> None:
        """Refuse graphs with other numbers of features than those it was trained on."""
        for what in ("features", "edge_features"):
            mine = store.num_features if what == "features" else store.edge_features
            if mine != getattr(self.spec, what):
                wanted = getattr(self.spec, what)
                raise UsageError(
                    f"The graphs have {mine} {what.replace('_', ' ')}, the model was trained on {wanted}."
                )

    @torch.inference_mode()
    def predict(self, batch: Batch) -> Answer:
        """Predictions, representations and edge scores of the ensemble on one batch, on the CPU."""
        answer = self._predict(batch)
        if not self.shares:
            return answer
        every = torch.zeros_like(answer.every)
        for name, share in self.shares.items():
            if share:
                said = answer if name == self.method_name else self.rivals[name]._predict(batch)
                every += share * said.every
        return replace(answer, every=every, probability=every.mean(0), spread=_spread(every))

    def _predict(self, batch: Batch) -> Answer:
        """What this method alone says."""
        batch = batch.to(self.device)
        for member in self.members:
            member.eval()
        found = [self.method.infer(member, batch) for member in self.members]
        whole = joined(self.method, self.members, batch, found)
        every = torch.stack([(one.logits / self.temperature).softmax(1) for one in found]).cpu()  # [S, G, C]
        embedded = [one.representation.cpu() for one in found]
        answer = Answer(every, every.mean(0), _spread(every), embedded)
        parts = [one.partition for one in found if one.partition is not None]
        if whole.partition is not None:
            answer.score, answer.kept = whole.partition.score.sigmoid().cpu(), whole.partition.kept.cpu()
            answer.member_kept = torch.stack([part.kept for part in parts]).cpu()
        return answer

    def probabilities(self, batch: Batch) -> Tensor:
        """[G, C], the mean over the members."""
        return self.predict(batch).probability

    def embed(self, batch: Batch) -> list[Tensor]:
        """Each member's representations of the graphs, [G, d]."""
        return self.predict(batch).embedded

    @contextmanager
    def keeping_all(self) -> Iterator[Model]:
        """For this time, members that select edges keep all that they are given."""
        networks = [*self.members, *(m for rival in self.rivals.values() for m in rival.members)]
        extractors: list[Any] = [m.extractor for m in networks if hasattr(m, "extractor")]
        before = [(e.budget, e.size) for e in extractors]
        for extractor in extractors:
            extractor.budget, extractor.size = "ratio", 1.0
        try:
            yield self
        finally:
            for extractor, (budget, size) in zip(extractors, before, strict=True):
                extractor.budget, extractor.size = budget, size

    # ---------------------------------------------------------------- files

    def save(self, folder: str | Path) -> None:
        """Write the folder; an older model there is replaced once this one is whole."""
        folder = Path(folder)
        check_free(folder)
        with whole_folder(folder) as place:
            self._write(place)
            if self.gauge is not None and self.gauge.neighbours is not None:  # rivals have the same
                write_tensors(place / NEAREST, self.gauge.neighbours.tensors(), {"format": FORMAT})
            for name, rival in self.rivals.items():
                own = place / MEMBERS / name
                own.mkdir(parents=True)
                rival._write(own)

    def _write(self, place: Path) -> None:
        for seed, member in zip(self.seeds, self.members, strict=True):
            write_tensors(place / f"weights-{seed}.safetensors", member.state_dict(), {"format": FORMAT})
        if self.gauge is not None:
            write_tensors(place / "shift.safetensors", self.gauge.tensors, {"format": FORMAT})
        write_json(place / "report.json", self.report_data)
        write_json(place / "model.json", self._about())

    def _about(self) -> dict[str, Any]:
        plugin = plugin_of(type(self.method))
        return {
            "format": COOLED if self.temperature != 1 else MIXED if self.shares else FORMAT,
            "method": self.method_name,
            **({"temperature": self.temperature} if self.temperature != 1 else {}),
            **({"shares": self.shares} if self.shares else {}),
            "settings": self.settings,
            "spec": asdict(self.spec),
            "classes": self.classes,
            "metric": self.metric,
            "seeds": self.seeds,
            "selection": self.selection,
            "featuriser": self.featuriser,
            "source": self.source,
            "fingerprint": self.fingerprint,
            "shift": None if self.gauge is None else self.gauge.about(),
            "parameters": self.parameters,
            "versions": self.versions,
            "plugins": {} if plugin is None else {plugin.path.name: plugin.digest},
        }

    @classmethod
    def load(cls, folder: str | Path, device: torch.device | str = "cpu") -> Model:
        """Read a model folder. Whatever does not fit is refused with one sentence."""
        folder = Path(folder)
        check_folder(folder)
        about = read_json(folder / "model.json")
        if about.get("format") not in (FORMAT, MIXED, COOLED):
            raise CigaError(
                f"{folder} has the format {about.get('format')!r}, this version reads {FORMAT}, {MIXED} and "
                f"{COOLED}: fit it again."
            )
        check_plugins(folder, about)
        try:
            spec = Spec(**{**about["spec"], "degrees": tuple(map(int, about["spec"]["degrees"]))})
            seeds = [int(seed) for seed in about["seeds"]]
            if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
                raise ValueError("seeds")
            if len(about["classes"]) != spec.classes:
                raise ValueError("classes")
            temperature = float(about.get("temperature", 1.0))
            if not LEAST <= temperature <= MOST:
                raise ValueError("temperature")
            check_featuriser(folder, about["featuriser"])
            keys = ("settings", "classes", "metric", "selection", "featuriser", "source")
            model = cls(
                method_name=about["method"],
                spec=spec,
                seeds=seeds,
                members=[],
                fingerprint=str(about["fingerprint"]),
                versions=dict(about["versions"]),
                parameters=dict(about["parameters"]),
                temperature=temperature,
                **{key: about[key] for key in keys},
            )
            chosen = model.chosen
            shift = about["shift"]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise CigaError(f"{folder / 'model.json'} is damaged ({error!r}): fit the model again.") from None
        for seed in seeds:
            model.members.append(load_network(folder / f"weights-{seed}.safetensors", chosen, spec))
        if shift is not None:
            tensors, _ = read_tensors(folder / "shift.safetensors")
            width = spec.features + spec.edge_features
            try:
                model.gauge = Gauge.restore(tensors, shift, len(seeds), width, spec.classes)
            except (ValueError, KeyError, TypeError, OverflowError, CigaError):
                raise CigaError(f"{folder / 'shift.safetensors'} does not fit the model.") from None
            if (folder / NEAREST).is_file():
                model.gauge.neighbours = _neighbours(folder / NEAREST, model.gauge)
        files = [folder / "report.json", folder / "story.json"]  # the second one up to version 0.1
        written = next((file for file in files if file.is_file()), None)
        if written is not None:
            model.report_data = cast(ReportData, read_json(written))
        if (folder / MEMBERS).is_dir():
            for place in sorted((folder / MEMBERS).iterdir()):
                model.rivals[place.name] = _rival(place, model)
        sizes = {name: len(one.seeds) for name, one in {model.method_name: model, **model.rivals}.items()}
        model.shares = check_shares(folder, about.get("shares", {}), sizes, model.method_name)
        return model.to(device)


def _rival(folder: Path, model: Model) -> Model:
    """A model in the folder of another one: of the method that the folder is called after."""
    if (folder / MEMBERS).exists():
        raise CigaError(f"{folder} has members of members: ciga did not write this folder.")
    found = Model.load(folder)
    if found.method_name != folder.name or (found.spec, found.classes) != (model.spec, model.classes):
        raise CigaError(f"{folder} does not belong to the model around it.")
    if found.gauge is not None and model.gauge is not None:
        found.gauge.neighbours = model.gauge.neighbours
    return found


def _neighbours(file: Path, gauge: Gauge) -> Neighbours:
    try:
        found = Neighbours.restore(read_tensors(file)[0])
        if gauge.tensors["threshold"].numel() < len(MEASURES):
            raise CigaError("A gauge of three measures has no neighbours.")
    except CigaError:
        raise CigaError(f"{file} does not fit the model: fit the model again.") from None
    return found


def _spread(every: Tensor) -> Tensor:
    """The standard deviation over members [S, G, C] of the predicted class's probability, [G]."""
    best = every.mean(0).argmax(1)
    of_best = every[:, torch.arange(len(best)), best]
    return of_best.std(0) if len(every) > 1 else torch.full_like(of_best[0], torch.nan)
