"""The authority under a root: which online keys may sign, and how the root in force changes.

The chain of roots stands in the state folder, public and signed by its holders. Where no
ceremony was held yet the authority makes holders and a root of its own: good enough to begin
with, worth nothing against whoever takes this machine, and said so wherever it matters.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from policyengine.bundles.rootrequests import make_request
from policyengine.bundles.roots import (
    MAX_ROOTS,
    ROLES,
    Root,
    SignedRoot,
    decode_root,
    decode_roots,
    draft,
    encode_root,
    encode_roots,
    open_root,
    verify_chain,
)
from policyengine.errors import RejectedError
from policyengine.primitives import canonical
from policyengine.primitives.signatures import SigningKey, generate_signing_key
from tasks.authority.files import StateError, write_private
from tasks.authority.refusals import RefusedError
from tasks.authority.store import AuthorityState, keep_signing, reread

SELF_MADE: Final = (
    "the root of trust is self-made: its holders' keys lie beside the keys that they vouch for. "
    "Hold a root ceremony (`policyctl root init`) before anything depends on this"
)
_FILE: Final = "roots.json"
_HOLDER: Final = "holder"
_OWN_HOLDERS: Final = 3
_OWN_THRESHOLD: Final = 2
_OWN_SECONDS: Final = 10 * 365 * 86_400


@dataclass(frozen=True)
class _InForce:
    """The chain as read, and the keys at hand."""

    stamp: tuple[int, int, int]
    chain: tuple[SignedRoot, ...]
    root: Root
    signing: Mapping[str, SigningKey]


class RootKeeper:
    """Follows the root in force, also where another process installs one meanwhile.

    Args:
        state: the authority's.

    Raises:
        StateError: the chain is damaged, or names keys that are not held.
    """

    def __init__(self, state: AuthorityState) -> None:
        self._state = state
        self._lock = threading.Lock()
        if not (state.folder / _FILE).exists():
            _make_own(state)
        self._held = _read(reread(state))

    @property
    def root(self) -> Root:
        """The root in force."""
        return self._now().root

    @property
    def chain(self) -> tuple[SignedRoot, ...]:
        """Every root from the first to the one in force."""
        return self._now().chain

    @property
    def self_made(self) -> bool:
        """Whether the authority itself holds the keys of the root's holders."""
        held = self._now()
        return set(held.root.holders) <= {key.public for key in _holders(held.signing)}

    def signing(self, purpose: str) -> SigningKey:
        """The key that the root in force names for a purpose."""
        held = self._now()
        # INVARIANT: a key that the root does not name signs nothing, whatever else is at hand.
        return _named(held.signing, purpose, getattr(held.root, purpose))

    def status(self) -> dict[str, Any]:
        """The root in force, for people and programs."""
        held, root = self._now(), self.root
        return {
            "version": root.version,
            "issued": root.issued,
            "expires": root.expires,
            "threshold": root.threshold,
            "holders": len(root.holders),
            "fingerprint": held.chain[-1].fingerprint,
            "self_made": self.self_made,
        }

    def after(self, version: int) -> str:
        """The roots that follow a version, as a message; at most as many as one takes."""
        if type(version) is not int or version < 0:
            raise RefusedError("not a version of a root")
        later = [each for each in self.chain if each.claimed().version > version]
        return canonical.b64(encode_roots(later[:MAX_ROOTS])) if later else ""

    def _now(self) -> _InForce:
        with self._lock:
            if _stamp(self._state.folder) != self._held.stamp:
                self._held = _read(reread(self._state))
            return self._held


def install_root(
    state: AuthorityState, data: bytes, *, replace: bool = False, now: float | None = None
) -> Root:
    """Put a signed root into force.

    Args:
        state: the authority's.
        data: the file of one root, as its holders signed it.
        replace: let it take the place of a self-made root that did not sign it; whoever pinned
            that one must be given this one.
        now: seconds since 1970.

    Raises:
        StateError: it does not follow the root in force, has expired, or names keys that this
            authority does not hold.
    """
    keeper = RootKeeper(state)
    try:
        signed = decode_root(data)
        if replace:
            root, chain = _replacement(keeper, signed, _moment(now))
        else:
            root = verify_chain(keeper.root, [signed], now=_moment(now))
            chain = (*keeper.chain, signed)
    except RejectedError as error:
        raise StateError(f"this root cannot be put into force: {error.message}") from error
    _check_held(reread(state).signing, root)
    _write(state.folder, chain)
    return root


