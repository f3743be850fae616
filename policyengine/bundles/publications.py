"""A publication on its way from the publisher's client to its home agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from policyengine.bundles.contexts import PUBLICATION
from policyengine.bundles.limits import BLIND, MAX_MESSAGE, MAX_PARTS, ORDERED, TAGS, values_codec
from policyengine.bundles.sealing import (
    Signed,
    check_signature,
    open_body,
    read_body,
    reject,
    seal_body,
    write_body,
)
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.records import (
    DIGEST,
    HEX_ID,
    IDENTIFIER,
    LABEL,
    UINT,
    Integer,
    Record,
    invalid,
)
from policyengine.primitives.signatures import SigningKey, sign

PART = Integer(0, MAX_PARTS - 1)
PARTS = Integer(1, MAX_PARTS)
VALUES = values_codec()
Value = str | int | float | bool


@dataclass(frozen=True)
class PublicationPart(Record):
    """The part of a publication that travels over one overlay.

    Args:
        domain: the domain.
        publication: random, 32 hexadecimal digits; the same in all its parts.
        type: event type.
        publisher: the publisher's handle.
        part: index of this part, from 0.
        parts: how many there are, at most 64.
        overlay: the overlay that the part is for.
        epoch: encoding epoch of the tags.
        policy: digest of the bundle that the publisher's client holds.
        issued: seconds since 1970.
        tags: routing tags, 16 bytes each.
        attributes: name -> value.
        blind: `blind.BlindPart`, of the attributes that agents may not have.
        ordered: `ope.RangeValues`, of the attributes that agents compare without reading.
    """

    domain: Annotated[str, IDENTIFIER]
    publication: Annotated[str, HEX_ID]
    type: Annotated[str, LABEL]
    publisher: Annotated[str, IDENTIFIER]
    part: Annotated[int, PART]
    parts: Annotated[int, PARTS]
    overlay: Annotated[str, IDENTIFIER]
    epoch: Annotated[int, UINT]
    policy: Annotated[str, DIGEST]
    issued: Annotated[int, UINT]
    tags: Annotated[tuple[bytes, ...], TAGS]
    attributes: Annotated[Mapping[str, Value], VALUES]
    blind: Annotated[bytes, BLIND] = b""
    ordered: Annotated[bytes, ORDERED] = b""

    def _agree(self) -> None:
        if self.part >= self.parts:
            raise invalid("part", "must be below the number of parts")


@dataclass(frozen=True)
class SignedPart:
    """An opened part whose publisher's signature is the caller's to check.

    Args:
        part: what it says.
        body: the exact bytes that were signed.
        signature: 64 bytes.
        agent: the agent that it was signed for.
    """

    part: PublicationPart
    body: bytes
    signature: bytes
    agent: str

    def verify(self, public: bytes) -> None:
        """Check that the publisher signed this part for this agent.

        Args:
            public: the Ed25519 key registered for `part.publisher`, 32 bytes.

        Raises:
            RejectedError: `signature`.
        """
        signed = Signed(self.part.publisher, self.body, self.signature)
        check_signature(PUBLICATION, signed, address=self.agent, public=public)


def seal_publication(
    part: PublicationPart, *, signing_key: SigningKey, recipient: bytes, agent: str
) -> bytes:
    """Sign a part as its publisher and seal it to the home agent.

    Args:
        part: the part.
        signing_key: the publisher's key.
        recipient: the agent's public X25519 key, 32 bytes.
        agent: the agent's name.

    Raises:
        InputError: `too-large` over 8 MiB.
    """
    return seal_body(
        PUBLICATION,
        write_body(part),
        address=agent,
        signer=part.publisher,
        sign=partial(sign, signing_key),
        recipient=recipient,
        limit=MAX_MESSAGE,
    )


def open_publication(data: bytes, *, key: SealingKey, agent: str) -> SignedPart:
    """Open a part; call `.verify` with the publisher's key before acting on it.

    Args:
        data: the sealed message.
        key: the agent's own key.
        agent: the agent's own name.

    Raises:
        RejectedError: `malformed`.
    """
    signed = open_body(PUBLICATION, data, address=agent, key=key, limit=MAX_MESSAGE)
    part = read_body(PublicationPart, signed.body)
    if signed.signer != part.publisher:
        reject("malformed", "the part names two publishers")
    return SignedPart(part, signed.body, signed.signature, agent)
