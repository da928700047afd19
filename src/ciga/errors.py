"""What a user did wrong, said in one sentence that tells what to do."""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable


class CigaError(Exception):
    """A mistake of the user's or of their data: the command line prints it without a traceback."""


class UsageError(CigaError):
    """A wrong name or argument (exit code 2)."""


class FileError(CigaError, OSError):
    """A file or folder that cannot be read or written: its sentence names it, the reason and the cure."""


class MissingExtra(CigaError):
    """A heavy dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"This needs {package}: install it with  pip install 'ciga[{extra}]'.")

    def __reduce__(self) -> tuple[type[CigaError], tuple[object, ...]]:
        # From a worker process it arrives as its sentence: it cannot be made again from that alone.
        return CigaError, self.args


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """An error for a name nobody knows, with the nearest known ones."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known) or 'none'}."
    return UsageError(f"There is no {kind} called '{name}'. {hint}")


def os_sentence(error: OSError, path: str | os.PathLike[str] | None = None) -> str:
    """What the operating system refused, and what to do about it, in one sentence."""
    name = path if path is not None else error.filename
    where = "A file" if name is None else os.fsdecode(name)
    code = errno.errorcode.get(error.errno or 0, "")
    if code in _REFUSALS:
        return _REFUSALS[code].format(where=where)
    reason = error.strerror or str(error) or type(error).__name__
    return f"{where} cannot be used ({reason}): check the path and the disk, then run the same command again."


_REFUSALS = {
    "ENOSPC": "{where} cannot be written: the disk is full. Make room, then run the same command again.",
    "EDQUOT": "{where} cannot be written: your disk quota is used up. Make room, then run the same command "
    "again.",
    "EFBIG": "{where} cannot be written: it is larger than files may be here. Raise the limit (ulimit -f) or "
    "choose another disk.",
    "EROFS": "{where} cannot be written: its disk is read-only. Choose another place.",
    "EACCES": "{where} may not be used: permission is denied. Choose another place, or change its "
    "permissions.",
    "EPERM": "{where} may not be used: permission is denied. Choose another place, or change its "
    "permissions.",
    "EISDIR": "{where} is a folder, and a file is needed there: choose another name.",
    "ENOTDIR": "{where} cannot be reached: a part of its path is a file. Choose another path.",
    "EEXIST": "{where} is a file, and a folder is needed there: choose another name.",
    "ENOENT": "There is no file {where}.",
    "ELOOP": "{where} is a link that leads back to itself: remove it.",
    "ENAMETOOLONG": "{where} is too long for the name of a file: choose a shorter one.",
    "EMFILE": "{where} cannot be opened: too many files are open. Raise the limit (ulimit -n).",
    "EBUSY": "{where} is in use, or a disk is mounted there: choose a folder inside it.",
    "EIO": "{where} cannot be used: the disk reports a fault. Check the disk.",
}


def sentence(error: BaseException) -> str | None:
    """What to tell a user about an error that is not a mistake in the program; None where it may be one."""
    if isinstance(error, CigaError):
        return str(error)
    if isinstance(error, OSError):
        return os_sentence(error)
    if no_memory(error):
        return (
            "There is not enough memory for this: close other programs, or use less data, a smaller width or "
            "a smaller batch_size."
        )
    return None


def no_memory(error: BaseException) -> bool:
    """Whether an error says that the memory was too small."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)


#: How torch says it.
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


def counted(number: int, one: str, many: str = "") -> str:
    """A number in a sentence: `1 row`, `1,513 rows`; `many` where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
