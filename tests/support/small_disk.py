"""A disk that gets full under one agent and nobody else: a real file system, or a real limit.

`tmpfs` is a file system of a few megabytes in a mount namespace of the agent's own, which any user
may make where the system lets users have namespaces; what comes then is ENOSPC. `limit` forbids
the running process to let any file grow (`RLIMIT_FSIZE`); what comes then is EFBIG. `best` says
which of them this machine can do, so that nothing is ever left out.
"""

from __future__ import annotations

import errno
import resource
import shlex
import subprocess
from functools import cache
from io import RawIOBase
from pathlib import Path
from typing import Literal

How = Literal["tmpfs", "limit"]
MEBIBYTE = 2**20
_BALLAST = "ballast"


@cache
def best() -> How:
    """`tmpfs` where a file system can be mounted here, else `limit`."""
    trial = "mount -t tmpfs -o size=64k tmpfs /mnt"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", trial], capture_output=True, check=False, timeout=30
    )
    return "tmpfs" if done.returncode == 0 else "limit"


class SmallDisk:
    """The disk under a folder, for one process and what it starts.

    Args:
        folder: what it holds now, the disk holds then.
        how: see above.
        megabytes: its size, of `tmpfs`.
    """

    def __init__(self, folder: Path, how: How, *, megabytes: int = 40) -> None:
        self.folder, self.how = folder.resolve(), how
        self._size = megabytes

    def command(self, inner: list[str]) -> list[str]:
        """A command that runs another one on this disk; its process is that of the inner one."""
        if self.how == "limit":
            return inner
        place, aside = shlex.quote(str(self.folder)), shlex.quote(f"{self.folder}.before")
        script = (
            f"cp -a {place} {aside} && mount -t tmpfs -o size={self._size}m,mode=700 tmpfs {place}"
            f" && cp -a {aside}/. {place}/ && exec {shlex.join(inner)}"
        )
        return ["unshare", "-rm", "sh", "-c", script]

    def fill(self, pid: int) -> None:
        """Leave no room, not for a byte.

        Args:
            pid: of the process that runs on it.
        """
        if self.how == "limit":
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            return
        with self._seen_by(pid).open("ab", buffering=0) as ballast:
            for size in (MEBIBYTE, 4096, 1):
                self._until_full(ballast, size)

    def free(self, pid: int) -> None:
        """There is room again."""
        if self.how == "limit":
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
            return
        self._seen_by(pid).unlink()

    def _seen_by(self, pid: int) -> Path:
        return Path(f"/proc/{pid}/root{self.folder}") / _BALLAST

    @staticmethod
    def _until_full(ballast: RawIOBase, size: int) -> None:
        try:
            while True:
                ballast.write(bytes(size))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
