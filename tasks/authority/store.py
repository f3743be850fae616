"""The authority's state folder, and the port to the store of its key-encryption key.

Everything else that the authority ever made lives elsewhere, wrapped under the
key-encryption key with its key id as associated data, so that a wrapped key can
never be passed off as another. What was wrapped says under which key: several stay
readable until nothing is left under the old ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from policyengine.bundles.anchors import TrustAnchors
from policyengine.errors import DecodeError, DecryptionError
from policyengine.primitives import canonical, merkle
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.primitives.signatures import SigningKey, generate_signing_key
from tasks.authority.commandstore import CommandStore
from tasks.authority.files import StateError, read_private, sync_folder, write_private
from tasks.authority.filestore import FIRST, KEY_BYTES, FileStore

__all__ = ["KEY_BYTES", "AuthorityState", "KeyStore", "SignedLog", "StateError", "write_private"]

# What agents and clients pin; the audit's key is no business of theirs.
ANCHORED = ("policy", "notice", "lease", "receipt")
PURPOSES = (*ANCHORED, "audit", "enrolment")
ROOT_VERSION = 1

_STORE_FILE = "store.json"
_SIGNING_FILE = "signing.json"
_SIGNED_LOG_FILE = "audit.json"


class KeyStore(Protocol):
    """Where the key-encryption keys are: files here, or a KMS behind a program.

    Keys have numbers, from 1; the newest one wraps, all that are there unwrap.
    """

    def exists(self) -> bool:
        """Whether there is a key."""

    def create(self, random: RandomSource) -> None:
        """Make the first key. A store with a generator of its own may ignore `random`."""

    def ids(self) -> tuple[int, ...]:
        """The numbers of the keys that can be unwrapped with, oldest first."""

    def wrap(self, secret: bytes, *, aad: bytes, random: RandomSource) -> tuple[int, bytes]:
        """Encrypt under the newest key; returns its number and the ciphertext."""

    def unwrap(self, number: int, wrapped: bytes, *, aad: bytes) -> bytes:
        """Decrypt; raises DecryptionError (altered, another place) or StateError (no such key)."""

    def rotate(self, random: RandomSource) -> int:
        """Make another key, under which everything is wrapped from now on; returns its number."""

    def retire(self, number: int) -> None:
        """Destroy an old key; raises StateError for the newest one or one that is not there."""


@dataclass(frozen=True)
class SignedLog:
    """The newest state of the audit that was signed."""

    size: int
    root: bytes


@dataclass(frozen=True)
class AuthorityState:
    """What the authority works with: a store of key-encryption keys, and signing keys.

    Args:
        store: of the key-encryption keys.
        signing: the first key of each purpose by the purpose's name, later ones as
            `<purpose>+<number>`. Which of them signs is for the root in force to say.
        folder: where all this is.
    """

    store: KeyStore
    signing: Mapping[str, SigningKey]
    folder: Path

    def anchors(self) -> TrustAnchors:
        """The public halves of the first keys, which agents of earlier releases pin."""
        return TrustAnchors(
            root_version=ROOT_VERSION,
            **{purpose: self.signing[purpose].public for purpose in (*ANCHORED, "enrolment")},
        )

    def wrap(self, key_id: str, key: bytes, random: RandomSource) -> str:
        """`key` encrypted at rest, bound to its id, as text."""
        number, wrapped = self.store.wrap(key, aad=_aad(key_id), random=random)
        text = canonical.b64(wrapped)
        # The first key's has no number: so it was written when there was only one.
        return text if number == FIRST else f"{number}.{text}"

    def unwrap(self, key_id: str, wrapped: str) -> bytes:
        """The key that `wrap` hid; raises DecryptionError for another id or altered text."""
        number, text = _numbered(wrapped)
        return self.store.unwrap(number, canonical.unb64(text), aad=_aad(key_id))

    def rewrap(self, key_id: str, wrapped: str, random: RandomSource) -> str:
        """The same key under the newest key-encryption key; unchanged where it is that already."""
        if _numbered(wrapped)[0] == max(self.store.ids()):
            return wrapped
        return self.wrap(key_id, self.unwrap(key_id, wrapped), random)


def create_state(
    folder: Path, random: RandomSource, key_program: Sequence[str] = ()
) -> AuthorityState:
    """Make a new authority in `folder`; raises StateError where one already stands.

    Args:
        folder: its state.
        random: source of the keys.
        key_program: a program that keeps the key-encryption key; empty keeps it in a file.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if FileStore(folder).exists() or ((folder / _SIGNING_FILE).exists() and key_program):
        raise StateError(f"{folder} already holds an authority: remove it by hand to start anew")
    if key_program:
        document = {"kind": "command", "command": list(key_program)}
        write_private(folder / _STORE_FILE, json.dumps(document).encode())
        CommandStore(key_program).create(random)
    # INVARIANT: the last file makes the folder an authority: one that was never finished may be
    # made again.
    signing = {purpose: generate_signing_key() for purpose in PURPOSES}
    if not key_program:
        return _create_in_files(folder, signing, random)
    state = AuthorityState(_store(folder), signing, folder)
    _write_signing(state, random)
    return state


