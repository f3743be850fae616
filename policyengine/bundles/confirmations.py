"""What a client tells its home agent of deliveries it is done with, and what waits until then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from policyengine.bundles.contexts import BACKLOG, CONFIRM
from policyengine.bundles.hops import RoutedPart
from policyengine.bundles.limits import MAX_MESSAGE, MAX_SMALL
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
from policyengine.primitives.records import IDENTIFIER, UINT, Binary, ListOf, Record, Text
from policyengine.primitives.signatures import SigningKey, sign

MOST_CONFIRMED: Final = 8192
"""Most deliveries that one confirmation names."""
_QUESTION = Text("([0-9a-f]{32})?", 32, "must be 32 hexadecimal digits or nothing")
_KEYS = ListOf(Binary(16, 16), MOST_CONFIRMED)


@dataclass(frozen=True)
class Confirmation(Record):
    """What a client is done with. An empty one says that from now on it confirms.

    Args:
        domain: whose events.
        client: its handle.
        issued: seconds since 1970.
        done: 16 bytes for each delivery that was acknowledged since the last confirmation.
        answers: the agent's question of what is left, as 32 hexadecimal digits, or empty.
        held: where it answers: what came before the question and is not acknowledged yet.
    """

    domain: Annotated[str, IDENTIFIER]
    client: Annotated[str, IDENTIFIER]
    issued: Annotated[int, UINT]
    done: Annotated[tuple[bytes, ...], _KEYS] = ()
    answers: Annotated[str, _QUESTION] = ""
    held: Annotated[tuple[bytes, ...], _KEYS] = ()


@dataclass(frozen=True)
class SignedConfirmation:
    """An opened confirmation whose client's signature is the caller's to check.

    Args:
        confirmation: what it says.
        signed: body and signature.
        agent: the agent that it was signed for.
    """

    confirmation: Confirmation
    signed: Signed
    agent: str

    def verify(self, public: bytes) -> None:
        """Check that the client signed this for this agent.

        Args:
            public: the Ed25519 key registered for `confirmation.client`, 32 bytes.

        Raises:
            RejectedError: `signature`.
        """
        check_signature(CONFIRM, self.signed, address=self.agent, public=public)


def seal_confirmation(
    confirmation: Confirmation, *, signing_key: SigningKey, recipient: bytes, agent: str
) -> bytes:
    """Sign a confirmation as its client and seal it to an agent.

    Args:
        confirmation: what is confirmed.
        signing_key: the client's key.
        recipient: the agent's public X25519 key, 32 bytes.
        agent: the agent's name.
    """
    return seal_body(
        CONFIRM,
        write_body(confirmation),
        address=agent,
        signer=confirmation.client,
        sign=partial(sign, signing_key),
        recipient=recipient,
        limit=MAX_SMALL,
    )


def open_confirmation(data: bytes, *, key: SealingKey, agent: str) -> SignedConfirmation:
    """Open a confirmation; call `.verify` with the client's key before acting on it.

    Args:
        data: the sealed message.
        key: the agent's own key.
        agent: the agent's own name.

    Raises:
        RejectedError: `malformed`.
    """
    signed = open_body(CONFIRM, data, address=agent, key=key, limit=MAX_SMALL)
    confirmation = read_body(Confirmation, signed.body)
    if signed.signer != confirmation.client:
        reject("malformed", "the confirmation names two clients")
    return SignedConfirmation(confirmation, signed, agent)


def seal_waiting(
    routed: RoutedPart, *, signing_key: SigningKey, recipient: bytes, agent: str
) -> bytes:
    """Put a part away where only this agent can read it, and nobody can change it.

    Args:
        routed: the part, protected attributes encrypted.
        signing_key: the agent's own key.
        recipient: the agent's own public X25519 key, 32 bytes.
        agent: the agent's own name.

    Raises:
        InputError: `too-large` over 8 MiB.
    """
    return seal_body(
        BACKLOG,
        write_body(routed),
        address=agent,
        signer=agent,
        sign=partial(sign, signing_key),
        recipient=recipient,
        limit=MAX_MESSAGE,
    )


def open_waiting(data: bytes, *, key: SealingKey, public: bytes, agent: str) -> RoutedPart:
    """Open what this agent put away.

    Args:
        data: from `seal_waiting`.
        key: the agent's own key.
        public: the agent's own Ed25519 key, 32 bytes.
        agent: the agent's own name.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    signed = open_body(BACKLOG, data, address=agent, key=key, limit=MAX_MESSAGE)
    check_signature(BACKLOG, signed, address=agent, public=public)
    return read_body(RoutedPart, signed.body)
