"""Files are whole or absent, and tensors come back bit for bit."""

from __future__ import annotations

import json
import os
import stat
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from ciga.errors import CigaError, FileError
from ciga.files import (
    atomic,
    content_hash,
    map_tensors,
    read_tensors,
    remove_leftovers,
    scratch,
    whole_folder,
    write_json,
    write_tensors,
)
from faults.strike import KILLED, in_child

TENSORS = {
    "floats": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "doubles": torch.tensor([0.1, float("nan"), float("inf")], dtype=torch.float64),
    "bytes": torch.tensor([1, 2, 3], dtype=torch.uint8),
    "longs": torch.arange(5) * -(2**40),
    "ints": torch.arange(3, dtype=torch.int32),
    "flags": torch.tensor([True, False]),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "empty": torch.zeros(0, 7),
    "scalar": torch.tensor(2.5),
}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file.json"
    write_json(file, {"a": 1})

    def fail() -> None:
        with atomic(file) as temporary:
            temporary.write_text("half of it")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert json.loads(file.read_text()) == {"a": 1}
    assert [p.name for p in file.parent.iterdir()] == ["file.json"]


def test_a_new_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    write_json(tmp_path / "ours", 1)
    modes = [stat.S_IMODE(os.stat(tmp_path / n).st_mode) for n in ("plain", "ours")]
    assert modes[0] == modes[1]


def test_tensors_come_back(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t.safetensors", TENSORS, {"what": "ever"})
    found, meta = read_tensors(tmp_path / "t.safetensors")
    assert meta == {"what": "ever"}
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name].nan_to_num(), tensor.nan_to_num())


def test_tensors_that_share_memory_or_are_not_contiguous(tmp_path: Path) -> None:
    base = torch.arange(12.0).view(3, 4)
    written = {"whole": base, "again": base, "row": base[1], "turned": base.T, "rest": base.view(-1)[2:]}
    write_tensors(tmp_path / "t.safetensors", written, {})
    found, _ = read_tensors(tmp_path / "t.safetensors")
    assert all(torch.equal(found[k], v) for k, v in written.items())


def test_the_hash_sees_names_types_shapes_bytes_and_notes() -> None:
    one = {"a": torch.arange(6)}
    variants: list[tuple[dict[str, Any], dict[str, str]]] = [
        (one, {}),
        ({"b": torch.arange(6)}, {}),
        ({"a": torch.arange(6).view(2, 3)}, {}),
        ({"a": torch.arange(6).int()}, {}),
        ({"a": torch.arange(1, 7)}, {}),
        ({**one, "b": torch.zeros(0)}, {}),
        (one, {"note": "x"}),
    ]
    assert len({content_hash(t, m) for t, m in variants}) == len(variants)
    two = {"a": torch.ones(2), "b": torch.zeros(2)}
    assert content_hash(two, {}) == content_hash(dict(reversed(two.items())), {})


def raw_file(header: Any, body: bytes = b"\0" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc",
        struct.pack("<Q", 2**63),
        raw_file(b"not json"),
        raw_file(b"\xff\xfe"),
        raw_file([1, 2]),
        raw_file({"t": 3}),
        raw_file({"t": {"dtype": "F32", "shape": [2]}}),
        raw_file({"t": {"dtype": "OBJ", "shape": [2], "data_offsets": [0, 8]}}),
        raw_file({"t": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}),
        raw_file({"t": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}),
        raw_file({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 80]}}),
        raw_file({"t": {"dtype": "F32", "shape": [4], "data_offsets": [-8, 8]}}),
        raw_file({"t": {"dtype": "F32", "shape": "x", "data_offsets": [0, 8]}}),
        raw_file({"t": {"dtype": "F32", "shape": [2], "data_offsets": ["a", "b"]}}),
        raw_file({"__metadata__": 5, "t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}),
    ],
)
def test_hostile_files_get_a_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.safetensors"
    file.write_bytes(content)
    for read in (read_tensors, map_tensors):
        with pytest.raises(CigaError, match=r"bad\.safetensors is damaged"):
            read(file)


def test_a_file_without_a_checksum_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "bare.safetensors"
    file.write_bytes(raw_file({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}))
    assert torch.equal(map_tensors(file)[0]["t"], torch.zeros(2))
    with pytest.raises(CigaError, match="checksum"):
        read_tensors(file)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CigaError, match="There is no file"):
        read_tensors(tmp_path / "nothing")


def test_equal_tensors_are_equal_files_also_for_the_library(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    notes = {word: word * 2 for word in ("one", "two", "three", "four", "five", "sechs", "sept")}
    contents = set()
    for i in range(8):
        file = tmp_path / f"{i}.safetensors"
        write_tensors(file, dict(reversed(TENSORS.items())) if i % 2 else TENSORS, notes)
        contents.add(file.read_bytes())
    assert len(contents) == 1
    theirs = load_file(tmp_path / "0.safetensors")
    assert all(torch.equal(theirs[k].nan_to_num(), v.nan_to_num()) for k, v in TENSORS.items())


@pytest.mark.parametrize("folder", [False, True])
def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path, folder: bool) -> None:
    def work() -> None:
        with whole_folder(tmp_path / "thing") if folder else atomic(tmp_path / "thing"):
            os._exit(KILLED)

    code, _ = in_child(work, place=10**6, below=tmp_path, fault="kill")
    assert code == KILLED
    assert [p.suffix for p in tmp_path.iterdir()] == [".part"]
    write_json(tmp_path / "other.json", 1)
    assert [p.name for p in tmp_path.iterdir()] == ["other.json"]


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    with atomic(tmp_path / "slow") as temporary:
        temporary.write_text("slow")
        remove_leftovers(tmp_path)
        write_json(tmp_path / "quick.json", 1)
    assert (tmp_path / "slow").read_text() == "slow"


def test_a_scratch_folder_of_a_killed_process_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def work() -> None:
        with scratch() as place:
            (place / "news").write_text("x")
            os._exit(KILLED)

    in_child(work, place=10**6, below=tmp_path, fault="kill")
    assert len(list(tmp_path.iterdir())) == 1
    with scratch() as place:
        assert [p.name for p in tmp_path.iterdir()] == [place.name]


def test_refusals_of_the_system_are_one_sentence_with_file_and_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path, says in {
        tmp_path / "folder": "is a folder, and a file is needed",
        tmp_path / "file" / "x": "is a file, and a folder is needed",
        tmp_path / "file" / "x" / "y": "a part of its path is a file",
        tmp_path / ("n" * 300): "choose a shorter one",
        Path("n" * 300): "^n+ is too long",
    }.items():
        with pytest.raises(FileError, match=says) as caught:
            write_json(path, 1)
        assert ".part" not in str(caught.value)
    assert {p.name for p in tmp_path.iterdir()} == {"folder", "file"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_names_the_file_and_keeps_the_old_one(tmp_path: Path) -> None:
    write_json(tmp_path / "file", "old")
    with pytest.raises(FileError, match="the disk is full") as caught, atomic(tmp_path / "file"):
        Path("/dev/full").write_text("x")  # a write that fails names no file
    assert "file cannot be written" in str(caught.value)
    assert json.loads((tmp_path / "file").read_text()) == "old"