def _create_in_files(
    folder: Path, signing: Mapping[str, SigningKey], random: RandomSource
) -> AuthorityState:
    """The key-encryption key comes last, so what it wraps is written under it before."""
    making = folder / ".making"
    making.mkdir(mode=0o700, exist_ok=True)
    draft = FileStore(making)
    draft.create(random)
    _write_signing(AuthorityState(draft, signing, folder), random)
    (making / "kek").replace(folder / "kek")
    making.rmdir()
    sync_folder(folder)
    return AuthorityState(FileStore(folder), signing, folder)


def load_state(folder: Path) -> AuthorityState:
    """Read the authority of `folder`; raises StateError when it is missing, open or damaged."""
    store = _store(folder)
    if not store.exists():
        raise StateError(f"{folder} holds no authority: run `init` first")
    signing = _read_signing(AuthorityState(store, {}, folder))
    if signing.keys() >= set(PURPOSES):
        return AuthorityState(store, signing, folder)
    # An authority of an earlier release: give it the keys that it lacks, once.
    missing = {purpose: generate_signing_key() for purpose in PURPOSES if purpose not in signing}
    state = AuthorityState(store, signing | missing, folder)
    _write_signing(state, SYSTEM_RANDOM)
    return state


def reread(state: AuthorityState) -> AuthorityState:
    """The state with the signing keys that are on disk now; another process may have made some."""
    return replace(state, signing=_read_signing(state))


def keep_signing(state: AuthorityState, more: Mapping[str, SigningKey]) -> AuthorityState:
    """Keep further signing keys: `<purpose>+<number>` for the next one of a purpose."""
    kept = replace(state, signing={**_read_signing(state), **more})
    _write_signing(kept, SYSTEM_RANDOM)
    return kept


def _read_signing(state: AuthorityState) -> dict[str, SigningKey]:
    path = state.folder / _SIGNING_FILE
    try:
        wrapped = json.loads(read_private(path))
        return {
            name: SigningKey(state.unwrap(f"signing:{name}", wrapped[name]))
            for name in {*ANCHORED, *wrapped}
        }
    except (ValueError, KeyError, TypeError, DecodeError, DecryptionError) as error:
        raise StateError(f"{path} does not open with this key") from error


def rotate_store(folder: Path, random: RandomSource) -> int:
    """Make another key-encryption key and wrap the signing keys anew; returns its number.

    Cut off in between, the signing keys still open under the key before.
    """
    state = load_state(folder)
    number = state.store.rotate(random)
    _write_signing(state, random)
    return number


def retire_store(folder: Path, number: int) -> None:
    """Destroy an old key-encryption key; raises StateError while signing keys are under it."""
    wrapped = json.loads(read_private(folder / _SIGNING_FILE))
    if any(_numbered(each)[0] == number for each in wrapped.values()):
        raise StateError(f"signing keys are wrapped under key {number}: rotate first")
    _store(folder).retire(number)


def _store(folder: Path) -> KeyStore:
    path = folder / _STORE_FILE
    if not path.exists():
        return FileStore(folder)
    try:
        document = json.loads(read_private(path))
        command = document["command"]
        known = document["kind"] == "command" and all(isinstance(each, str) for each in command)
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path} cannot be read") from error
    if not known or not command:
        raise StateError(f"{path} names no store that is known")
    return CommandStore(command)


def _numbered(wrapped: str) -> tuple[int, str]:
    """Number of the key-encryption key, and the text that it opens."""
    head, dot, text = wrapped.partition(".")
    if not dot:
        return FIRST, wrapped
    if not head.isdecimal() or len(head) > 6:
        raise DecryptionError("the ciphertext does not open")
    return int(head), text


def signed_log(folder: Path) -> SignedLog:
    """What was signed of the audit last; raises StateError when the memory of it is damaged."""
    path = folder / _SIGNED_LOG_FILE
    if not path.exists():
        return SignedLog(0, merkle.EMPTY_ROOT)
    try:
        kept = json.loads(read_private(path))
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


def _aad(key_id: str) -> bytes:
    return b"portcullis/authority/v1|" + key_id.encode()
