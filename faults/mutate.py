"""Damage to the bytes of a file: cut, flipped, swapped, nested, and numbers replaced by awkward ones."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable

NUMBERS = [
    b"-1",
    b"0",
    b"1",
    b"7",
    b"255",
    b"65536",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"1" + b"0" * 40,
    b"1e19",
    b"1e39",
    b"1e309",
    b"-1e309",
    b"nan",
    b"NaN",
    b"inf",
    b"-Infinity",
    b"1.7",
    b"0x10",
    b"1_000",
    b"",
    b"1j",
    b"true",
    b"null",
    b'"1"',
    b"[]",
    b"{}",
    b"1000000000",
]
PIECES = [
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\r\n",
    b"\n\n\n",
    b'"',
    b"'",
    b",",
    b"\t",
    b";",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"\\",
    b"\xc3\x28",
    "\u202e\u0000é漢".encode(),
    b"[" * 5000,
    b'{"a":' * 3000,
    b"(" * 2000,
    b"A" * 70_000,
    b"..",
    b"../../etc/passwd",
    b"=1+1",
    b"</script>",
    b"%s%n",
    b"NaN",
    b"Infinity",
    b"C" * 400,
]

Mutation = Callable[[bytes, random.Random], bytes]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """One to four kinds of damage, one after the other; inside of an archive where it is one."""
    inside = _unpacked(content) if rng.random() < 0.6 else None
    if inside is not None:
        return inside(lambda raw: _damage(raw, rng), rng)
    return _damage(content, rng)


def _damage(content: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice([1, 1, 1, 2, 3, 4])):
        content = rng.choice(MUTATIONS)(content, rng)[: 2**22]
    return content


def _spot(content: bytes, rng: random.Random) -> int:
    return rng.randrange(len(content) + 1)


def _flip(content: bytes, rng: random.Random) -> bytes:
    out = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _set(content: bytes, rng: random.Random) -> bytes:
    at = _spot(content, rng)
    return (
        content[:at]
        + bytes(rng.choice([0, 0x7F, 0x80, 0xFF, 0x20, 0x0A]) for _ in range(rng.choice([1, 4, 8])))
        + content[at + 8 :]
    )


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: _spot(content, rng)]


def _remove(content: bytes, rng: random.Random) -> bytes:
    at = _spot(content, rng)
    return content[:at] + content[at + rng.choice([1, 2, 5, 30, 300]) :]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    at = _spot(content, rng)
    return content[:at] + content[at : at + rng.choice([5, 50, 500])] * rng.choice([2, 3, 20]) + content[at:]


def _insert(content: bytes, rng: random.Random) -> bytes:
    at = _spot(content, rng)
    return content[:at] + rng.choice(PIECES) + content[at:]


def _number(content: bytes, rng: random.Random) -> bytes:
    places = list(re.finditer(rb"-?\d+(\.\d+)?", content[:200_000]))
    if not places:
        return _flip(content, rng)
    for place in sorted(
        rng.sample(places, min(len(places), rng.choice([1, 1, 2, 10]))), key=lambda m: -m.start()
    ):
        content = content[: place.start()] + rng.choice(NUMBERS) + content[place.end() :]
    return content


def _word(content: bytes, rng: random.Random) -> bytes:
    places = list(re.finditer(rb"[A-Za-z_]{2,}", content[:200_000]))
    if not places:
        return _remove(content, rng)
    one, two = rng.choice(places), rng.choice(places)
    return content[: one.start()] + rng.choice([two[0], b"", b"x", b"null"]) + content[one.end() :]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    rng.choice(
        [
            rng.shuffle,
            lambda some: some.sort(),
            lambda some: some.reverse(),
            lambda some: some.pop(rng.randrange(len(some))),
        ]
    )(lines)
    return b"\n".join(lines)


def _whole(content: bytes, rng: random.Random) -> bytes:
    return rng.choice(
        [
            b"",
            b"\n",
            b"null",
            b"[]",
            b"{}",
            b"0",
            b"\x80\x04N.",
            b"PK\x03\x04",
            b"\x1f\x8b",
            b"PAR1",
            content * 2,
        ]
    )


def _length(content: bytes, rng: random.Random) -> bytes:
    """A field of four or eight bytes, as headers have for lengths."""
    at = rng.randrange(max(min(len(content), 256), 1))
    form, top = rng.choice([("<I", 2**32), (">I", 2**32), ("<Q", 2**64), ("<H", 2**16)])
    value = rng.choice([0, 1, top // 2, top - 1, top // 2 + 1, len(content), 10**9 % top])
    return content[:at] + struct.pack(form, value) + content[at + struct.calcsize(form) :]


MUTATIONS: list[Mutation] = [
    _flip,
    _set,
    _cut,
    _remove,
    _repeat,
    _insert,
    _number,
    _number,
    _word,
    _lines,
    _whole,
    _length,
]


# ---------------------------------------------------------------- archives: damaged inside, whole outside

Change = Callable[[bytes], bytes]
Repack = Callable[[Change, random.Random], bytes]


def _unpacked(content: bytes) -> Repack | None:
    if content[:2] == b"\x1f\x8b":
        return lambda change, rng: gzip.compress(change(gzip.decompress(content)), 1)
    if content[:2] == b"PK":
        return lambda change, rng: _repacked(content, change, rng)
    if len(content) > 16 and content[8:9] == b"{" and struct.unpack("<Q", content[:8])[0] < len(content):
        return lambda change, rng: _reheaded(content, change)
    return None


def _repacked(content: bytes, change: Change, rng: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        victim = rng.choice(names)
        for name in names:
            raw = old.read(name)
            new.writestr(name, change(raw) if name == victim else raw)
    return out.getvalue()


def _reheaded(content: bytes, change: Change) -> bytes:
    """safetensors: the header damaged, and its length put right."""
    length = struct.unpack("<Q", content[:8])[0]
    header = change(content[8 : 8 + length])
    with contextlib.suppress(ValueError, RecursionError):
        header = json.dumps(json.loads(header)).encode()
    return struct.pack("<Q", len(header)) + header + content[8 + length :]
