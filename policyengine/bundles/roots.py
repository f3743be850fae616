"""The root of trust: who may say which online keys the authority signs with.

A root names a few holders, how many of them must sign (2 of 3 as a rule), and one online key
for each role. Root N+1 carries the thresholds of both N and N+1, so that whoever pinned one
root follows every later one and nobody else can lead it anywhere (trust.md, "Protocol").

A signature covers the exact bytes of the body; these travel as they were signed and are never
written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from policyengine.bundles.anchors import TrustAnchors
from policyengine.bundles.contexts import ROOT
from policyengine.bundles.limits import MAX_SMALL, SIGNATURE_SIZE
from policyengine.bundles.sealing import read_body, reject, write_body
from policyengine.errors import DecodeError, InputError, RejectedError, SignatureError
from policyengine.primitives.canonical import dumps, loads
from policyengine.primitives.hashing import digest
from policyengine.primitives.records import (
    IDENTIFIER,
    KEY,
    UINT,
    Binary,
    Choice,
    Integer,
    ListOf,
    Nested,
    Record,
    invalid,
)
from policyengine.primitives.signatures import SigningKey, sign, verify

FORMAT: Final = "portcullis/root/v1"
ROLES: Final = ("policy", "notice", "lease", "receipt", "audit", "enrolment")
"""What online keys are for; each key has one role."""
MAX_HOLDERS: Final = 16
MAX_RESET: Final = 128
MAX_BODY: Final = 16 * 2**10
"""Most bytes of a root's body."""
MAX_ROOTS: Final = 32
"""Most roots of one message; who lacks more asks again."""
_MAX_SIGNATURES: Final = 2 * MAX_HOLDERS
_MAX_FILE: Final = 2**16


@dataclass(frozen=True)
class Root(Record):
    """What root holders sign.

    Args:
        version: from 1, without holes.
        issued: seconds since 1970.
        expires: seconds since 1970; nothing new is believed under it from then on.
        threshold: how many holders must sign.
        holders: their public Ed25519 keys.
        policy: public key that verifies bundles.
        notice: verifies notices.
        lease: verifies leases.
        receipt: verifies receipts of revocations.
        audit: verifies checkpoints of the audit.
        enrolment: verifies what newcomers are given.
        reset: domains of which audiences forget revision and notices when they take this root:
            the only way back there is.
    """

    version: Annotated[int, Integer(1)]
    issued: Annotated[int, UINT]
    expires: Annotated[int, UINT]
    threshold: Annotated[int, Integer(1, MAX_HOLDERS)]
    holders: Annotated[tuple[bytes, ...], ListOf(KEY, MAX_HOLDERS)]
    policy: Annotated[bytes, KEY]
    notice: Annotated[bytes, KEY]
    lease: Annotated[bytes, KEY]
    receipt: Annotated[bytes, KEY]
    audit: Annotated[bytes, KEY]
    enrolment: Annotated[bytes, KEY]
    reset: Annotated[tuple[str, ...], ListOf(IDENTIFIER, MAX_RESET, unique=True)] = ()

    def _agree(self) -> None:
        if self.threshold > len(self.holders):
            raise invalid("threshold", "must not be more than there are holders")
        if self.expires <= self.issued:
            raise invalid("expires", "must be after `issued`")
        keys = [*self.holders, *self.online().values()]
        # A key that stood for two could be made to speak for the other.
        if len(set(keys)) != len(keys):
            raise invalid("holders", "and online keys must not repeat a key")

    def online(self) -> dict[str, bytes]:
        """Role -> public key."""
        return {role: getattr(self, role) for role in ROLES}

    def anchors(self) -> TrustAnchors:
        """What bundles, notices, leases and receipts are checked with."""
        return TrustAnchors(
            root_version=self.version,
            policy=self.policy,
            notice=self.notice,
            lease=self.lease,
            receipt=self.receipt,
            enrolment=self.enrolment,
        )


@dataclass(frozen=True)
class RootSignature(Record):
    """One holder's signature.

    Args:
        key: the holder's public key.
        signature: 64 bytes over the root's body.
    """

    key: Annotated[bytes, KEY]
    signature: Annotated[bytes, Binary(SIGNATURE_SIZE, SIGNATURE_SIZE)]


