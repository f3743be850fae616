"""Frames around payloads: what kind a message is, before anything is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policyengine.bundles.limits import AUDIENCE, MAX_MESSAGE, MAX_SMALL, SIGNATURE_SIZE
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import pack, unpack
from policyengine.primitives.records import IDENTIFIER

REQUEST_KINDS: Final = ("lease", "ack", "decisions", "filter-key")
CONTROL_KINDS: Final = ("bundle", "chunk", "notice", "lease", "root", "filter-key")
CLIENT_KINDS: Final = ("publication", "subscribe", "delivery", "reply", "confirm")

_FRAME_ROOM: Final = 4096
_OF_NO_DOMAIN: Final = ("lease", "root")


@dataclass(frozen=True)
class Request:
    """What an audience sends to the control plane; signed by the audience.

    Args:
        kind: `lease`, `ack`, `decisions` or `filter-key`.
        audience: who says that it sends it; true only once the signature is checked.
        body: canonical JSON.
        signature: 64 bytes.
    """

    kind: str
    audience: str
    body: bytes
    signature: bytes

    def encode(self) -> bytes:
        """Return the bytes for the requests queue."""
        return encode_request(self.kind, self.audience, self.body, self.signature)


@dataclass(frozen=True)
class Control:
    """What the control plane sends to an audience.

    Args:
        kind: `bundle`, `chunk` (of a bundle), `notice`, `lease`, `root` or `filter-key`.
        domain: the domain, or empty for a lease or roots, which concern all domains.
        payload: the sealed message; roots are public and signed by their holders alone.
    """

    kind: str
    domain: str
    payload: bytes


def encode_request(kind: str, audience: str, body: bytes, signature: bytes) -> bytes:
    """Frame a request for the requests queue.

    Raises:
        InputError: `invalid` for another kind, audience or length of signature;
            `too-large` for a body over 1 MiB.
    """
    if kind not in REQUEST_KINDS:
        raise InputError("invalid", f"`{kind}` is no kind of request", where="kind")
    if len(signature) != SIGNATURE_SIZE:
        raise InputError("invalid", "a signature has 64 bytes", where="signature")
    if len(body) > MAX_SMALL:
        raise InputError("too-large", f"a request has at most {MAX_SMALL} bytes", where="body")
    sender = AUDIENCE.clean(audience, "audience")
    return pack(kind.encode(), sender.encode(), body, signature)


def decode_request(data: bytes) -> Request:
    """Read a request; nothing of it is verified yet.

    Raises:
        DecodeError: it is not what `encode_request` writes.
    """
    _cap(data, MAX_SMALL + _FRAME_ROOM)
    kind, audience, body, signature = unpack(data, 4)
    try:
        request = Request(_ascii(kind), _ascii(audience), body, signature)
        request.encode()
    except InputError as error:
        raise DecodeError(error.message) from error
    return request


def encode_control(kind: str, domain: str, payload: bytes) -> bytes:
    """Frame a message for a control queue.

    Raises:
        InputError: `invalid` for another kind or domain; `too-large`.
    """
    if kind not in CONTROL_KINDS:
        raise InputError("invalid", f"`{kind}` is no kind of control message", where="kind")
    if domain or kind not in _OF_NO_DOMAIN:
        IDENTIFIER.clean(domain, "domain")
    _fits(payload)
    return pack(kind.encode(), domain.encode(), payload)


def decode_control(data: bytes) -> Control:
    """Read a control message; nothing of it is verified yet.

    Raises:
        DecodeError: it is not what `encode_control` writes.
    """
    _cap(data, MAX_MESSAGE + _FRAME_ROOM)
    kind, domain, payload = unpack(data, 3)
    control = Control(_ascii(kind), _ascii(domain), payload)
    try:
        encode_control(control.kind, control.domain, b"")
        _fits(payload)
    except InputError as error:
        raise DecodeError(error.message) from error
    return control


def encode_framed(kind: str, payload: bytes) -> bytes:
    """Frame a message between a client and an agent.

    Raises:
        InputError: `invalid` for another kind; `too-large`.
    """
    if kind not in CLIENT_KINDS:
        raise InputError("invalid", f"`{kind}` is no kind of message", where="kind")
    _fits(payload)
    return pack(kind.encode(), payload)


def decode_framed(data: bytes) -> tuple[str, bytes]:
    """Read a message between a client and an agent; nothing of it is verified yet.

    Returns:
        The kind and the sealed payload.

    Raises:
        DecodeError: it is not what `encode_framed` writes.
    """
    _cap(data, MAX_MESSAGE + _FRAME_ROOM)
    kind, payload = unpack(data, 2)
    name = _ascii(kind)
    if name not in CLIENT_KINDS:
        raise DecodeError("the message is of no known kind")
    if len(payload) > MAX_MESSAGE:
        raise DecodeError("the message is too large")
    return name, payload


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise DecodeError("a frame's fields are ASCII") from error


def _cap(data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise DecodeError("the message is too large")


def _fits(payload: bytes) -> None:
    if len(payload) > MAX_MESSAGE:
        raise InputError("too-large", f"a message has at most {MAX_MESSAGE} bytes")
