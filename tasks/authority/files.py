"""Files of the authority: private, whole or absent, and on disk before anything is answered."""

from __future__ import annotations

import os
from pathlib import Path


class StateError(Exception):
    """The state folder cannot be used; the message says what to do."""


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file that is whole or absent, whatever happens meanwhile."""
    partial = path.with_name(f".{path.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as handle:
        os.fchmod(handle.fileno(), mode)
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Have what was created or renamed in a folder survive a power failure."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_private(path: Path) -> bytes:
    """Read a file that nobody else may read; raises StateError when it is missing or open."""
    try:
        mode = path.stat().st_mode & 0o077
        data = path.read_bytes()
    except OSError as error:
        raise StateError(f"{path} cannot be read: run `init` first") from error
    if mode:
        raise StateError(f"{path} is readable by others: chmod 600 it")
    return data