@dataclass(frozen=True)
class SignedRoot(Record):
    """A root's exact bytes with the signatures made so far; nothing of it is verified yet.

    Args:
        format: `portcullis/root/v1`.
        body: canonical JSON of a `Root`.
        signatures: in any order; further ones by one key count once.
    """

    format: Annotated[str, Choice((FORMAT,))]
    body: Annotated[bytes, Binary(1, MAX_BODY)]
    signatures: Annotated[tuple[RootSignature, ...], ListOf(Nested(RootSignature), _MAX_SIGNATURES)]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the body, 64 hexadecimal digits, for people to compare."""
        return digest(self.body)

    def claimed(self) -> Root:
        """What the body says, believed by nobody yet.

        Raises:
            RejectedError: `malformed`.
        """
        return read_body(Root, self.body)

    def signers(self, keys: Iterable[bytes]) -> frozenset[bytes]:
        """Which of these keys signed; signatures by others, and wrong ones, count for nothing."""
        wanted = frozenset(keys)
        return frozenset(
            each.key
            for each in self.signatures
            if each.key in wanted and _verifies(each, self.body)
        )

    def signed_by(self, holder: SigningKey) -> SignedRoot:
        """Add a holder's signature; it takes the place of one by the same key.

        Raises:
            InputError: `invalid` when there is no room for another.
        """
        made = RootSignature(holder.public, sign(holder, ROOT, self.body))
        others = (each for each in self.signatures if each.key != holder.public)
        return replace(self, signatures=(*others, made))


def draft(root: Root) -> SignedRoot:
    """Write a root for its holders to sign; the largest one fits."""
    return SignedRoot(FORMAT, write_body(root), ())


def open_root(signed: SignedRoot) -> Root:
    """Read a root that carries the threshold of its own holders, as one to be pinned must.

    Whether these are the right holders is for whoever pins it to know.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    root = signed.claimed()
    _check_threshold(signed, root)
    return root


def verify_next(current: Root, signed: SignedRoot) -> Root:
    """Read the root that follows one that is trusted.

    Raises:
        RejectedError: `signature` (the threshold of either root is not met), `malformed`,
            `rollback` (it is not newer), `previous` (a version between them is missing).
    """
    # INVARIANT: nothing is parsed before the holders that are trusted already signed it.
    _check_threshold(signed, current)
    root = signed.claimed()
    if root.version <= current.version:
        reject("rollback", f"root {current.version} is trusted already")
    if root.version != current.version + 1:
        reject("previous", f"root {current.version + 1} must come before root {root.version}")
    _check_threshold(signed, root)
    return root


def verify_chain(pinned: Root, roots: Iterable[SignedRoot], *, now: float | None = None) -> Root:
    """Follow roots from one that is trusted to the newest.

    Args:
        pinned: the trusted one.
        roots: those after it, one after the other. One in the middle may have expired: it was
            good when the next was made.
        now: seconds since 1970 where the newest must be fresh; None where its age is no matter.

    Raises:
        RejectedError: as `verify_next`; `expired`.
    """
    newest = pinned
    for signed in roots:
        newest = verify_next(newest, signed)
    if now is not None and newest.expires <= now:
        reject("expired", f"root {newest.version} has expired")
    return newest


def encode_root(signed: SignedRoot) -> bytes:
    """Write the file of one root: one line of canonical JSON."""
    return dumps(signed.to_json()) + b"\n"


def decode_root(data: bytes) -> SignedRoot:
    """Read what `encode_root` wrote.

    Raises:
        RejectedError: `malformed`.
    """
    try:
        return SignedRoot.from_json(loads(data.removesuffix(b"\n"), max_bytes=_MAX_FILE))
    except DecodeError as error:
        raise RejectedError("malformed", "this is no root") from error


def encode_roots(roots: Sequence[SignedRoot]) -> bytes:
    """Write roots for a message, the oldest first.

    Raises:
        InputError: `too-large` for more than 32.
    """
    if len(roots) > MAX_ROOTS:
        raise InputError("too-large", f"a message has at most {MAX_ROOTS} roots")
    return dumps([signed.to_json() for signed in roots])


def decode_roots(data: bytes) -> tuple[SignedRoot, ...]:
    """Read what `encode_roots` wrote.

    Raises:
        RejectedError: `malformed`.
    """
    try:
        documents = loads(data, max_bytes=MAX_SMALL)
    except DecodeError as error:
        raise RejectedError("malformed", "these are no roots") from error
    if type(documents) is not list or not 0 < len(documents) <= MAX_ROOTS:
        reject("malformed", "this is no list of roots")
    try:
        return tuple(SignedRoot.from_json(each) for each in documents)
    except DecodeError as error:
        raise RejectedError("malformed", "these are no roots") from error


def _check_threshold(signed: SignedRoot, root: Root) -> None:
    """Raise unless enough of a root's holders signed."""
    count = len(signed.signers(root.holders))
    if count < root.threshold:
        reject(
            "signature",
            f"{count} of the {root.threshold} signatures that root {root.version} asks for",
        )


def _verifies(made: RootSignature, body: bytes) -> bool:
    try:
        verify(made.key, made.signature, ROOT, body)
    except SignatureError:
        return False
    return True
