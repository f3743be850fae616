"""Signed, then sealed: what all messages between two parties share.

A message is HPKE(pack(signer, body, signature)). The signature covers the recipient's
address beside the body: who receives a message cannot seal it anew for someone else
and pass it off as the signer's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from policyengine.errors import (
    DecodeError,
    DecryptionError,
    InputError,
    RejectedError,
    SignatureError,
)
from policyengine.primitives.canonical import dumps, loads, pack, unpack
from policyengine.primitives.hpke import SealingKey, open_sealed, seal_to
from policyengine.primitives.records import Record
from policyengine.primitives.signatures import verify

Sign = Callable[[bytes, bytes], bytes]
"""Signs (context, payload) with a key that the caller does not see."""

AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Signed:
    """An opened message whose signature has not been checked yet.

    Args:
        signer: who claims to have signed: an agent's name, a handle, or empty.
        body: the exact bytes that were signed.
        signature: 64 bytes.
    """

    signer: str
    body: bytes
    signature: bytes


def signed_payload(body: bytes, *, address: str) -> bytes:
    """What is signed of a body for an address, so that it is good at no other."""
    return pack(address.encode(), body)


def seal_body(
    purpose: bytes,
    body: bytes,
    *,
    address: str,
    signer: str,
    sign: Sign,
    recipient: bytes,
    limit: int,
) -> bytes:
    """Sign a body for an address and seal it to the holder of a key.

    Args:
        purpose: one of `contexts`.
        body: canonical JSON.
        address: whom it is for: an audience, an agent's name or a handle.
        signer: name under which the recipient looks up the verification key.
        sign: makes the signature over (purpose, `signed_payload` of the body).
        recipient: public X25519 key, 32 bytes.
        limit: most bytes of the sealed message.

    Raises:
        InputError: `too-large`, or `invalid` when the recipient's key is not one.
    """
    signature = sign(purpose, signed_payload(body, address=address))
    message = seal_to(
        recipient, pack(signer.encode(), body, signature), info=seal_info(purpose, address)
    )
    if len(message) > limit:
        raise InputError("too-large", f"the message has more than {limit} bytes")
    return message


def open_body(purpose: bytes, data: bytes, *, address: str, key: SealingKey, limit: int) -> Signed:
    """Open what `seal_body` made; the signature is the caller's to check.

    Raises:
        RejectedError: `malformed`.
    """
    if len(data) > limit:
        reject("malformed", "the message is too large")
    try:
        opened = open_sealed(key, data, info=seal_info(purpose, address))
        signer, body, signature = unpack(opened, 3)
        return Signed(signer.decode("ascii"), body, signature)
    except (DecryptionError, DecodeError, UnicodeDecodeError) as error:
        raise RejectedError("malformed", "the message does not open") from error


def check_signature(purpose: bytes, signed: Signed, *, address: str, public: bytes) -> None:
    """Check the signature of an opened message.

    Raises:
        RejectedError: `signature`.
    """
    payload = signed_payload(signed.body, address=address)
    try:
        verify(public, signed.signature, purpose, payload)
    except SignatureError as error:
        raise RejectedError("signature", "the signature does not verify") from error


def open_authority_body(
    purpose: bytes, data: bytes, *, address: str, key: SealingKey, limit: int, public: bytes
) -> bytes:
    """Open what the authority signed, check it, and return the body.

    Args:
        purpose: one of `contexts`.
        data: the sealed message.
        address: whom it is for.
        key: the recipient's own key.
        limit: most bytes of the message.
        public: pinned public Ed25519 key of the authority, 32 bytes.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    signed = open_body(purpose, data, address=address, key=key, limit=limit)
    # The signature does not cover the name. What names no signer is read in one form alone.
    if signed.signer:
        reject("malformed", "the message names a signer")
    check_signature(purpose, signed, address=address, public=public)
    return signed.body


def read_body(record: type[AnyRecord], body: bytes) -> AnyRecord:
    """Read a record from canonical JSON.

    Raises:
        RejectedError: `malformed`.
    """
    try:
        return record.from_json(loads(body))
    except DecodeError as error:
        raise RejectedError("malformed", str(error)) from error


def write_body(record: Record) -> bytes:
    """Write a record as canonical JSON."""
    return dumps(record.to_json())


def seal_info(purpose: bytes, address: str) -> bytes:
    """Return the context that a seal is bound to."""
    return purpose + b"|" + address.encode()


def look_up(verify_key: Callable[[str], bytes], name: str) -> bytes:
    """Ask the caller for the verification key of a name.

    Args:
        verify_key: returns 32 bytes; raises KeyError for a name that it does not know.
        name: what the message says, unchecked.

    Raises:
        RejectedError: `signature` for an unknown name.
    """
    try:
        return verify_key(name)
    except KeyError as error:
        raise RejectedError("signature", "the signer is not known") from error


def reject(reason: str, message: str) -> NoReturn:
    """Refuse with one of the protocol's words."""
    raise RejectedError(reason, message)
