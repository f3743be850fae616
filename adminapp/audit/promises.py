"""What signed checkpoints promise about the log: those of the database and of the witness file."""

from __future__ import annotations

from dataclasses import dataclass

from adminapp.audit import witness
from adminapp.audit.models import Checkpoint
from policyengine.errors import DecodeError, PortcullisError
from policyengine.primitives import checkpoints as notes


@dataclass(frozen=True)
class LogKey:
    """The public key that signed checkpoints verify with, and the name of the log."""

    origin: str
    public: bytes


@dataclass(frozen=True)
class Promise:
    """One checkpoint: its size and root, or what is wrong with it."""

    size: int
    root: bytes
    where: str
    wrong: str = ""


def promises(key: LogKey | None) -> list[Promise]:
    """Everything that was promised, the smallest size first; no `key`, no check of signatures."""
    kept = set()
    found = []
    for row in Checkpoint.objects.order_by("size").iterator(chunk_size=1000):
        promise = _read_row(row, key)
        kept.add(row.size)
        found.append(promise)
    lines = list(witness.read())
    for number, note in enumerate(lines, start=1):
        promise = _read_note(note, key, f"line {number} of the witness file")
        # The last line may be ahead of the database: it is written first.
        if not promise.wrong and promise.size not in kept and number < len(lines):
            gone = f"the checkpoint at {promise.size} is gone from the database"
            found.append(Promise(promise.size, promise.root, promise.where, gone))
        found.append(promise)
    return sorted(found, key=lambda promise: promise.size)


def _read_row(row: Checkpoint, key: LogKey | None) -> Promise:
    where = f"the checkpoint at {row.size}"
    promise = _read_note(row.note, key, where)
    if not promise.wrong and (promise.size, promise.root.hex()) != (row.size, row.root):
        return Promise(row.size, promise.root, where, f"{where} says something else than its row")
    return promise


def _read_note(note: str, key: LogKey | None, where: str) -> Promise:
    try:
        checkpoint, _signatures = notes.parse_note(note)
    except DecodeError:
        return Promise(0, b"", where, f"{where} is no checkpoint")
    if key is not None:
        try:
            notes.open_checkpoint(note, key.origin, key.public)
        except PortcullisError:
            wrong = f"the signature of {where} does not verify"
            return Promise(checkpoint.size, checkpoint.root, where, wrong)
    return Promise(checkpoint.size, checkpoint.root, where)
