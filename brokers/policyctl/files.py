"""Organisations as files on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from brokers.policyctl.api import Files
from brokers.policyctl.errors import Exit, Stop

SUFFIXES = frozenset({".yaml", ".yml"})
STDIN = "-"


def read(names: Iterable[str]) -> Files:
    """The files, those of a folder in the order of their names; `-` is standard input.

    Raises:
        Stop: one cannot be read, or there is none.
    """
    found = [(name, _bytes(name)) for given in names for name in _within(given)]
    if not found:
        raise Stop(Exit.ERROR, "there are no files (*.yaml) there")
    return found


def _within(given: str) -> Iterator[str]:
    path = Path(given)
    if given == STDIN or not path.is_dir():
        yield given
        return
    for each in sorted(path.rglob("*")):
        if each.suffix in SUFFIXES and each.is_file():
            yield str(each)


def _bytes(name: str) -> bytes:
    if name == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Stop(Exit.ERROR, f"{name} cannot be read: {error.strerror}") from error


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        Stop: it cannot be written.
    """
    try:
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(partial).replace(path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Stop(Exit.ERROR, f"{path} cannot be written: {error.strerror}") from error
