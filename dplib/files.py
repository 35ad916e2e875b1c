"""Files that appear whole or not at all, and locks that end with the process which holds them."""

import contextlib
import fcntl
import os
import platform
import time
import uuid
from collections.abc import Iterator
from pathlib import Path


def publish(path: Path, text: str) -> None:
    """Write a file in one step: it appears whole, or not at all."""
    part = path.with_name(f".{path.name[:80]}.{uuid.uuid4().hex[:8]}")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, *, blocking: bool) -> Iterator[int]:
    """An exclusive lock that ends with this process, however it ends; BlockingIOError where another has it.

    The file may be unlinked by its holder: whoever then has the lock of a file without a name tries again.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
            if os.fstat(handle).st_nlink:  # else its holder has unlinked it, and another file may have its name
                yield handle
                return
        finally:
            os.close(handle)


def sign(handle: int) -> None:
    """Write into the file of a lock that one has who has it, for those who meet it."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()} on {platform.node()} since {time.ctime()}".encode(), 0)
