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

from ciga.errors import CigaError
from ciga.files import atomic, content_hash, map_tensors, read_tensors, write_json, write_tensors

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
