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
from policyengine.errors import DecodeError, DecryptionError
from policyengine.primitives import aead, canonical, merkle
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.primitives.signatures import SigningKey, generate_signing_key

# What agents and clients pin; the audit's key is no business of theirs.
ANCHORED = ("policy", "notice", "lease", "receipt")
PURPOSES = (*ANCHORED, "audit")
ROOT_VERSION = 1
KEY_BYTES = 32

_KEK_FILE = "kek"
_SIGNING_FILE = "signing.json"
_SIGNED_LOG_FILE = "audit.json"


class StateError(Exception):
    """The state folder cannot be used; the message says what to do."""


@dataclass(frozen=True)
class SignedLog:
    """The newest state of the audit that was signed."""

    size: int
    root: bytes


@dataclass(frozen=True)
class AuthorityState:
    """What the authority holds in memory: one key-encryption key and a signing key a purpose."""

    kek: bytes
    signing: Mapping[str, SigningKey]
    folder: Path

    def anchors(self) -> TrustAnchors:
        """The public halves, which agents and clients pin."""
        return TrustAnchors(
            root_version=ROOT_VERSION,
            **{purpose: self.signing[purpose].public for purpose in ANCHORED},
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
        folder=folder,
    )
    _write_signing(state, random)
    # The key-encryption key last: a folder without it was never finished and may be made again.
    write_private(folder / _KEK_FILE, state.kek)
    return state


def load_state(folder: Path) -> AuthorityState:
    """Read the authority of `folder`; raises StateError when it is missing, open or damaged."""
    kek = _read_private(folder / _KEK_FILE)
    if len(kek) != KEY_BYTES:
        raise StateError(f"{folder / _KEK_FILE} must hold exactly {KEY_BYTES} bytes")
    bare = AuthorityState(kek=kek, signing={}, folder=folder)
    try:
        wrapped = json.loads(_read_private(folder / _SIGNING_FILE))
        signing = {
            purpose: SigningKey(bare.unwrap(f"signing:{purpose}", wrapped[purpose]))
            for purpose in PURPOSES
            if purpose in ANCHORED or purpose in wrapped
        }
    except (ValueError, KeyError, TypeError, DecryptionError) as error:
        raise StateError(f"{folder / _SIGNING_FILE} does not open with this key") from error
    if len(signing) == len(PURPOSES):
        return AuthorityState(kek=kek, signing=signing, folder=folder)
    # An authority of an earlier release: give it the keys that it lacks, once.
    missing = {purpose: generate_signing_key() for purpose in PURPOSES if purpose not in signing}
    state = AuthorityState(kek=kek, signing=signing | missing, folder=folder)
    _write_signing(state, SYSTEM_RANDOM)
    return state


def signed_log(folder: Path) -> SignedLog:
    """What was signed of the audit last; raises StateError when the memory of it is damaged."""
    path = folder / _SIGNED_LOG_FILE
    if not path.exists():
        return SignedLog(0, merkle.EMPTY_ROOT)
    try:
        kept = json.loads(_read_private(path))
        return SignedLog(int(kept["size"]), canonical.unb64(kept["root"]))
    except (ValueError, KeyError, TypeError, DecodeError) as error:
        raise StateError(f"{path} cannot be read") from error


def remember_log(folder: Path, signed: SignedLog) -> None:
    """Keep what was signed of the audit, so that no other history is ever signed."""
    document = {"size": signed.size, "root": canonical.b64(signed.root)}
    write_private(folder / _SIGNED_LOG_FILE, json.dumps(document).encode())


def forget_log(folder: Path) -> None:
    """Let the audit begin anew, after its database was lost: only an operator may decide that."""
    (folder / _SIGNED_LOG_FILE).unlink(missing_ok=True)


def _write_signing(state: AuthorityState, random: RandomSource) -> None:
    wrapped = {
        purpose: state.wrap(f"signing:{purpose}", key.private, random)
        for purpose, key in state.signing.items()
    }
    write_private(state.folder / _SIGNING_FILE, json.dumps(wrapped, indent=2).encode())


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