def request(state: AuthorityState, fresh: Iterable[str] = ()) -> bytes:
    """Write the request for the next root, with fresh keys for some roles.

    The keys before go on signing until a root that names the new ones is installed.
    """
    keeper = RootKeeper(state)
    keys = {role: keeper.signing(role) for role in ROLES}
    made = {role: generate_signing_key() for role in fresh}
    if made:
        signing = reread(state).signing
        keep_signing(state, {_free(signing, role): key for role, key in made.items()})
    return make_request(keys | made)


def sign_root(state: AuthorityState, data: bytes) -> bytes:
    """Sign a root with the holders' keys of a self-made one; gives the file of the signed root.

    Raises:
        StateError: the root in force is not self-made, or this is no root.
    """
    keeper = RootKeeper(state)
    if not keeper.self_made:
        raise StateError("the root in force has holders of its own: they sign, each by themselves")
    try:
        signed = decode_root(data)
    except RejectedError as error:
        raise StateError(error.message) from error
    for key in _holders(reread(state).signing)[:_OWN_THRESHOLD]:
        signed = signed.signed_by(key)
    return encode_root(signed)


def pinned_file(state: AuthorityState) -> bytes:
    """The file that agents and clients pin: the root in force."""
    return encode_root(RootKeeper(state).chain[-1])


def _replacement(
    keeper: RootKeeper, signed: SignedRoot, now: float
) -> tuple[Root, tuple[SignedRoot, ...]]:
    if not keeper.self_made:
        raise StateError("only a self-made root can be replaced: the holders sign the next one")
    root = open_root(signed)
    if root.version < keeper.root.version:
        raise StateError(f"a root that replaces root {keeper.root.version} is not older")
    return verify_chain(root, [], now=now), (signed,)


def _make_own(state: AuthorityState) -> None:
    """Holders and a root of the authority's own, over the keys that it has."""
    holders = {
        f"{_HOLDER}+{number}": generate_signing_key() for number in range(1, _OWN_HOLDERS + 1)
    }
    kept = keep_signing(state, holders)
    now = int(time.time())
    root = Root(
        version=1,
        issued=now,
        expires=now + _OWN_SECONDS,
        threshold=_OWN_THRESHOLD,
        holders=tuple(key.public for key in holders.values()),
        **{role: kept.signing[role].public for role in ROLES},
    )
    signed = draft(root)
    for key in list(holders.values())[:_OWN_THRESHOLD]:
        signed = signed.signed_by(key)
    _write(state.folder, (signed,))


def _read(state: AuthorityState) -> _InForce:
    path = state.folder / _FILE
    stamp = _stamp(state.folder)
    try:
        lines = path.read_bytes().splitlines()
        chain = tuple(each for line in lines for each in decode_roots(line))
        root = verify_chain(open_root(chain[0]), chain[1:])
    except (OSError, IndexError, RejectedError) as error:
        raise StateError(f"{path} is damaged: restore it from a backup") from error
    _check_held(state.signing, root)
    return _InForce(stamp, chain, root, state.signing)


def _write(folder: Path, chain: tuple[SignedRoot, ...]) -> None:
    """A line for each root: no cap on how long the chain may become."""
    data = b"".join(encode_roots([each]) + b"\n" for each in chain)
    write_private(folder / _FILE, data)


def _stamp(folder: Path) -> tuple[int, int, int]:
    try:
        found = (folder / _FILE).stat()
    except OSError as error:
        raise StateError(f"{folder / _FILE} is missing: restore it from a backup") from error
    return found.st_ino, found.st_mtime_ns, found.st_size


def _check_held(signing: Mapping[str, SigningKey], root: Root) -> None:
    for role, public in root.online().items():
        try:
            _named(signing, role, public)
        except RefusedError as error:
            raise StateError(
                f"root {root.version} names a key for `{role}` that this authority does not "
                "hold: was it made from another authority's request?"
            ) from error


def _named(signing: Mapping[str, SigningKey], purpose: str, public: bytes) -> SigningKey:
    for name, key in signing.items():
        if name.partition("+")[0] == purpose and key.public == public:
            return key
    raise RefusedError(f"the root in force names another key for `{purpose}`")


def _holders(signing: Mapping[str, SigningKey]) -> list[SigningKey]:
    return [key for name, key in sorted(signing.items()) if name.startswith(f"{_HOLDER}+")]


def _free(signing: Mapping[str, SigningKey], role: str) -> str:
    numbers = [int(name.partition("+")[2]) for name in signing if name.startswith(f"{role}+")]
    return f"{role}+{max(numbers, default=1) + 1}"


def _moment(now: float | None) -> float:
    return time.time() if now is None else now
