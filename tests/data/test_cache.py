"""Raw files are found, checked, downloaded or asked for; built splits come back equal, or are built again."""

from __future__ import annotations

import hashlib
import http.server
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from ciga.data.cache import cache_folder, cache_home, cached, find_raw, raw_file, read_index
from ciga.errors import CigaError
from ciga.graphs.splits import Splits, Task
from ciga.graphs.store import GraphStore


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CIGA_DATA", str(tmp_path / "data"))
    return tmp_path


def small(value: float = 1.0) -> Splits:
    def store(count: int) -> GraphStore:
        pointer = torch.arange(count + 1)
        x = torch.full((count, 2), value) + torch.arange(count)[:, None]
        columns = {"note": [f"ü{i}" for i in range(count)], "year": torch.arange(count)}
        nothing = torch.zeros(2, 0, dtype=torch.int32)
        y = torch.arange(count) % 2
        return GraphStore(x, nothing, pointer, torch.zeros(count + 1, dtype=torch.long), y, columns=columns)

    return Splits(
        {"train": store(4), "ood_test": store(2)}, Task(2, "mcc", ("no", "yes")), {"about": "a test"}
    )


class Builder:
    def __init__(self, splits: Splits) -> None:
        self.splits, self.calls = splits, 0

    def __call__(self) -> Splits:
        self.calls += 1
        return self.splits


def test_the_second_load_comes_from_the_cache_and_is_equal(homes: Path) -> None:
    build = Builder(small())
    first = cached("thing", {"seed": 1}, [], build)
    assert cache_folder("thing", {"seed": 1}).is_dir()
    second = cached("thing", {"seed": 1}, [], build)
    assert build.calls == 1
    assert first.fingerprint() == second.fingerprint() == small().fingerprint()
    assert second.task == Task(2, "mcc", ("no", "yes"))
    assert dict(second.notes) == {"about": "a test"}
    assert second.train.columns["note"] == ["ü0", "ü1", "ü2", "ü3"]
    assert [p.name for p in cache_home().iterdir()] == [cache_folder("thing", {"seed": 1}).name], (
        "temporary files left"
    )


def test_other_options_and_other_content_are_other_entries(tmp_path: Path) -> None:
    source = tmp_path / "raw.txt"
    source.write_text("one")
    build = Builder(small())
    cached("thing", {"seed": 1}, [source], build)
    cached("thing", {"seed": 2}, [source], build)
    assert build.calls == 2
    source.write_text("two!")
    cached("thing", {"seed": 1}, [source], build)
    assert build.calls == 3
    source.write_text("one")
    cached("thing", {"seed": 1}, [source], build)
    assert build.calls == 3, "the content counts, not the time"


def test_refresh_builds_again() -> None:
    cached("thing", {}, [], Builder(small(1)))
    fresh = cached("thing", {}, [], Builder(small(2)), refresh=True)
    assert fresh.fingerprint() == small(2).fingerprint()
    assert cached("thing", {}, [], Builder(small(3))).fingerprint() == small(2).fingerprint()


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "index", "swap"])
def test_a_damaged_entry_is_built_again_with_a_warning(damage: str) -> None:
    cached("thing", {}, [], Builder(small()))
    folder = cache_folder("thing", {})
    tensors, index = folder / "train.safetensors", folder / "splits.json"
    if damage == "flip":
        raw = bytearray(tensors.read_bytes())
        raw[-3] ^= 1
        tensors.write_bytes(raw)
    elif damage == "cut":
        tensors.write_bytes(tensors.read_bytes()[:-20])
    elif damage == "remove":
        tensors.unlink()
    elif damage == "swap":
        tensors.write_bytes((folder / "ood_test.safetensors").read_bytes())
    else:
        index.write_text(index.read_text().replace("a test", "a lie!"))
    build = Builder(small())
    with pytest.warns(UserWarning, match="damaged"):
        again = cached("thing", {}, [], build)
    assert build.calls == 1
    assert again.fingerprint() == small().fingerprint()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cached("thing", {}, [], build)
    assert read_index(folder)["notes"] == {"about": "a test"}


def test_two_builders_at_once_both_get_whole_data() -> None:
    barrier = threading.Barrier(4)
    results: list[str] = []

    def build() -> Splits:
        barrier.wait(timeout=20)
        return small()

    def work() -> None:
        results.append(cached("thing", {}, [], build).fingerprint())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert results == [small().fingerprint()] * 4
    assert len(list(cache_home().iterdir())) == 1


def test_a_build_that_fails_leaves_nothing() -> None:
    def build() -> Splits:
        raise CigaError("no")

    with pytest.raises(CigaError, match="no"):
        cached("thing", {}, [], build)
    assert not cache_folder("thing", {}).exists()


def test_without_a_place_for_the_cache_the_data_is_still_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CIGA_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="could not be cached"):
        splits = cached("thing", {}, [], Builder(small()))
    assert splits.fingerprint() == small().fingerprint()


def test_a_missing_file_is_asked_for(homes: Path) -> None:
    assert find_raw("some/file.txt") is None
    with pytest.raises(CigaError) as error:
        raw_file("some/file.txt", source="the attic")
    assert "file.txt" in str(error.value)
    assert "the attic" in str(error.value)
    assert str(homes / "data" / "some") in str(error.value)


def test_a_file_that_is_there_is_checked(homes: Path) -> None:
    path = homes / "data" / "file.txt"
    path.parent.mkdir()
    path.write_text("hello")
    right = hashlib.sha256(b"hello").hexdigest()
    assert raw_file("file.txt", sha256=right, source="x") == path == find_raw("file.txt")
    path.write_text("hell")
    with pytest.raises(CigaError, match="cut short or altered"):
        raw_file("file.txt", sha256=right, source="x")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    site = tmp_path / "site"
    site.mkdir()
    (site / "file.txt").write_text("hello")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(site))
    ) as http_server:
        threading.Thread(target=http_server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http_server.server_port}"
        http_server.shutdown()


def test_a_file_is_downloaded_and_its_checksum_verified(server: str, homes: Path) -> None:
    right = hashlib.sha256(b"hello").hexdigest()
    path = raw_file("a/file.txt", url=f"{server}/file.txt", sha256=right, source="x")
    assert path.read_text() == "hello"
    with pytest.raises(CigaError, match="wrong checksum"):
        raw_file("b/file.txt", url=f"{server}/file.txt", sha256="0" * 64, source="the attic")
    assert find_raw("b/file.txt") is None, "a wrong file must not stay"
    with pytest.raises(CigaError, match=r"could not be downloaded .* get none\.txt from the attic"):
        raw_file("none.txt", url=f"{server}/none.txt", source="the attic")
