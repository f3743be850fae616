"""The authority's state folder: the key-encryption key and the wrapped signing keys.

Everything else that the authority ever made lives elsewhere, wrapped under the
key-encryption key with its key id as associated data, so that a wrapped key can
never be passed off as another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from policyengine.bundles.anchors import TrustAnchors
from policyengine.errors import DecryptionError
from policyengine.primitives import aead, canonical
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.signatures import SigningKey, generate_signing_key

PURPOSES = ("policy", "notice", "lease", "receipt")
ROOT_VERSION = 1
KEY_BYTES = 32

_KEK_FILE = "kek"
_SIGNING_FILE = "signing.json"


class StateError(Exception):
    """The state folder cannot be used; the message says what to do."""


@dataclass(frozen=True)
class AuthorityState:
    """What the authority holds in memory: one key-encryption key and a signing key a purpose."""

    kek: bytes
    signing: Mapping[str, SigningKey]

    def anchors(self) -> TrustAnchors:
        """The public halves, which agents and clients pin."""
        return TrustAnchors(
            root_version=ROOT_VERSION,
            **{purpose: self.signing[purpose].public for purpose in PURPOSES},
        )

    def wrap(self, key_id: str, key: bytes, random: RandomSource) -> str:
        """`key` encrypted at rest, bound to its id, as text."""
        return canonical.b64(aead.seal(self.kek, key, aad=_aad(key_id), random=random))

    def unwrap(self, key_id: str, wrapped: str) -> bytes:
        """The key that `wrap` hid; raises DecryptionError for another id or altered text."""
        return aead.open_(self.kek, canonical.unb64(wrapped), aad=_aad(key_id))


def create_state(folder: Path, random: RandomSource) -> AuthorityState:
    """Make a new authority in `folder`; raises StateError where one already stands."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / _KEK_FILE).exists():
        raise StateError(f"{folder} already holds an authority: remove it by hand to start anew")
    state = AuthorityState(
        kek=random.token(KEY_BYTES),
        signing={purpose: generate_signing_key() for purpose in PURPOSES},
    )
    wrapped = {
        purpose: state.wrap(f"signing:{purpose}", key.private, random)
        for purpose, key in state.signing.items()
    }
    write_private(folder / _SIGNING_FILE, json.dumps(wrapped, indent=2).encode())
    # The key-encryption key last: a folder without it was never finished and may be made again.
    write_private(folder / _KEK_FILE, state.kek)
    return state


def load_state(folder: Path) -> AuthorityState:
    """Read the authority of `folder`; raises StateError when it is missing, open or damaged."""
    kek = _read_private(folder / _KEK_FILE)
    if len(kek) != KEY_BYTES:
        raise StateError(f"{folder / _KEK_FILE} must hold exactly {KEY_BYTES} bytes")
    bare = AuthorityState(kek=kek, signing={})
    try:
        wrapped = json.loads(_read_private(folder / _SIGNING_FILE))
        signing = {
            purpose: SigningKey(bare.unwrap(f"signing:{purpose}", wrapped[purpose]))
            for purpose in PURPOSES
        }
    except (ValueError, KeyError, TypeError, DecryptionError) as error:
        raise StateError(f"{folder / _SIGNING_FILE} does not open with this key") from error
    return AuthorityState(kek=kek, signing=signing)


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file that is whole or absent, whatever happens meanwhile."""
    partial = path.with_name(f".{path.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as handle:
        os.fchmod(handle.fileno(), mode)
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _aad(key_id: str) -> bytes:
    return b"portcullis/authority/v1|" + key_id.encode()


def _read_private(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode & 0o077
        data = path.read_bytes()
    except OSError as error:
        raise StateError(f"{path} cannot be read: run `init` first") from error
    if mode:
        raise StateError(f"{path} is readable by others: chmod 600 it")
    return data
