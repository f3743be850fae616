"""A second authority that follows the first one's folder and takes its place when it ends.

It copies keys and journal as they change, byte for byte, into a folder of its own. When the
first one lets go of the fence, it reads what it has not yet read, and serves.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tasks.authority.fence import NAME as FENCE
from tasks.authority.fence import Fence
from tasks.authority.files import StateError, sync_folder, write_private
from tasks.authority.journal import FOLDER, Journal, parts_of
from tasks.authority.ledger import SERVING

PAUSE: Final = 0.2
# Where its keys are is each authority's own affair; the fence is the two's.
_OWN: Final = (FENCE,)

log = logging.getLogger("portcullis.authority")


def begin_epoch(journal: Journal, fence: Fence) -> int:
    """Begin to serve: raise the epoch in journal and fence; returns it.

    Args:
        journal: the authority's own.
        fence: taken.

    Raises:
        StateError: another one has served since this one's journal ended.
    """
    known, reached = journal.ledger.epoch, fence.epoch
    if reached > known:
        raise StateError(
            f"another authority has served since (epoch {reached}, here {known}): "
            "follow it with `standby`, or restore a backup of it"
        )
    # INVARIANT: the journal first. Cut off in between, the fence is behind and this one may
    # begin again; the other way round nobody could.
    journal.append({"op": SERVING, "outcome": "done", "epoch": known + 1})
    fence.raise_to(known + 1)
    return known + 1


def follow(
    source: Path, state: Path, fence: Fence, stopped: Callable[[], bool], *, pause: float = PAUSE
) -> bool:
    """Copy until the fence is free, then take it and copy the rest.

    Args:
        source: the other authority's state folder.
        state: the own one.
        fence: not taken.
        stopped: whether to give up.

    Returns:
        True with the fence taken, False where it was stopped before.
    """
    while not stopped():
        taken = fence.take()
        try:
            copy(source, state)
        except FileNotFoundError:
            # Gone with its disk: what was copied until now is all there is.
            log.warning("the folder that is followed cannot be read")
        if taken:
            return True
        time.sleep(pause)
    return False


def copy(source: Path, state: Path) -> None:
    """Bring the own folder up to the other one's.

    Raises:
        FileNotFoundError: the other one is not there.
        StateError: the own journal says something that the other one's does not.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.is_file() and path.name not in _OWN and not path.name.startswith("."):
            _copy_file(path, state / path.name)
    # The journal last: it is never behind what the other files say.
    _copy_journal(source / FOLDER, state / FOLDER)


def _copy_file(path: Path, copied: Path) -> None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        # Replaced or taken away just now; the next time tells.
        return
    if not copied.exists() or copied.read_bytes() != data:
        write_private(copied, data)


def _copy_journal(source: Path, copied: Path) -> None:
    copied.mkdir(mode=0o700, exist_ok=True)
    for number in parts_of(source):
        name = f"{number:06}.jsonl"
        target = copied / name
        have = target.stat().st_size if target.exists() else 0
        if have > (source / name).stat().st_size:
            raise StateError(f"{target} goes on where {source / name} ends: move it away")
        _append_rest(source / name, target, have)
    # What the other one had counted and not yet written down is its own; it is in `tally` files.
    kept = {path.name: path for path in source.glob("tally-*")}
    for path in copied.glob("tally-*"):
        if path.name not in kept:
            path.unlink()
    for name, path in kept.items():
        _copy_file(path, copied / name)


def _append_rest(source: Path, target: Path, have: int) -> None:
    with source.open("rb") as file:
        if have and not _same_end(file.read(have), target):
            raise StateError(f"{target} is another journal than {source}: move it away")
        file.seek(have)
        rest = file.read()
    whole = rest[: rest.rfind(b"\n") + 1]
    if not whole:
        return
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        unwritten = memoryview(whole)
        while unwritten:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(target.parent)


def _same_end(data: bytes, target: Path) -> bool:
    """Whether the last line that was copied is the same one: it names all before it."""
    last = target.read_bytes().rstrip(b"\n").rpartition(b"\n")[2] + b"\n"
    return data.endswith(last)
