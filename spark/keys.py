"""Keys of a run: sealed in the snapshot, opened where they are used.

A run has one job key in a file of its own. Only the path of that file travels to
Spark's workers; the encoding keys stand sealed under the job key in `snapshot.json`.
So no key is in an argument, a setting, a column, a closure or an event log.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from policyengine.errors import PortcullisError
from policyengine.primitives import aead
from policyengine.primitives.canonical import b64, unb64
from policyengine.primitives.rand import SYSTEM_RANDOM
from spark.errors import PipelineError

JOB_KEY_SIZE = 32


def create_job_key(path: Path) -> bytes:
    """Make a new job key and write it to a new file that only its owner may read.

    Returns:
        The key, 32 bytes.

    Raises:
        FileExistsError: there is a file already; a job key is never used twice.
    """
    key = SYSTEM_RANDOM.token(JOB_KEY_SIZE)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key


def read_job_key(path: Path) -> bytes:
    """Read a job key.

    Raises:
        PipelineError: the file is missing, has another size or is open to others.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(JOB_KEY_SIZE + 1)
    except OSError as error:
        raise PipelineError(f"the job key `{path}` cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise PipelineError(f"the job key `{path}` must be a file of mode 0600")
    if len(key) != JOB_KEY_SIZE:
        raise PipelineError(f"the job key `{path}` must hold {JOB_KEY_SIZE} bytes")
    return key


def seal_encoding_key(job_key: bytes, key: bytes, *, agent: str, epoch: int) -> str:
    """Seal an agent's encoding key for the workers of one run (base64)."""
    return b64(aead.seal(job_key, key, aad=_purpose(agent, epoch), random=SYSTEM_RANDOM))


def open_encoding_key(job_key: bytes, sealed: str, *, agent: str, epoch: int) -> bytes:
    """Open an agent's encoding key.

    Raises:
        PipelineError: the job key is another one, or the sealed key was changed.
    """
    try:
        return aead.open_(job_key, unb64(sealed), aad=_purpose(agent, epoch))
    except PortcullisError:
        message = f"the job key does not open the encoding key of agent `{agent}`"
        raise PipelineError(message) from None


def _purpose(agent: str, epoch: int) -> bytes:
    return f"recompute|{agent}|{epoch}".encode()
