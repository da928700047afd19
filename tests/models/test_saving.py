"""Saving over an older model: whatever happens at whatever moment, the old one or the new one is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ciga.errors import CigaError, UsageError
from ciga.files import recover
from ciga.models.folder import check_free
from ciga.models.model import Model
from faults.strike import KILLED, until_it_succeeds
from tests.small_models import toy_model


@pytest.mark.parametrize("fault", ["kill", "full", "read-only"])
def test_a_model_survives_a_fault_at_any_moment_of_saving_over_it(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "model"
    old, new = toy_model(seeds=2), toy_model(seeds=1)
    old.save(folder)
    outcomes = []
    for place, code, error in until_it_succeeds(lambda: new.save(folder), tmp_path, fault):
        found = Model.load(folder)  # the old one or the new one, whole
        assert found.seeds in ([1, 2], [1]), f"after operation {place}"
        assert code in ((0, KILLED) if fault == "kill" else (0, 1))
        if code == 1:
            assert error.startswith("FileError: "), error
            assert ("disk is full" if fault == "full" else "read-only") in error
            assert str(folder) in error
            assert ".part" not in error
        old.save(folder)  # the same place works again at once
        outcomes.append(code)
    assert len(outcomes) > 8  # several operations were struck
    assert [p.name for p in tmp_path.iterdir()] == ["model"]  # and nothing of them is left


def test_a_model_that_is_new_is_there_only_when_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"
    for _, code, _ in until_it_succeeds(lambda: toy_model(seeds=1).save(folder), tmp_path, "kill"):
        assert (code == 0) == folder.exists()
        check_free(folder)  # so the same command may be given again
    assert Model.load(folder).seeds == [1]


def test_killed_between_the_two_renames_the_old_model_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    toy_model(seeds=1).save(folder)
    os.rename(folder, tmp_path / ".model.ciga-old")
    assert Model.load(folder).seeds == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    recover(folder)
    assert folder.is_dir()


def test_a_place_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CigaError, match="is a file"):
        check_free(tmp_path / "file" / "model")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "notes.txt",
            "holds notes.txt, which is not part of its model and would be deleted with it: move it",
        ),
        ("members/erm/predictions.csv", "holds members/erm/predictions.csv, which is not"),
        ("members/more/weights.safetensors", "holds members/more/weights.safetensors, which is not"),
        ("members/nearest.safetensors", "holds members/nearest.safetensors, which is not"),
        ("old/model.json", "holds old/model.json, which is not"),
    ],
)
def test_what_a_user_put_into_a_model_folder_is_not_deleted(tmp_path: Path, name: str, says: str) -> None:
    folder = tmp_path / "model"
    model = toy_model(seeds=1, rival=True)
    model.save(folder)
    model.save(folder)  # what it wrote itself is no hindrance
    mine = folder / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    for save in (check_free, model.save):
        with pytest.raises(UsageError, match=r"elsewhere, or choose another --out\.$") as refused:
            save(folder)
        assert says in str(refused.value)
    assert mine.read_text() == "mine"


def test_many_files_of_others_are_not_all_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    toy_model(seeds=1).save(folder)
    for i in range(9):
        (folder / f"{i}.csv").write_text("")
    (folder / "data").symlink_to(tmp_path)
    with pytest.raises(UsageError, match=r"holds 0\.csv, 1\.csv, 2\.csv, 3\.csv and 6 more, which are not "):
        check_free(folder)


def test_a_link_to_a_model_stays_a_link(tmp_path: Path) -> None:
    toy_model(seeds=2).save(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    toy_model(seeds=1).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert Model.load(tmp_path / "real").seeds == [1]


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        toy_model(seeds=2).save(tmp_path / name)
    files = sorted(p.name for p in (tmp_path / "one").iterdir())
    for name in files:
        assert len({(tmp_path / folder / name).read_bytes() for folder in ("one", "two", "three")}) == 1, name
