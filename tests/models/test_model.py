"""Model folders: what is written is read again, and what does not fit is refused with a sentence."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ciga.errors import CigaError, UsageError
from ciga.files import write_tensors
from ciga.models.model import Model
from tests.small_models import edit, toy_model, toy_splits


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    toy_model().save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def test_a_loaded_model_is_the_same(saved: Path) -> None:
    model, loaded = toy_model(), Model.load(saved)
    batch = toy_splits()["ood_test"].batch(slice(None))
    one, two = model.predict(batch), loaded.predict(batch)
    for name in ("every", "probability", "spread", "score", "kept", "member_kept"):
        assert torch.equal(getattr(one, name), getattr(two, name)), name
    assert model.gauge is not None
    assert loaded.gauge is not None
    assert torch.equal(
        model.gauge.measure(batch, one.embedded).ratio, loaded.gauge.measure(batch, two.embedded).ratio
    )
    for name in ("method", "classes", "metric", "seeds", "selection", "fingerprint", "source", "versions"):
        assert getattr(loaded, name) == getattr(model, name)
    assert json.loads(json.dumps(model.report_data)) == loaded.report_data


def test_the_folder_is_small_and_complete(saved: Path) -> None:
    assert sorted(p.name for p in saved.iterdir()) == [
        "model.json", "nearest.safetensors", "report.json", "shift.safetensors", "weights-1.safetensors",
        "weights-2.safetensors",
    ]  # fmt: skip
    assert sum(p.stat().st_size for p in saved.iterdir()) < 2**20
    about = json.loads((saved / "model.json").read_text())
    assert {"method", "settings", "classes", "featuriser", "fingerprint", "versions"} <= set(about)


def test_the_ensemble_is_the_mean_of_its_members() -> None:
    model = toy_model()
    batch = toy_splits()["ood_test"].batch(slice(None))
    with torch.inference_mode():
        each = torch.stack([model.method.infer(m.eval(), batch).logits.softmax(1) for m in model.members])
    seen = model.predict(batch)
    torch.testing.assert_close(seen.probability, each.mean(0))
    best = each.mean(0).argmax(1)
    expected = [each[:, i, c].std() for i, c in enumerate(best.tolist())]
    torch.testing.assert_close(seen.spread, torch.stack(expected))
    assert bool(toy_model(seeds=1).predict(batch).spread.isnan().all())


def test_the_ensembles_subgraph_keeps_to_the_budget() -> None:
    model = toy_model(budget="count", size=5)
    batch = toy_splits()["ood_test"].batch(slice(None))
    seen = model.predict(batch)
    assert seen.kept is not None
    assert torch.bincount(batch.pair_batch[seen.kept]).tolist() == [5] * batch.num_graphs


def test_keeping_all_is_for_a_while_only() -> None:
    model = toy_model()
    batch = toy_splits()["ood_test"].batch(slice(None))
    before = model.predict(batch)
    with model.keeping_all():
        inside = model.predict(batch).kept
        assert inside is not None
        assert bool(inside.all())
    after = model.predict(batch)
    assert before.kept is not None
    assert after.kept is not None
    assert torch.equal(before.kept, after.kept)


def test_saving_again_leaves_nothing_of_the_old_model(folder: Path) -> None:
    toy_model(seeds=1).save(folder)
    assert not (folder / "weights-2.safetensors").exists()
    assert Model.load(folder).seeds == [1]


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(UsageError, match="not a model folder"):
        toy_model().save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "important"


# ---------------------------------------------------------------- hostile folders


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("pwned",)


def shifted(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        tensors = load_file(folder / "shift.safetensors")
        change(tensors)
        write_tensors(folder / "shift.safetensors", tensors, {})

    return damage


def outside(folder: Path) -> None:
    other = folder.parent / "elsewhere.safetensors"
    shutil.move(folder / "weights-1.safetensors", other)
    (folder / "weights-1.safetensors").symlink_to(other)


def not_numbers(folder: Path) -> None:
    tensors = load_file(folder / "weights-2.safetensors")
    next(t for t in tensors.values() if t.is_floating_point()).flatten()[0] = torch.nan
    write_tensors(folder / "weights-2.safetensors", tensors, {})


def hidden(folder: Path) -> None:
    (folder / "cache").mkdir()
    torch.save(Evil(), folder / "cache" / "weights.PT")


def half(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return damage


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pickle beside": (lambda f: (f / "extra.pkl").write_bytes(pickle.dumps(Evil())), "can run code"),
    "a pickle as weights": (
        lambda f: (f / "weights-1.safetensors").write_bytes(pickle.dumps(Evil())), "damaged"),
    "torch's pickle as weights": (lambda f: torch.save(Evil(), f / "weights-1.safetensors"), "damaged"),
    "a link to elsewhere": (outside, "points outside"),
    "a path as a seed": (edit(lambda a: a.update(seeds=["../../etc"])), "damaged"),
    "no seeds": (edit(lambda a: a.update(seeds=[])), "damaged"),
    "a seed twice": (edit(lambda a: a.update(seeds=[1, 1])), "damaged"),
    "a huge width": (edit(lambda a: a["settings"].update(width=10**9)), "too large"),
    "a billion layers": (edit(lambda a: a["settings"].update(layers=10**9)), "too large"),
    "huge features": (edit(lambda a: a["spec"].update(features=10**12)), "do not fit"),
    "another width": (edit(lambda a: a["settings"].update(width=16)), "do not fit"),
    "an unknown featuriser": (edit(lambda a: a.update(featuriser={"kind": "shell"})), "damaged"),
    "features of another version": (
        edit(lambda a: a.update(featuriser={"kind": "smiles", "version": 0})), "fit the model again"),
    "features of no version": (edit(lambda a: a.update(featuriser={"kind": "smiles"})), "damaged"),
    "weights that are no numbers": (not_numbers, "not all numbers"),
    "a pickle in a folder": (hidden, "can run code"),
    "cut weights": (half("weights-2.safetensors"), "damaged or cut short"),
    "a cut gauge": (half("shift.safetensors"), "damaged or cut short"),
    "cut report data": (half("report.json"), "damaged"),
    "report data of another kind": (lambda f: (f / "report.json").write_text("[]"), "damaged"),
    "a gauge of other shapes": (shifted(lambda t: t.update(threshold=torch.ones(7))), "does not fit"),
    "a gauge without a mean": (shifted(lambda t: t.pop("features.mean")), "does not fit"),
    "a gauge of other numbers": (shifted(lambda t: t.update(seen=torch.ones(3))), "does not fit"),
    "a gauge of NaN": (shifted(lambda t: t["threshold"].fill_(torch.nan)), "does not fit"),
    "a gauge with an endless spread": (shifted(lambda t: t["size.std"].fill_(torch.inf)), "does not fit"),
    "a gauge with a threshold of 0": (shifted(lambda t: t["threshold"].fill_(0)), "does not fit"),
    "a link to itself": (lambda f: (f / "loop").symlink_to("loop"), "leads back to itself"),
    "a deep description": (lambda f: (f / "model.json").write_text("[" * 10**5), "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_hostile_folder_is_refused(
    damage: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    spoil, says = DAMAGES[damage]
    spoil(folder)
    with pytest.raises(CigaError, match=says):
        Model.load(folder)
    assert not (tmp_path / "pwned").exists()


def test_a_folder_of_the_first_version_still_loads(tmp_path: Path) -> None:
    """Its report data was called story.json, and it named no plugins."""
    model = toy_model()
    model.save(tmp_path / "old")
    (tmp_path / "old" / "report.json").rename(tmp_path / "old" / "story.json")
    edit(lambda about: about.pop("plugins"))(tmp_path / "old")
    loaded = Model.load(tmp_path / "old")
    assert loaded.report_data["scores"] == json.loads(json.dumps(model.report_data))["scores"]
    assert loaded.method_name == "ciga-v2"
    assert loaded.method.extracts
