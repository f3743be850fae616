"""Which of two authorities serves: one file that both reach, a lock on it and a number in it.

Who serves holds the lock, which the kernel takes back with the process, however that ends.
Whoever takes it next raises the number, the authority's epoch, and writes it into its journal.
One whose journal knows only an older epoch was overtaken: it refuses to serve, also when nobody
else does just then.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from tasks.authority.files import StateError

NAME: Final = "fence"
_DIGITS: Final = 20


class Fence:
    """The file, locked or not.

    Args:
        path: where both authorities reach it; its file system must know locks.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def take(self) -> bool:
        """Lock it unless somebody else has; returns whether it is ours.

        Raises:
            StateError: it cannot be reached.
        """
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StateError(f"{self.path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    @property
    def epoch(self) -> int:
        """The epoch of whoever took it last, 0 before the first; only while it is ours."""
        data = os.pread(self._descriptor, _DIGITS, 0)
        if not data:
            return 0
        if len(data) != _DIGITS or not data.isdigit():
            raise StateError(f"{self.path} holds no epoch")
        return int(data)

    def raise_to(self, epoch: int) -> None:
        """Write a new epoch down; only while it is ours."""
        os.pwrite(self._descriptor, f"{epoch:0{_DIGITS}}".encode(), 0)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let somebody else take it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
