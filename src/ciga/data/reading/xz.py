"""Files packed by xz, opened with a limit on the memory that their headers may ask for.

Twelve bytes of an xz file can ask for a dictionary of four gigabytes, which `lzma.open` takes at once.
"""

from __future__ import annotations

import io
import lzma
from pathlib import Path
from typing import IO, cast

from ciga.data.reading import limits

#: Packed bytes that are read at a time.
PIECE = 1 << 16


def open_xz(path: str | Path, mode: str = "rb") -> IO[bytes]:
    """As `lzma.open`, for reading bytes."""
    return cast(IO[bytes], io.BufferedReader(_Unpacked(Path(path))))


class _Unpacked(io.RawIOBase):
    """The content of one or several xz streams, one after the other."""

    def __init__(self, path: Path) -> None:
        self.packed = path.open("rb")
        self.stream = _stream()
        self.waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        found = b""
        while not found:
            if self.stream.eof:
                rest = (self.stream.unused_data + self.packed.read(PIECE)).lstrip(b"\0")  # padding
                if not rest:
                    return 0
                self.stream, self.waiting = _stream(), rest
            elif self.stream.needs_input and not self.waiting:
                self.waiting = self.packed.read(PIECE)
                if not self.waiting:
                    raise EOFError("it ends before its end mark")
            found = self.stream.decompress(self.waiting, len(buffer))
            self.waiting = b""
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self.packed.close()
        super().close()


def _stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=limits.FLOOR)
