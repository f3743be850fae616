"""What a client keeps on its disk about events, encrypted under a key of its own.

The key is derived from the client's private key, so whoever copies the folder without
`keys.json` reads nothing, and whoever has `keys.json` could read the events anyway.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from brokers.client.errors import ProfileError
from policyengine.errors import DecodeError, DecryptionError
from policyengine.primitives import aead
from policyengine.primitives.canonical import dumps, loads, pack
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import SYSTEM_RANDOM

_INFO = b"portcullis/client-at-rest/v1"


class Vault:
    """Seals and opens documents of one client.

    Args:
        key: the client's own private key.
    """

    def __init__(self, key: SealingKey) -> None:
        self._key = derive(key.private, info=_INFO)

    def seal(self, place: str, name: str, document: dict[str, Any]) -> bytes:
        """Encrypt a document for one place (a table) under one name (its row)."""
        aad = pack(place.encode(), name.encode())
        return aead.seal(self._key, dumps(document), aad=aad, random=SYSTEM_RANDOM)

    def open(self, place: str, name: str, sealed: bytes) -> dict[str, Any]:
        """The document that was sealed there.

        Raises:
            ProfileError: it was made with other keys, or is damaged.
        """
        aad = pack(place.encode(), name.encode())
        try:
            document = loads(aead.open_(self._key, sealed, aad=aad))
        except (DecryptionError, DecodeError):
            message = f"the kept events of `{place}` are damaged, or of other keys"
            raise ProfileError(message) from None
        return dict(document) if isinstance(document, dict) else {}


def open_database(path: Path, *, synchronous: str) -> sqlite3.Connection:
    """A SQLite file with a write-ahead log, used by several threads under a lock.

    Args:
        path: the file; nobody else may read it.
        synchronous: `FULL` where a commit survives a loss of power, `NORMAL` where it only
            survives the end of the process.
    """
    path.touch(mode=0o600)
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={synchronous}")
    return database


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; returns when it is kept.

    Raises:
        OSError: the disk is full or failing; nothing was kept.
    """
    try:
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        raise OSError(f"the client's kept events: {error}") from error
