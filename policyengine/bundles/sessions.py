"""One key for many deliveries to one client: signed and sealed once, sent along with each.

A message in a session is version (1 byte, 0x80) and pack(sealed session, ciphertext). The
sealed session is what `sealing.seal_body` makes of a `DeliverySession`: signed by the agent
for the client's handle, sealed to the client's key by HPKE. The ciphertext is AES-256-GCM
under the session's key with a fresh nonce for each message; its associated data is
pack(context, SHA-256 of the sealed session, agent, handle, domain, epoch). Because the sealed
session travels with every message, each can be opened by itself, in any order and after a
restart of either side. A client that remembers what it opened pays for one opening a session.

Who may open: the holder of the client's private key, as for a message sealed for itself. Who
may have made it: the agent that signed the session, or the client itself, which nobody else
has to believe. The event's identifiers stand inside the ciphertext, never beside it: in clear
they would say which clients got the same event.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Annotated, Final

from policyengine.bundles.contexts import IN_SESSION, SESSION
from policyengine.bundles.limits import MAX_MESSAGE
from policyengine.bundles.sealing import (
    check_signature,
    look_up,
    open_body,
    read_body,
    reject,
    seal_body,
    write_body,
)
from policyengine.errors import DecodeError, DecryptionError, InputError, RejectedError
from policyengine.primitives import aead
from policyengine.primitives.canonical import pack, unpack
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.records import IDENTIFIER, KEY, UINT, Record
from policyengine.primitives.signatures import SigningKey, sign

SESSIONS: Final = "sessions"
"""The word by which a client says that it reads deliveries in sessions."""
MAX_SESSION: Final = 8192
"""Most bytes of a sealed session."""
MOST_OPENED: Final = 256
"""Sessions that a client remembers: agents, domains and epochs, with some that are over."""

_VERSION: Final = b"\x80"


@dataclass(frozen=True)
class DeliverySession(Record):
    """A key that one agent shares with one client, for one domain and encoding epoch.

    Args:
        domain: the domain.
        agent: name of the delivering agent.
        epoch: encoding epoch of the deliveries.
        key: 32 random bytes, never used for anybody else; never shown.
    """

    domain: Annotated[str, IDENTIFIER]
    agent: Annotated[str, IDENTIFIER]
    epoch: Annotated[int, UINT]
    key: Annotated[bytes, KEY] = field(repr=False)


@dataclass(frozen=True)
class SealedSession:
    """A session at its agent: to be kept in memory only.

    Args:
        session: the key and what it is for.
        handle: whose session it is.
        sealed: the session as the client opens it.
    """

    session: DeliverySession
    handle: str
    sealed: bytes


def begin_session(
    domain: str,
    epoch: int,
    *,
    agent: str,
    signing_key: SigningKey,
    recipient: bytes,
    handle: str,
    random: RandomSource,
) -> SealedSession:
    """Make a fresh key, sign it as the agent and seal it to one client.

    Args:
        domain: the domain of the deliveries.
        epoch: their encoding epoch.
        agent: the agent's name.
        signing_key: the agent's key.
        recipient: the client's public key, 32 bytes, or 1216 of a hybrid one.
        handle: the client's handle.
        random: source of the key.

    Raises:
        InputError: `invalid`.
    """
    session = DeliverySession(domain, agent, epoch, random.token(aead.KEY_SIZE))
    sealed = seal_body(
        SESSION,
        write_body(session),
        address=handle,
        signer=agent,
        sign=partial(sign, signing_key),
        recipient=recipient,
        limit=MAX_SESSION,
    )
    return SealedSession(session, handle, sealed)


def seal_body_in(held: SealedSession, body: bytes, *, random: RandomSource) -> bytes:
    """Encrypt one body for the client of a session.

    Args:
        held: the session.
        body: canonical JSON.
        random: source of the nonce.

    Raises:
        InputError: `too-large` over 8 MiB.
    """
    aad = _context(held.session, held.handle, sha256(held.sealed).digest())
    ciphertext = aead.seal(held.session.key, body, aad=aad, random=random)
    message = _VERSION + pack(held.sealed, ciphertext)
    if len(message) > MAX_MESSAGE:
        raise InputError("too-large", f"the message has more than {MAX_MESSAGE} bytes")
    return message


def is_in_session(data: bytes) -> bool:
    """Tell by its version whether a message is one of a session."""
    return data[:1] == _VERSION


@dataclass(frozen=True)
class _Verified:
    """An opened session and the public key that its signature was checked against."""

    session: DeliverySession
    public: bytes


class OpenedSessions:
    """What a client opened already, so that it opens each session once. Safe to share.

    Remembered by the SHA-256 of the sealed bytes, beside the client's key and handle; what was
    used longest ago goes first. Forgetting costs an opening, never a message.

    Args:
        most: how many are remembered.
    """

    def __init__(self, most: int = MOST_OPENED) -> None:
        self._most = most
        self._held: OrderedDict[tuple[bytes, str, bytes], _Verified] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._held)

    def open(
        self, sealed: bytes, *, key: SealingKey, handle: str, verify: Callable[[str], bytes]
    ) -> DeliverySession:
        """Open a session, or remember it.

        Args:
            sealed: from a message.
            key: the client's own key.
            handle: the client's own handle.
            verify: agent's name -> its public Ed25519 key; raises KeyError if unknown.

        Raises:
            RejectedError: `malformed` or `signature`.
        """
        name = (key.public, handle, sha256(sealed).digest())
        with self._lock:
            held = self._held.get(name)
        # INVARIANT: who may not sign any more is not believed because it once could.
        if held is None or look_up(verify, held.session.agent) != held.public:
            held = _open_session(sealed, key=key, handle=handle, verify=verify)
        with self._lock:
            self._held[name] = held
            self._held.move_to_end(name)
            if len(self._held) > self._most:
                self._held.popitem(last=False)
        return held.session


def _open_session(
    sealed: bytes, *, key: SealingKey, handle: str, verify: Callable[[str], bytes]
) -> _Verified:
    signed = open_body(SESSION, sealed, address=handle, key=key, limit=MAX_SESSION)
    public = look_up(verify, signed.signer)
    check_signature(SESSION, signed, address=handle, public=public)
    session = read_body(DeliverySession, signed.body)
    if session.agent != signed.signer:
        reject("malformed", "the session names two agents")
    return _Verified(session, public)


def open_body_in(
    data: bytes,
    *,
    key: SealingKey,
    handle: str,
    verify: Callable[[str], bytes],
    opened: OpenedSessions,
) -> tuple[DeliverySession, bytes]:
    """Open what `seal_body_in` made.

    Args:
        data: the message.
        key: the client's own key.
        handle: the client's own handle.
        verify: agent's name -> its public Ed25519 key; raises KeyError if unknown.
        opened: what the client remembers.

    Returns:
        The session and the body, which its agent made for this client in this session.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    if len(data) > MAX_MESSAGE:
        reject("malformed", "the message is too large")
    try:
        sealed, ciphertext = unpack(data[1:], 2)
    except DecodeError as error:
        raise RejectedError("malformed", "the message does not open") from error
    session = opened.open(sealed, key=key, handle=handle, verify=verify)
    aad = _context(session, handle, sha256(sealed).digest())
    try:
        return session, aead.open_(session.key, ciphertext, aad=aad)
    except DecryptionError as error:
        raise RejectedError("malformed", "the message does not open") from error


def _context(session: DeliverySession, handle: str, digest: bytes) -> bytes:
    return pack(
        IN_SESSION,
        digest,
        session.agent.encode(),
        handle.encode(),
        session.domain.encode(),
        session.epoch.to_bytes(8, "big"),
    )
