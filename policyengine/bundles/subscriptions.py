"""Subscriptions, and the agent's replies to clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from policyengine.bundles.contexts import REPLY, SUBSCRIBE
from policyengine.bundles.limits import MAX_SMALL
from policyengine.bundles.publications import PART
from policyengine.bundles.sealing import (
    Signed,
    check_signature,
    look_up,
    open_body,
    read_body,
    reject,
    seal_body,
    write_body,
)
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.records import (
    HEX_ID,
    IDENTIFIER,
    LABEL,
    SENTENCE,
    UINT,
    Binary,
    Boolean,
    Choice,
    ListOf,
    Record,
    Text,
    invalid,
)
from policyengine.primitives.signatures import SigningKey, sign

MAX_FILTER = 65_536


@dataclass(frozen=True)
class SubscribeRequest(Record):
    """Begin or end a subscription.

    Args:
        domain: the domain.
        client: the subscriber's handle.
        request: random, 32 hexadecimal digits; the reply names it.
        subscription: the client's name for the subscription.
        action: `subscribe` or `unsubscribe`.
        type: event type; its sub-types are included.
        filter: expression over the event's attributes; empty for all events.
        issued: seconds since 1970.
        blind: the filter as `blind.BlindFilter`, once for every blind epoch that is open, where
            it names attributes that agents may not have; `filter` is then what every such event
            meets of the others.
        ordered: `ope.RangeFilter`: what the filter asks of order-preserving attributes, beside
            all the rest; empty for nothing.
        reads: forms of deliveries that the client reads beside the first one: `sessions`. Agents
            pass over words that they do not know.
    """

    domain: Annotated[str, IDENTIFIER]
    client: Annotated[str, IDENTIFIER]
    request: Annotated[str, HEX_ID]
    subscription: Annotated[str, IDENTIFIER]
    action: Annotated[str, Choice(("subscribe", "unsubscribe"))]
    type: Annotated[str, LABEL]
    filter: Annotated[str, Text(None, MAX_FILTER, "must be an expression of at most 64 KiB")]
    issued: Annotated[int, UINT]
    blind: Annotated[tuple[bytes, ...], ListOf(Binary(1, MAX_SMALL), 8)] = ()
    ordered: Annotated[bytes, Binary(0, MAX_SMALL)] = b""
    reads: Annotated[tuple[str, ...], ListOf(IDENTIFIER, 16, unique=True)] = ()


@dataclass(frozen=True)
class SignedSubscribe:
    """An opened request whose client's signature is the caller's to check.

    Args:
        request: what it says.
        body: the exact bytes that were signed.
        signature: 64 bytes.
        agent: the agent that it was signed for.
    """

    request: SubscribeRequest
    body: bytes
    signature: bytes
    agent: str

    def verify(self, public: bytes) -> None:
        """Check that the client signed this request for this agent.

        Args:
            public: the Ed25519 key registered for `request.client`, 32 bytes.

        Raises:
            RejectedError: `signature`.
        """
        signed = Signed(self.request.client, self.body, self.signature)
        check_signature(SUBSCRIBE, signed, address=self.agent, public=public)


@dataclass(frozen=True)
class Reply(Record):
    """An agent's answer to one publication's part or one request.

    Args:
        request: the publication's or the request's identifier, 32 hexadecimal digits.
        part: index of the part that is answered; 0 for a request.
        ok: whether it was accepted.
        reason: one word where it was not, else empty.
        message: the same for a person.
        dropped: attributes that were dropped because the client may not write them.
        agent: name of the agent that answers.
        again: seconds since 1970 from which asking again may help; 0 where nothing is said.
    """

    request: Annotated[str, HEX_ID]
    part: Annotated[int, PART]
    ok: Annotated[bool, Boolean()]
    reason: Annotated[str, SENTENCE]
    message: Annotated[str, SENTENCE]
    dropped: Annotated[tuple[str, ...], ListOf(LABEL, 1024)]
    agent: Annotated[str, IDENTIFIER]
    again: Annotated[int, UINT] = 0

    def _agree(self) -> None:
        if self.ok and self.again:
            raise invalid("again", "must be left out of a reply that accepts")


def seal_subscribe(
    request: SubscribeRequest, *, signing_key: SigningKey, recipient: bytes, agent: str
) -> bytes:
    """Sign a request as its client and seal it to the home agent.

    Args:
        request: the request.
        signing_key: the client's key.
        recipient: the agent's public X25519 key, 32 bytes.
        agent: the agent's name.
    """
    return seal_body(
        SUBSCRIBE,
        write_body(request),
        address=agent,
        signer=request.client,
        sign=partial(sign, signing_key),
        recipient=recipient,
        limit=MAX_SMALL,
    )


def open_subscribe(data: bytes, *, key: SealingKey, agent: str) -> SignedSubscribe:
    """Open a request; call `.verify` with the client's key before acting on it.

    Args:
        data: the sealed message.
        key: the agent's own key.
        agent: the agent's own name.

    Raises:
        RejectedError: `malformed`.
    """
    signed = open_body(SUBSCRIBE, data, address=agent, key=key, limit=MAX_SMALL)
    request = read_body(SubscribeRequest, signed.body)
    if signed.signer != request.client:
        reject("malformed", "the request names two clients")
    return SignedSubscribe(request, signed.body, signed.signature, agent)


def seal_reply(reply: Reply, *, signing_key: SigningKey, recipient: bytes, handle: str) -> bytes:
    """Sign a reply as the agent and seal it to one client.

    Args:
        reply: the reply.
        signing_key: the agent's key.
        recipient: the client's public X25519 key, 32 bytes.
        handle: the client's handle.
    """
    return seal_body(
        REPLY,
        write_body(reply),
        address=handle,
        signer=reply.agent,
        sign=partial(sign, signing_key),
        recipient=recipient,
        limit=MAX_SMALL,
    )


def open_reply(
    data: bytes, *, key: SealingKey, handle: str, verify: Callable[[str], bytes]
) -> Reply:
    """Open a reply and check it.

    Args:
        data: the sealed message.
        key: the client's own key.
        handle: the client's own handle.
        verify: agent's name -> its public Ed25519 key; raises KeyError if unknown.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    signed = open_body(REPLY, data, address=handle, key=key, limit=MAX_SMALL)
    check_signature(REPLY, signed, address=handle, public=look_up(verify, signed.signer))
    reply = read_body(Reply, signed.body)
    if reply.agent != signed.signer:
        reject("malformed", "the reply names two agents")
    return reply
