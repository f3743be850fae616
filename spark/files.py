"""Files that are there whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark.errors import PipelineError

_CHUNK = 1 << 20


def sync(path: Path) -> None:
    """Force a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document so that a crash leaves the old file or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(document, file, sort_keys=True, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync(path.parent)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        PipelineError: the file is missing, is not JSON or is not an object.
    """
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise PipelineError(f"`{path}` is missing") from None
    except (OSError, ValueError) as error:
        raise PipelineError(f"`{path}` cannot be read as JSON") from error
    if not isinstance(document, dict):
        raise PipelineError(f"`{path}` is not a JSON object")
    return document


def sha256_of(path: Path) -> str:
    """Hash a file piece by piece; the answer is hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def private_folder(path: Path) -> Path:
    """Create a folder that only its owner may enter, parents included."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def remove(path: Path) -> None:
    """Remove a file or a whole folder, whether it is there or not."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a folder for one process; the lock ends with the process, however it ends.

    Raises:
        PipelineError: another process holds the folder.
    """
    with (folder / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"another run is writing to `{folder}`") from None
        yield
