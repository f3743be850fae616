"""Backup and restore of an authority: keys and journal, sealed under a passphrase."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tasks.authority.fence import NAME as FENCE
from tasks.authority.fence import Fence
from tasks.authority.files import StateError, read_private, sync_folder, write_private
from tasks.authority.journal import FOLDER, Head, Journal, parts_of, verify
from tasks.authority.ledger import RESTORED
from tasks.authority.store import load_state
from tasks.backup import archive

SHORTEST: Final = 12
"""Characters of a passphrase."""


def passphrase_of(path: Path) -> str:
    """The first line of a file that nobody else may read."""
    passphrase = read_private(path).decode(errors="replace").split("\n", 1)[0]
    if len(passphrase) < SHORTEST:
        raise StateError(f"a passphrase has at least {SHORTEST} characters")
    return passphrase


def backup(state: Path, path: Path, passphrase: str) -> Head:
    """Write a backup, also of an authority that serves; returns how far its journal is in it.

    Raises:
        FileExistsError: there is a file already.
        StateError: there is no authority, or its journal is damaged.
    """
    load_state(state)
    with archive.writing(path, passphrase) as out:
        for file in sorted(state.iterdir()):
            if file.is_file() and file.name != FENCE and not file.name.startswith("."):
                out.add(file.name, read_private(file))
        # The journal last: what the other files say stands in it.
        for number in parts_of(state / FOLDER):
            name = f"{number:06}.jsonl"
            data = (state / FOLDER / name).read_bytes()
            out.add(f"{FOLDER}/{name}", data[: data.rfind(b"\n") + 1])
        head = verify(state / FOLDER)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        out.finish({"made": made, "kind": "authority", "head": head.size})
    return head


def restore(state: Path, path: Path, passphrase: str, fence: Path) -> dict[str, Any]:
    """Put a backup into an empty folder, so that it may serve; returns what the backup says.

    Raises:
        StateError: the folder is not empty, the backup is damaged or another's, or an
            authority serves under this fence.
    """
    manifest = _checked(state, path, passphrase)
    held = Fence(fence)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not held.take():
        raise StateError("an authority serves under this fence: stop it first")
    try:
        (state / FOLDER).mkdir(mode=0o700)
        # What makes the folder an authority comes last.
        parts = sorted(archive.parts(path, passphrase), key=lambda part: part[0] == "kek")
        for name, data in parts:
            write_private(state / name, data)
        sync_folder(state)
        journal = Journal(state, now=time.time)
        # INVARIANT: who restores has decided that the one of the newest epoch does not come back.
        epoch = max(journal.ledger.epoch, held.epoch)
        journal.append(
            {"op": RESTORED, "outcome": "done", "epoch": epoch, "size": manifest["head"]}
        )
        load_state(state)
    finally:
        held.close()
    return manifest


def _checked(state: Path, path: Path, passphrase: str) -> dict[str, Any]:
    if state.is_dir() and any(each.name != FENCE for each in state.iterdir()):
        raise StateError(f"{state} is not empty: move it away first")
    try:
        if not archive.is_sealed(path):
            raise StateError("this is no backup of an authority: those are encrypted")
        manifest: dict[str, Any] = archive.check(path, passphrase, lambda _done, _total: None)
    except (archive.DamagedArchive, OSError) as error:
        raise StateError(str(error)) from error
    names = [name for name in manifest["parts"] if not _known(name)]
    if manifest.get("kind") != "authority" or names:
        raise StateError("this is a backup of something else than an authority")
    return manifest


def _known(name: str) -> bool:
    folder, slash, file = name.rpartition("/")
    return bool(file) and ".." not in name and folder == (FOLDER if slash else "")
