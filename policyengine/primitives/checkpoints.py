"""Signed checkpoints of a log, as other tools of transparency logs read them.

The text is C2SP's tlog-checkpoint: origin, size and root, here with one extension line for the
time. It is signed as a signed note with plain Ed25519, so that any witness can check and
co-sign it; that is why the signing key must sign nothing but checkpoints.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from policyengine.errors import DecodeError, InputError, SignatureError
from policyengine.primitives.merkle import HASH_SIZE
from policyengine.primitives.signatures import (
    KEY_SIZE,
    SigningKey,
    sign_text,
    verify_text,
)

MAX_NOTE: Final = 8192
MAX_SIZE: Final = 2**63 - 1
_ED25519: Final = b"\x01"
_ORIGIN: Final = re.compile(r"[!-*,-~]{1,100}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")
_SIZE: Final = re.compile(r"0|[1-9]\d{0,18}")
_LINE: Final = re.compile("\u2014 ([!-*,-~]{1,100}) ([A-Za-z0-9+/]+={0,2})")
_KEY_HASH: Final = 4
_BODY_LINES: Final = 4


@dataclass(frozen=True)
class Checkpoint:
    """What a log says of itself at one time.

    Args:
        origin: name of the log, printable ASCII without spaces and plus signs.
        size: number of entries.
        root: root of the Merkle tree over them, 32 bytes.
        time: when that was so, ISO 8601 in UTC with `Z`.

    Raises:
        InputError: `invalid` when a field is out of form.
    """

    origin: str
    size: int
    root: bytes
    time: str

    def __post_init__(self) -> None:
        if not _ORIGIN.fullmatch(self.origin):
            raise InputError("invalid", "an origin is printable ASCII without spaces and `+`")
        if not 0 <= self.size <= MAX_SIZE or len(self.root) != HASH_SIZE:
            raise InputError("invalid", "a checkpoint has a size and a root of 32 bytes")
        if not _TIME.fullmatch(self.time):
            raise InputError("invalid", "a checkpoint's time is ISO 8601 in UTC")

    def text(self) -> str:
        """Write what is signed."""
        return f"{self.origin}\n{self.size}\n{_b64(self.root)}\ntime {self.time}\n"


def sign_checkpoint(key: SigningKey, checkpoint: Checkpoint) -> str:
    """Write a checkpoint as a signed note; the key's name is the origin."""
    text = checkpoint.text()
    signature = key_hash(checkpoint.origin, key.public) + sign_text(key, text.encode())
    return f"{text}\n\u2014 {checkpoint.origin} {_b64(signature)}\n"


def open_checkpoint(note: str, origin: str, public: bytes) -> Checkpoint:
    """Read a signed note and check the log's own signature.

    Args:
        note: the text; signatures of others (witnesses) may stand beside the log's.
        origin: name of the log.
        public: 32 raw bytes of its Ed25519 key.

    Raises:
        DecodeError: it is no checkpoint.
        SignatureError: the log's signature is missing, or does not verify.
    """
    checkpoint, signatures = parse_note(note)
    if checkpoint.origin != origin:
        raise SignatureError("the checkpoint is of another log")
    own = key_hash(origin, public)
    for name, raw in signatures:
        if name == origin and raw[:_KEY_HASH] == own:
            verify_text(public, raw[_KEY_HASH:], checkpoint.text().encode())
            return checkpoint
    raise SignatureError("the log's signature is missing")


def parse_note(note: str) -> tuple[Checkpoint, list[tuple[str, bytes]]]:
    """Read a note without checking any signature: its checkpoint, and name and bytes of each.

    Raises:
        DecodeError: it is no checkpoint.
    """
    if len(note) > MAX_NOTE:
        raise DecodeError("the note is too large")
    text, blank, rest = note.partition("\n\n")
    lines = text.split("\n")
    if not blank or not rest.endswith("\n") or len(lines) != _BODY_LINES:
        raise DecodeError("not a signed checkpoint")
    origin, size, root, time = lines
    if not _SIZE.fullmatch(size) or not time.startswith("time "):
        raise DecodeError("not a signed checkpoint")
    try:
        checkpoint = Checkpoint(origin, int(size), _unb64(root), time.removeprefix("time "))
    except InputError as error:
        raise DecodeError("not a signed checkpoint") from error
    return checkpoint, [_signature(line) for line in rest[:-1].split("\n")]


def key_hash(name: str, public: bytes) -> bytes:
    """Compute the four bytes by which a signature names its key."""
    return sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:_KEY_HASH]


def verifier_key(name: str, public: bytes) -> str:
    """Write a public key as tools for signed notes take it: `name+hash+key`."""
    return f"{name}+{key_hash(name, public).hex()}+{_b64(_ED25519 + public)}"


def parse_verifier_key(text: str) -> tuple[str, bytes]:
    """Read what `verifier_key` wrote: the log's name and its public key.

    Raises:
        DecodeError: it is no such key, or its hash is another's.
    """
    name, _, rest = text.partition("+")
    named, _, encoded = rest.partition("+")
    raw = _unb64(encoded)
    public = raw[1:]
    if not _ORIGIN.fullmatch(name) or raw[:1] != _ED25519 or len(public) != KEY_SIZE:
        raise DecodeError("not a verifier key")
    if named != key_hash(name, public).hex():
        raise DecodeError("not a verifier key")
    return name, public


def _signature(line: str) -> tuple[str, bytes]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise DecodeError("not a signed checkpoint")
    return found[1], _unb64(found[2])


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unb64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise DecodeError("not base64") from error
    if _b64(data) != text:
        raise DecodeError("not base64")
    return data
