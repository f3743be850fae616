"""A disk that keeps only what was told to it, and the points at which its user can die.

`brokers.adapters.files` works on a real folder here; every call that it makes on the way to the
disk is a point with a name. After a death the folder is left as it is, as after `kill -9`; or
only what was fsynced is left in it, as after a loss of power.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters import files


class Died(BaseException):
    """Dead from this point on, as after `kill -9`: nobody catches it but who plays the death."""


class Deaths:
    """Names the points that are passed, and dies at some of them.

    Args:
        at: names of points.
        again: after how many further points it dies once more; 0 for not.
    """

    def __init__(self, at: Iterable[str] = (), again: int = 0) -> None:
        self.passed: list[str] = []
        self.doing = "start"
        self._at = frozenset(at)
        self._again = again
        self._next = -1
        self._seen: Counter[str] = Counter()

    def point(self, what: str) -> None:
        """Pass a point, or die there."""
        name = f"{self.doing}: {what}"
        self._seen[name] += 1
        if self._seen[name] > 1:
            name = f"{name} ({self._seen[name]})"
        self.passed.append(name)
        self._next -= 1
        if name in self._at or self._next == 0:
            self._next = self._again if name in self._at else -1
            raise Died(name)


class FragileDisk:
    """Stands in the place of the operating system for the files of one folder.

    Args:
        folder: the folder.
        deaths: told of every call.
        lies: whether it says that it wrote names down, and does not.
    """

    def __init__(self, folder: Path, deaths: Deaths, *, lies: bool = False) -> None:
        self.folder = folder
        self.deaths = deaths
        self._lies = lies
        self._last = ""
        self._open: dict[int, Path] = {}
        self._synced: dict[Path, bytes] = {}  # content that would survive, where its name does
        self._named: dict[Path, bytes] = {}  # names that would survive, with their content

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Have `brokers.adapters.files` work on this disk."""
        patch.setattr(files, "os", self)
        patch.setattr(files.Path, "replace", self._replace_of(Path.replace))

    def lose_power(self) -> None:
        """Leave in the folder only what was told to the disk."""
        for path in self._files():
            if path not in self._named:
                path.unlink()
        for path, data in self._named.items():
            path.write_bytes(data)
        self._synced = dict(self._named)

    def keep_all(self) -> None:
        """The process is dead and the machine is not: everything written is there."""
        self._synced = self._named = {path: path.read_bytes() for path in self._files()}

    def _files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]

    # what `files` calls

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        """Open a file or a folder."""
        if not flags & os.O_DIRECTORY:
            self.deaths.point(f"create {_plain(path)}")
        descriptor = os.open(path, flags, mode)
        self._open[descriptor] = path
        return descriptor

    def fdopen(self, descriptor: int, mode: str) -> _Handle:
        """A file to write to."""
        return _Handle(self, descriptor, os.fdopen(descriptor, mode))

    def fsync(self, descriptor: int) -> None:
        """Tell a file's content, or a folder's names, to the disk."""
        path = self._open[descriptor]
        if path.is_dir():
            self.deaths.point(f"fsync the folder of {self._last}")
            if self._lies:
                return
            inside = [each for each in self._files() if each.parent == path]
            others = {each: data for each, data in self._named.items() if each.parent != path}
            self._named = {**others, **{each: self._synced.get(each, b"") for each in inside}}
            return
        self.deaths.point(f"fsync {_plain(path)}")
        self._synced[path] = path.read_bytes()

    def _replace_of(self, real: Any) -> Any:
        disk = self

        def replace(path: Path, target: Path) -> Path:
            disk.deaths.point(f"rename to {_plain(target)}")
            disk._last = _plain(target)
            disk._synced[target] = disk._synced.pop(path, b"")
            return real(path, target)  # type: ignore[no-any-return]

        return replace


class _Handle:
    """A file that is written in two halves."""

    def __init__(self, disk: FragileDisk, descriptor: int, real: Any) -> None:
        self._disk, self._descriptor, self._real = disk, descriptor, real

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self._real.close()

    def write(self, data: bytes) -> None:
        """Write; whoever dies in the middle leaves half of it."""
        name = _plain(self._disk._open[self._descriptor])
        self._disk.deaths.point(f"write {name}")
        self._real.write(data[: len(data) // 2])
        self._real.flush()
        self._disk.deaths.point(f"in the middle of writing {name}")
        self._real.write(data[len(data) // 2 :])

    def flush(self) -> None:
        """Give it to the operating system."""
        self._real.flush()

    def fileno(self) -> int:
        """Its descriptor."""
        return self._descriptor


def _plain(path: Path) -> str:
    return path.name.removesuffix(".new")
