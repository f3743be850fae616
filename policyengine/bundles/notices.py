"""Notices: the small signed messages that stop a revoked party at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from policyengine.bundles.contexts import NOTICE
from policyengine.bundles.floors import NO_FLOORS, Floors
from policyengine.bundles.limits import AUDIENCE, MAX_SMALL
from policyengine.bundles.sealing import (
    Sign,
    open_authority_body,
    read_body,
    reject,
    seal_body,
    signed_payload,
    write_body,
)
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.records import (
    IDENTIFIER,
    LABEL,
    SENTENCE,
    UINT,
    Integer,
    ListOf,
    Nested,
    Record,
)


@dataclass(frozen=True)
class Notice(Record):
    """Deny from now on: some handles under any revision, others until one that knows better.

    Args:
        number: from 1, counted without holes for the audience and domain.
        audience: whom it is for.
        domain: the domain.
        revocation: identifier of the revocation.
        deny: handles that get and give nothing any more.
        reason: for people.
        issued: seconds since 1970.
        floors: who lost something, and the revision from which that is in the policy itself.
    """

    number: Annotated[int, Integer(1)]
    audience: Annotated[str, AUDIENCE]
    domain: Annotated[str, IDENTIFIER]
    revocation: Annotated[str, LABEL]
    deny: Annotated[tuple[str, ...], ListOf(IDENTIFIER, 10_000, unique=True)]
    reason: Annotated[str, SENTENCE]
    issued: Annotated[int, UINT]
    floors: Annotated[Floors, Nested(Floors)] = NO_FLOORS


def notice_payload(notice: Notice) -> bytes:
    """What the notice key signs, in the context `contexts.NOTICE`: address and body.

    Whoever seals many notices has all of them signed at once and gives `seal_notice` a `sign`
    that looks the signature up.
    """
    return signed_payload(write_body(notice), address=notice.audience)


def seal_notice(notice: Notice, *, sign: Sign, recipient: bytes) -> bytes:
    """Sign a notice with the notice key and seal it for its audience.

    Args:
        notice: the notice.
        sign: signs (context, payload) with the notice key.
        recipient: the audience's public X25519 key, 32 bytes.

    Raises:
        InputError: `too-large` over 1 MiB.
    """
    return seal_body(
        NOTICE,
        write_body(notice),
        address=notice.audience,
        signer="",
        sign=sign,
        recipient=recipient,
        limit=MAX_SMALL,
    )


def open_notice(data: bytes, *, key: SealingKey, audience: str, notice_key: bytes) -> Notice:
    """Open a notice and check it.

    Args:
        data: the sealed message.
        key: the audience's own key.
        audience: who opens it.
        notice_key: pinned public Ed25519 key, 32 bytes.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    body = open_authority_body(
        NOTICE, data, address=audience, key=key, limit=MAX_SMALL, public=notice_key
    )
    notice = read_body(Notice, body)
    if notice.audience != audience:
        reject("audience", "the notice is for someone else")
    return notice
