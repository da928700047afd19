"""A store's file: what is saved is opened, and damage is noticed."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given

from ciga.errors import CigaError
from ciga.graphs.store import FORMAT, GraphStore
from tests.graphs.plain_graphs import (
    assert_store,
    by_property,
    example,
    packed,
    packed_again,
    plain_graphs,
)


@by_property
@given(plain_graphs())
def test_save_and_open(tmp_path_factory, graphs):
    path = tmp_path_factory.mktemp("store") / "graphs.safetensors"
    store = packed(graphs)
    store.save(path)
    opened = GraphStore.open(path)
    assert_store(opened, graphs)
    assert opened.fingerprint() == store.fingerprint()
    for name, tensor in store.tensors().items():
        assert torch.equal(opened.tensors()[name], tensor)
        assert opened.tensors()[name].dtype == tensor.dtype
    opened.save(path)  # over the very file it is mapped from
    assert GraphStore.open(path, verify=True).fingerprint() == store.fingerprint()
    assert_store(opened, graphs)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_tensors_that_share_memory_can_be_saved(tmp_path):
    store = example()
    store.columns["same"] = store.y
    store.columns["reversed"] = store.y.flip(0)
    store.save(tmp_path / "a")
    opened = GraphStore.open(tmp_path / "a")
    assert torch.equal(opened.columns["same"], store.y)
    assert opened.fingerprint() == store.fingerprint()


def test_every_altered_byte_is_noticed(tmp_path):
    """Whatever byte changes, opening fails with our error, or (spaces of the header) gives the same store."""
    path = tmp_path / "graphs"
    store = example()
    store.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    header = 8 + struct.unpack("<Q", content[:8])[0]
    places = [*range(header), *rng.choice(np.arange(header, len(content)), 100, replace=False)]
    refused = []
    for place in places:
        altered = bytearray(content)
        altered[place] ^= int(rng.choice([1, 2, 4, 16, 64]))
        path.write_bytes(altered)
        try:
            opened = GraphStore.open(path)
        except CigaError as error:
            refused.append(str(error))
        else:
            assert packed_again(opened) == store.fingerprint(), f"byte {place} changed unnoticed"
    assert len(refused) > 0.9 * len(places)
    assert all(str(path) in message for message in refused)


def test_every_truncated_file_is_noticed(tmp_path):
    path = tmp_path / "graphs"
    example().save(path)
    content = path.read_bytes()
    for length in [*range(0, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(CigaError, match="damaged"):
            GraphStore.open(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(CigaError, match="damaged"):
        GraphStore.open(path)


EMPTY = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}


def head(value: Any) -> bytes:
    text = json.dumps(value).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 64,
        pickle.dumps({"x": [1, 2, 3]}),
        b"PK\x03\x04" + b"\0" * 100,
        head([1, 2]),
        head("text"),
        head({"x": 3}),
        head({"x": {"dtype": "F32"}}),
        head({"x": {"dtype": "F32", "shape": [], "data_offsets": [0]}}),
        head({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}) + b"\0" * 8,
        head({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}) + b"\0" * 4,
        head({"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 4]}}) + b"\0" * 4,
        head({"x": {"dtype": "F32", "shape": ["a"], "data_offsets": ["0", 4]}}) + b"\0" * 4,
        head({"x": {"dtype": "C64", "shape": [1], "data_offsets": [0, 4]}}) + b"\0" * 4,
        head({"__metadata__": 5}),
        head({"__metadata__": {"format": FORMAT}}),
        head({"__metadata__": {"format": FORMAT}, "text.a": EMPTY}),
        head({"__metadata__": {"format": FORMAT}, "text.a": EMPTY, "ends.a": EMPTY}),
        head({"__metadata__": {"format": "something else"}}),
    ],
)  # fmt: skip
def test_files_that_are_no_stores_are_refused(tmp_path, content):
    path = tmp_path / "graphs"
    path.write_bytes(content)
    with pytest.raises(CigaError) as caught:
        GraphStore.open(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CigaError, match="There is no file"):
        GraphStore.open(tmp_path / "nothing")


def test_opening_maps_the_file_and_reads_little(tmp_path):
    path = tmp_path / "large"
    nodes = 1_000_000
    x = torch.zeros(nodes, 16)  # 64 MB
    ptr = torch.tensor([0, nodes])
    GraphStore(x, torch.zeros(2, 0), ptr, torch.tensor([0, 0]), torch.tensor([1])).save(path)
    del x
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("memory is read from /proc/self/status, which this system does not have")

    def resident() -> int:
        return next(int(s.split()[1]) for s in status.read_text().splitlines() if s.startswith("VmRSS"))

    before = resident()
    store = GraphStore.open(path, verify=False)
    assert resident() - before < 16_000  # kB
    assert str(path) in Path("/proc/self/maps").read_text()
    assert store.num_nodes.tolist() == [nodes]
    assert float(store.x[-1].sum()) == 0


def test_a_large_file_is_verified_on_request_only(tmp_path, monkeypatch):
    path = tmp_path / "graphs"
    store = example()
    store.save(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr("ciga.graphs.store.VERIFY_BELOW", 0)
    GraphStore.open(path)
    with pytest.raises(CigaError, match="checksum"):
        GraphStore.open(path, verify=True)
