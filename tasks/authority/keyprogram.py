"""A key program for `CommandStore`: key-encryption keys in a folder of its own.

Run under another user than the authority's, it keeps the keys where the authority cannot read
them: `--key-program "sudo -u keys python -m tasks.authority.keyprogram --keys /srv/keys"`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from policyengine.primitives.canonical import b64, unb64
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.filestore import FileStore
from tasks.authority.program import serve


def main(arguments: list[str] | None = None) -> int:
    """Answer on standard input and output until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m tasks.authority.keyprogram")
    parser.add_argument("--keys", type=Path, required=True, help="folder, only for this user")
    folder = parser.parse_args(arguments).keys
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    keys = Keys(FileStore(folder))
    table = {
        "ids": keys.ids,
        "wrap": keys.wrap,
        "unwrap": keys.unwrap,
        "rotate": keys.rotate,
        "retire": keys.retire,
    }
    serve(table, sys.stdin.buffer, sys.stdout.buffer)
    return 0


class Keys:
    """The operations, in plain JSON values."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def ids(self) -> list[int]:
        """The numbers of all keys."""
        return list(self._store.ids())

    def wrap(self, *, aad: str, secret: str) -> dict[str, Any]:
        """Encrypt under the newest key."""
        number, wrapped = self._store.wrap(unb64(secret), aad=unb64(aad), random=SYSTEM_RANDOM)
        return {"id": number, "wrapped": b64(wrapped)}

    def unwrap(self, *, aad: str, id: int, wrapped: str) -> str:  # noqa: A002 - the wire's name
        """Decrypt under the key of this number."""
        return b64(self._store.unwrap(id, unb64(wrapped), aad=unb64(aad)))

    def rotate(self) -> int:
        """Make another key."""
        if not self._store.exists():
            self._store.create(SYSTEM_RANDOM)
            return max(self._store.ids())
        return self._store.rotate(SYSTEM_RANDOM)

    def retire(self, *, id: int) -> None:  # noqa: A002 - the wire's name
        """Destroy an old key."""
        self._store.retire(id)


if __name__ == "__main__":
    sys.exit(main())
