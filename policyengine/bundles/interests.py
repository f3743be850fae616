"""What agents of one overlay tell each other about routing, beside the events themselves.

    interest = pack(kind, key epoch, AES-256-GCM(pack(agent, body, signature)))
    carried  = pack(kind, key epoch, AES-256-GCM(body), hop)
    taken    = pack(kind, key epoch, AES-256-GCM(body))

All three travel on the queues of hops, so that the broker keeps them in order with the
events. The key is the overlay's; an interest is signed by its agent besides. A carried
hop is a hop as `seal_hop` made it, unchanged, with orders for the agents on its way.

Source: paper 002, section 3.1 (rendezvous nodes, coverage) and formula 3 (a filter under
any of a set of keys).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Final

from policyengine.bundles.contexts import CARRIAGE, INTEREST, TAKEN
from policyengine.bundles.hops import CIPHERTEXT, overlay_key
from policyengine.bundles.limits import MAX_MESSAGE, MAX_SMALL
from policyengine.bundles.sealing import look_up, read_body, reject, write_body
from policyengine.errors import (
    DecodeError,
    DecryptionError,
    InputError,
    RejectedError,
    SignatureError,
)
from policyengine.primitives import aead
from policyengine.primitives.canonical import b64, pack, unb64, unpack, unpack_all
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.records import (
    IDENTIFIER,
    LABEL,
    UINT,
    Binary,
    Boolean,
    ListOf,
    MapOf,
    Nested,
    Record,
    Text,
    invalid,
)
from policyengine.primitives.signatures import SigningKey, sign, verify

LONGEST_INTEREST: Final = 3600
"""Most seconds for which an announcement may hold."""
MAX_PATH: Final = 32
"""Most agents that a hop may pass: its time to live."""

_KINDS: Final = {b"hop/interest": "interest", b"hop/carried": "carried", b"hop/taken": "taken"}
_NAMES: Final = {name: kind for kind, name in _KINDS.items()}
_BLOCK: Final = 64  # filters come in steps, so that their length says little


@dataclass(frozen=True)
class InterestFilter(Record):
    """One condition of an interest: in clear, or under any of some attribute keys.

    Args:
        expression: over attributes that are clear for the type; empty where it is sealed.
        sealed: key name -> `<epoch>:<base64>` of the same expression; empty in clear.
    """

    expression: Annotated[str, Text(limit=65_536)]
    sealed: Annotated[Mapping[str, str], MapOf(LABEL, CIPHERTEXT, 64)] = field(default_factory=dict)

    def _agree(self) -> None:
        if bool(self.expression) == bool(self.sealed):
            raise invalid("expression", "must be either in clear or under keys")


@dataclass(frozen=True)
class Interest(Record):
    """Events that an agent wants: of a type and its sub-types, that meet all filters.

    Args:
        type: event type.
        filters: none wants every event.
    """

    type: Annotated[str, LABEL]
    filters: Annotated[tuple[InterestFilter, ...], ListOf(Nested(InterestFilter), 64)]


@dataclass(frozen=True)
class Announcement(Record):
    """All that one agent wants of some event types, told to one other agent.

    What it wants of types outside `scope` it does not say.

    Args:
        domain: the domain.
        overlay: the overlay of both.
        agent: who wants.
        to: who is told.
        number: rises with every announcement of this agent.
        issued: seconds since 1970.
        expires: seconds since 1970; says nothing from then on. At most
            `LONGEST_INTEREST` after `issued`.
        scope: the types that it speaks of completely.
        interests: what it wants of them.
        asks: whether it asks to be told in its turn.
    """

    domain: Annotated[str, IDENTIFIER]
    overlay: Annotated[str, IDENTIFIER]
    agent: Annotated[str, IDENTIFIER]
    to: Annotated[str, IDENTIFIER]
    number: Annotated[int, UINT]
    issued: Annotated[int, UINT]
    expires: Annotated[int, UINT]
    scope: Annotated[tuple[str, ...], ListOf(LABEL, 4096, unique=True)]
    interests: Annotated[tuple[Interest, ...], ListOf(Nested(Interest), 4096)]
    asks: Annotated[bool, Boolean()]

    def _agree(self) -> None:
        if not self.issued < self.expires <= self.issued + LONGEST_INTEREST:
            raise invalid("expires", f"must be at most {LONGEST_INTEREST} seconds after `issued`")


@dataclass(frozen=True)
class Carriage(Record):
    """Orders that travel with a hop.

    Args:
        domain: the domain.
        overlay: the overlay.
        path: agents that it has passed, the sender last; it returns to none of them.
        to: agents that it is for.
        distribute: whether these send it on, by the interests that they know.
    """

    domain: Annotated[str, IDENTIFIER]
    overlay: Annotated[str, IDENTIFIER]
    path: Annotated[tuple[str, ...], ListOf(IDENTIFIER, MAX_PATH, unique=True)]
    to: Annotated[tuple[str, ...], ListOf(IDENTIFIER, 10_000, unique=True)]
    distribute: Annotated[bool, Boolean()]

    def _agree(self) -> None:
        if not self.path:
            raise invalid("path", "must begin with the first sender")
        if not self.to:
            raise invalid("to", "must name an agent")


@dataclass(frozen=True)
class Taken(Record):
    """Tells an event's home agent that a rendezvous agent has sent events on.

    Args:
        domain: the domain.
        agent: the rendezvous agent.
        to: the home agent.
        keys: of the events, 16 bytes each.
    """

    domain: Annotated[str, IDENTIFIER]
    agent: Annotated[str, IDENTIFIER]
    to: Annotated[str, IDENTIFIER]
    keys: Annotated[tuple[bytes, ...], ListOf(Binary(16, 16), 4096)]


def hop_kind(data: bytes) -> str:
    """Tell what a message on a hop queue is; nothing of it is verified yet.

    Returns:
        `interest`, `carried`, `taken`, or `event` for everything else.
    """
    size = int.from_bytes(data[:4], "big")
    return _KINDS.get(data[4 : 4 + size], "event") if size < 32 else "event"


def seal_expression(
    text: str,
    keys: Mapping[str, tuple[int, bytes]],
    *,
    domain: str,
    agent: str,
    random: RandomSource,
) -> dict[str, str]:
    """Encrypt a filter under each of some attribute keys (paper 002, formula 3).

    Args:
        text: the expression.
        keys: key name -> epoch and 32 bytes.
        domain: what it is bound to, with `agent`.
        agent: who announces it.
        random: source of nonces.
    """
    plain = text.encode()
    padded = plain.ljust(-(-len(plain) // _BLOCK) * _BLOCK, b" ")
    return {
        name: f"{epoch}:"
        + b64(aead.seal(key, padded, aad=_bound(domain, agent, name, epoch), random=random))
        for name, (epoch, key) in keys.items()
    }


def open_expression(
    sealed: Mapping[str, str],
    keys: Mapping[tuple[str, int], bytes],
    *,
    domain: str,
    agent: str,
) -> str | None:
    """Read a filter with one of the keys that are held; None without any.

    Args:
        sealed: key name -> `<epoch>:<base64>`.
        keys: (key name, epoch) -> 32 bytes.
        domain: as when it was sealed.
        agent: as when it was sealed.

    Raises:
        DecryptionError: it does not open under a key that is held.
    """
    for name, entry in sealed.items():
        number, _, data = entry.partition(":")
        key = keys.get((name, int(number)))
        if key is None:
            continue
        try:
            bound = _bound(domain, agent, name, int(number))
            return aead.open_(key, unb64(data), aad=bound).decode().rstrip(" ")
        except (DecodeError, UnicodeDecodeError) as error:
            raise DecryptionError("the filter does not open") from error
    return None


def seal_announcement(
    announcement: Announcement,
    *,
    signing_key: SigningKey,
    hop_key: bytes,
    epoch: int,
    random: RandomSource,
) -> bytes:
    """Sign an announcement as its agent and encrypt it for the overlay's agents.

    Args:
        announcement: what to tell.
        signing_key: the agent's key.
        hop_key: the overlay's key, 32 bytes.
        epoch: epoch of that key.
        random: source of the nonce.

    Raises:
        InputError: `too-large` over 1 MiB.
    """
    body = write_body(announcement)
    inner = pack(announcement.agent.encode(), body, sign(signing_key, INTEREST, body))
    message = _seal("interest", inner, INTEREST, (epoch, hop_key), random=random)
    if len(message) > MAX_SMALL:
        raise InputError("too-large", f"an announcement has at most {MAX_SMALL} bytes")
    return message


def open_announcement(
    data: bytes, *, hop_keys: Mapping[int, bytes], verify_key: Callable[[str], bytes]
) -> Announcement:
    """Open an announcement and check its signature.

    The caller checks domain, overlay, recipient, number and validity.

    Args:
        data: the message.
        hop_keys: epoch -> the overlay's key, for epochs that may still be opened.
        verify_key: agent's name -> its public Ed25519 key; raises KeyError if unknown.

    Raises:
        RejectedError: `epoch` or `epoch-retired` (no key of that epoch), `malformed` or
            `signature`.
    """
    opened, _ = _open(data, "interest", INTEREST, hop_keys, limit=MAX_SMALL)
    try:
        agent, body, signature = unpack(opened, 3)
        name = agent.decode("ascii")
    except (DecodeError, UnicodeDecodeError) as error:
        raise RejectedError("malformed", "the announcement does not open") from error
    try:
        verify(look_up(verify_key, name), signature, INTEREST, body)
    except SignatureError as error:
        raise RejectedError("signature", "the signature does not verify") from error
    announcement = read_body(Announcement, body)
    if announcement.agent != name:
        reject("malformed", "the announcement names two agents")
    return announcement


def seal_carried(
    carriage: Carriage, hop: bytes, *, hop_key: bytes, epoch: int, random: RandomSource
) -> bytes:
    """Put orders around a sealed hop.

    Args:
        carriage: the orders.
        hop: what `seal_hop`, `seal_announcement` or `seal_taken` made.
        hop_key: the overlay's key, 32 bytes.
        epoch: epoch of that key.
        random: source of the nonce.
    """
    purpose = CARRIAGE + sha256(hop).digest()
    return _seal("carried", write_body(carriage), purpose, (epoch, hop_key), hop, random=random)


def open_carried(data: bytes, *, hop_keys: Mapping[int, bytes]) -> tuple[Carriage, bytes]:
    """Read the orders around a hop.

    Args:
        data: the message.
        hop_keys: epoch -> the overlay's key, for epochs that may still be opened.

    Returns:
        The orders, and the hop as it was sealed; its own seal is not checked yet.

    Raises:
        RejectedError: `epoch`, `epoch-retired` or `malformed`.
    """
    body, hop = _open(data, "carried", CARRIAGE, hop_keys, limit=MAX_MESSAGE + MAX_SMALL)
    return read_body(Carriage, body), hop


def seal_taken(taken: Taken, *, hop_key: bytes, epoch: int, random: RandomSource) -> bytes:
    """Encrypt a receipt for the overlay's agents.

    Args:
        taken: the receipt.
        hop_key: the overlay's key, 32 bytes.
        epoch: epoch of that key.
        random: source of the nonce.
    """
    return _seal("taken", write_body(taken), TAKEN, (epoch, hop_key), random=random)


def open_taken(data: bytes, *, hop_keys: Mapping[int, bytes]) -> Taken:
    """Read a receipt.

    Args:
        data: the message.
        hop_keys: epoch -> the overlay's key, for epochs that may still be opened.

    Raises:
        RejectedError: `epoch`, `epoch-retired` or `malformed`.
    """
    body, _ = _open(data, "taken", TAKEN, hop_keys, limit=MAX_SMALL)
    return read_body(Taken, body)


def _seal(
    name: str,
    inner: bytes,
    purpose: bytes,
    key: tuple[int, bytes],
    *rest: bytes,
    random: RandomSource,
) -> bytes:
    epoch, hop_key = key
    number = UINT.clean(epoch, "epoch").to_bytes(8, "big")
    aad = pack(purpose, number)
    return pack(_NAMES[name], number, aead.seal(hop_key, inner, aad=aad, random=random), *rest)


def _open(
    data: bytes, name: str, purpose: bytes, hop_keys: Mapping[int, bytes], *, limit: int
) -> tuple[bytes, bytes]:
    if len(data) > limit:
        reject("malformed", "the message is too large")
    try:
        kind, number, sealed, *rest = unpack_all(data, limit=4)
    except (DecodeError, ValueError) as error:
        raise RejectedError("malformed", "the message does not open") from error
    if kind != _NAMES[name] or len(rest) != (name == "carried"):
        reject("malformed", "the message does not open")
    key = overlay_key(number, hop_keys)
    hop = rest[0] if rest else b""
    bound = purpose + sha256(hop).digest() if rest else purpose
    try:
        return aead.open_(key, sealed, aad=pack(bound, number)), hop
    except DecryptionError as error:
        raise RejectedError("malformed", "the message does not open") from error


def _bound(domain: str, agent: str, name: str, epoch: int) -> bytes:
    return pack(INTEREST, domain.encode(), agent.encode(), name.encode(), str(epoch).encode())
