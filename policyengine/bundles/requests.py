"""What an audience tells the control plane: what it holds, and what became of a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from policyengine.bundles.contexts import ACKNOWLEDGEMENT, LEASE_REQUEST
from policyengine.bundles.framing import Request
from policyengine.bundles.limits import AUDIENCE
from policyengine.bundles.sealing import read_body, reject, write_body
from policyengine.errors import RejectedError, SignatureError
from policyengine.primitives.records import (
    DIGEST_OR_EMPTY,
    HEX_ID,
    IDENTIFIER,
    SENTENCE,
    UINT,
    Choice,
    Codec,
    Integer,
    ListOf,
    MapOf,
    Record,
    Text,
    invalid,
)
from policyengine.primitives.signatures import SigningKey, sign, verify
from policyengine.trustgroups.epochs import STATES

_EPOCHS = MapOf(Text("0|[1-9][0-9]{0,18}", 19, "must be numbers of epochs"), Choice(STATES), 64)
_REPORT = {"revision": UINT, "digest": DIGEST_OR_EMPTY, "notice": UINT, "epochs": _EPOCHS}


class _Report(Codec):
    """What is held of one domain; epochs may be given as numbers and become text."""

    def clean(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping) or set(value) != set(_REPORT):
            raise invalid(where, "must have revision, digest, notice and epochs")
        epochs = value["epochs"]
        if isinstance(epochs, Mapping):
            epochs = {str(k) if type(k) is int else k: v for k, v in epochs.items()}
        members = {**value, "epochs": epochs}
        return {name: codec.clean(members[name], where) for name, codec in _REPORT.items()}


HELD = MapOf(IDENTIFIER, _Report(), 1024)


@dataclass(frozen=True)
class LeaseRequest(Record):
    """Ask for a lease.

    Args:
        audience: who asks.
        nonce: fresh, 32 hexadecimal digits.
        held: domain -> `{"revision", "digest", "notice", "epochs": {number: state}}`.
        at: the audience's own clock, seconds since 1970; for people only.
        root: version of the root that it trusts.
        reads: forms of bundles that the audience reads beside whole ones: `deltas`. The control
            plane passes over words that it does not know.
    """

    audience: Annotated[str, AUDIENCE]
    nonce: Annotated[str, HEX_ID]
    held: Annotated[Mapping[str, Mapping[str, Any]], HELD]
    at: Annotated[int, UINT]
    root: Annotated[int, Integer(1)] = 1
    reads: Annotated[tuple[str, ...], ListOf(IDENTIFIER, 16, unique=True)] = ()


@dataclass(frozen=True)
class Acknowledgement(Record):
    """Say what became of a bundle or a notice.

    Args:
        audience: who says it.
        domain: the domain.
        what: `bundle` or `notice`.
        number: the bundle's revision or the notice's number.
        digest: of the bundle's header; empty for a notice.
        status: `received`, `applied` or `rejected`.
        reason: the protocol's word where it was rejected, else empty.
        at: the audience's own clock, seconds since 1970.
        held: what is in force now, as in a lease request.
    """

    audience: Annotated[str, AUDIENCE]
    domain: Annotated[str, IDENTIFIER]
    what: Annotated[str, Choice(("bundle", "notice"))]
    number: Annotated[int, UINT]
    digest: Annotated[str, DIGEST_OR_EMPTY]
    status: Annotated[str, Choice(("received", "applied", "rejected"))]
    reason: Annotated[str, SENTENCE]
    at: Annotated[int, UINT]
    held: Annotated[Mapping[str, Mapping[str, Any]], HELD]


def sign_lease_request(request: LeaseRequest, signing_key: SigningKey) -> Request:
    """Sign a lease request as its audience; `.encode()` gives the bytes to send."""
    return signed_request("lease", LEASE_REQUEST, request.audience, request, signing_key)


def verify_lease_request(request: Request, public: bytes) -> LeaseRequest:
    """Check a lease request.

    Args:
        request: as decoded from the requests queue.
        public: the audience's registered Ed25519 key, 32 bytes.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    asked = verified_request("lease", LEASE_REQUEST, LeaseRequest, request, public)
    if asked.audience != request.audience:
        reject("audience", "the request speaks for someone else")
    return asked


def sign_ack(ack: Acknowledgement, signing_key: SigningKey) -> Request:
    """Sign an acknowledgement as its audience; `.encode()` gives the bytes to send."""
    return signed_request("ack", ACKNOWLEDGEMENT, ack.audience, ack, signing_key)


def verify_ack(request: Request, public: bytes) -> Acknowledgement:
    """Check an acknowledgement.

    Args:
        request: as decoded from the requests queue.
        public: the audience's registered Ed25519 key, 32 bytes.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    ack = verified_request("ack", ACKNOWLEDGEMENT, Acknowledgement, request, public)
    if ack.audience != request.audience:
        reject("audience", "the acknowledgement speaks for someone else")
    return ack


_AnyRecord = TypeVar("_AnyRecord", bound=Record)


def signed_request(
    kind: str, purpose: bytes, audience: str, record: Record, signing_key: SigningKey
) -> Request:
    """Sign a record of any kind as its audience."""
    body = write_body(record)
    return Request(kind, audience, body, sign(signing_key, purpose, body))


def verified_request(
    kind: str, purpose: bytes, record: type[_AnyRecord], request: Request, public: bytes
) -> _AnyRecord:
    """Check a request of any kind; whom it speaks for is the caller's to compare.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    if request.kind != kind:
        reject("malformed", "the request is of another kind")
    try:
        verify(public, request.signature, purpose, request.body)
    except SignatureError as error:
        raise RejectedError("signature", "the signature does not verify") from error
    return read_body(record, request.body)
