"""Keys of root holders: each in a file of its own, encrypted under what its holder remembers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import Any

from brokers.policyctl.errors import Exit, Stop
from policyengine.errors import PortcullisError
from policyengine.primitives import SYSTEM_RANDOM, SigningKey, generate_signing_key
from policyengine.primitives.canonical import b64, unb64
from policyengine.primitives.hashing import digest
from policyengine.primitives.passphrase import COST, SALT_SIZE, open_chunk, seal_chunk, stretch

SHORTEST = 12
_KEY_FORMAT = "portcullis/root-key/v1"
_PUBLIC_FORMAT = "portcullis/root-holder/v1"
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Passphrase:
    """What a holder types, or the first line of a file that nobody else may read.

    Args:
        file: that file; None to ask at the terminal.
    """

    file: Path | None

    def read(self, path: Path, *, twice: bool = False) -> str:
        """The passphrase of a key file.

        Raises:
            Stop: too short, the two differ, or nobody is there to type one.
        """
        if self.file is not None:
            return _long_enough(_first_line(self.file))
        if not sys.stdin.isatty():
            raise Stop(Exit.ERROR, "nobody is here to type a passphrase: name --passphrase-file")
        typed = _long_enough(getpass(f"passphrase of {path}: "))
        if twice and getpass("once more: ") != typed:
            raise Stop(Exit.ERROR, "the two passphrases differ")
        return typed


def fingerprint(public: bytes) -> str:
    """How a holder is called, for people to compare: the beginning of its key's digest."""
    return digest(public)[:16]


def make(path: Path, passphrase: Passphrase) -> bytes:
    """Make a holder's key; writes it and, beside it, `<path>.pub`. Returns the public half.

    Raises:
        Stop: there is a file already, or it cannot be written.
    """
    public = path.with_name(f"{path.name}.pub")
    for each in (path, public):
        if each.exists():
            raise Stop(Exit.ERROR, f"{each} is there already, and keys are never written over")
    secret = passphrase.read(path, twice=True)
    key, salt = generate_signing_key(), SYSTEM_RANDOM.token(SALT_SIZE)
    sealed = seal_chunk(
        stretch(secret, salt, cost=COST), 0, key.private, last=True, random=SYSTEM_RANDOM
    )
    document = {
        "format": _KEY_FORMAT,
        "public": b64(key.public),
        "cost": COST,
        "salt": b64(salt),
        "sealed": b64(sealed),
    }
    _write_new(path, document, 0o600)
    _write_new(public, {"format": _PUBLIC_FORMAT, "public": b64(key.public)}, 0o644)
    return key.public


def unlock(path: Path, passphrase: Passphrase) -> SigningKey:
    """Open a holder's key.

    Raises:
        Stop: it is no key, others may read it, or the passphrase is another one.
    """
    document = _read(path, _KEY_FORMAT)
    if path.stat().st_mode & 0o077:
        raise Stop(Exit.ERROR, f"others may read {path}; set its mode to 0600")
    secret = passphrase.read(path)
    try:
        stretched = stretch(secret, unb64(document["salt"]), cost=document["cost"])
        key = SigningKey(open_chunk(stretched, 0, unb64(document["sealed"]), last=True))
        fits = key.public == unb64(document["public"])
    except (KeyError, TypeError, AttributeError, PortcullisError):
        fits = False
    if not fits:
        raise Stop(Exit.ERROR, f"{path} does not open: another passphrase, or it is damaged")
    return key


def read_public(path: Path) -> bytes:
    """The public half of a holder's key, from `<path>.pub` or from the key file itself.

    Raises:
        Stop: it is neither.
    """
    document = _read(path, _KEY_FORMAT, _PUBLIC_FORMAT)
    try:
        public = unb64(document["public"])
    except (KeyError, TypeError, AttributeError, PortcullisError):
        public = b""
    if len(public) != 32:
        raise Stop(Exit.ERROR, f"{path} is no key of a root holder")
    return public


def _read(path: Path, *formats: str) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_MOST_BYTES))
    except OSError as error:
        raise Stop(Exit.ERROR, f"{path} cannot be read: {error.strerror}") from error
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("format") not in formats:
        raise Stop(Exit.ERROR, f"{path} is no key of a root holder")
    return document


def _write_new(path: Path, document: dict[str, Any], mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(json.dumps(document, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Stop(Exit.ERROR, f"{path} cannot be written: {error.strerror}") from error


def _first_line(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise Stop(Exit.ERROR, f"others may read {path}; set its mode to 0600")
        return path.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(Exit.ERROR, f"{path} cannot be read") from error


def _long_enough(passphrase: str) -> str:
    if len(passphrase) < SHORTEST:
        raise Stop(Exit.ERROR, f"a passphrase has at least {SHORTEST} characters")
    return passphrase
