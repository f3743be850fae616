"""An admitted event on its way from agent to agent of one overlay.

    message = pack(key epoch as 8 bytes, AES-256-GCM(pack(origin, body, signature)))

The key is the overlay's, which every agent of the overlay holds; the signature is the
origin agent's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from policyengine.bundles.contexts import HOP
from policyengine.bundles.limits import BLIND, MAX_MESSAGE, ORDERED, TAGS
from policyengine.bundles.publications import PART, PARTS, VALUES, Value
from policyengine.bundles.sealing import look_up, read_body, reject, write_body
from policyengine.errors import (
    DecodeError,
    DecryptionError,
    InputError,
    RejectedError,
    SignatureError,
)
from policyengine.primitives import aead
from policyengine.primitives.canonical import pack, unpack
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.records import (
    DIGEST,
    HEX_ID,
    IDENTIFIER,
    LABEL,
    UINT,
    ListOf,
    MapOf,
    Record,
    Text,
    invalid,
)
from policyengine.primitives.signatures import SigningKey, sign, verify

CIPHERTEXT = Text("[0-9]{1,19}:[A-Za-z0-9_-]+", 2**23, "must be an epoch and a ciphertext")
_SEALED = MapOf(LABEL, MapOf(IDENTIFIER, CIPHERTEXT, 256), 1024)


@dataclass(frozen=True)
class RoutedPart(Record):
    """A part that its publisher's home agent admitted.

    Args:
        domain: the domain.
        publication: 32 hexadecimal digits.
        type: event type.
        publisher: the publisher's handle.
        part: index of this part, from 0.
        parts: how many there are.
        overlay: the overlay that it travels on.
        epoch: encoding epoch of the tags.
        policy: digest of the publisher's bundle.
        issued: seconds since 1970.
        tags: routing tags, 16 bytes each.
        origin: name of the agent that admitted it.
        clear: name -> value of public attributes.
        sealed: name -> key name -> `<epoch>:<base64>` of attributes under keys.
        blind: `blind.RoutedBlind`, of the attributes that agents may not have.
        ordered: `ope.RangeValues`, of the attributes that agents compare without reading.
        suppressed: attributes whose value its publisher may not write; their place is kept.
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
    origin: Annotated[str, IDENTIFIER]
    clear: Annotated[Mapping[str, Value], VALUES]
    sealed: Annotated[Mapping[str, Mapping[str, str]], _SEALED]
    blind: Annotated[bytes, BLIND] = b""
    ordered: Annotated[bytes, ORDERED] = b""
    suppressed: Annotated[tuple[str, ...], ListOf(LABEL, 1024, unique=True)] = ()

    def _agree(self) -> None:
        if self.part >= self.parts:
            raise invalid("part", "must be below the number of parts")
        if set(self.clear) & set(self.sealed):
            raise invalid("sealed", "must not name an attribute that is clear")
        if set(self.suppressed) & (set(self.clear) | set(self.sealed)):
            raise invalid("suppressed", "must not name an attribute that has a value")


def seal_hop(
    routed: RoutedPart,
    *,
    signing_key: SigningKey,
    hop_key: bytes,
    epoch: int,
    random: RandomSource,
) -> bytes:
    """Sign a part as its origin agent and encrypt it for the overlay's agents.

    Args:
        routed: the part.
        signing_key: the origin agent's key.
        hop_key: the overlay's key, 32 bytes.
        epoch: epoch of that key.
        random: source of the nonce.

    Raises:
        InputError: `too-large` over 8 MiB.
    """
    number = UINT.clean(epoch, "epoch").to_bytes(8, "big")
    body = write_body(routed)
    inner = pack(routed.origin.encode(), body, sign(signing_key, HOP, body))
    message = pack(number, aead.seal(hop_key, inner, aad=_aad(number), random=random))
    if len(message) > MAX_MESSAGE:
        raise InputError("too-large", f"the message has more than {MAX_MESSAGE} bytes")
    return message


def open_hop(
    data: bytes, *, hop_keys: Mapping[int, bytes], verify: Callable[[str], bytes]
) -> RoutedPart:
    """Open a part from another agent and check its signature.

    The caller checks that domain and overlay are those of the queue it came from.

    Args:
        data: the message.
        hop_keys: epoch -> the overlay's key, for epochs that may still be opened.
        verify: agent's name -> its public Ed25519 key; raises KeyError if unknown.

    Raises:
        RejectedError: `epoch` or `epoch-retired` (no key of that epoch), `malformed` or
            `signature`.
    """
    origin, body, signature = _open(data, hop_keys)
    _check(look_up(verify, origin), signature, body)
    routed = read_body(RoutedPart, body)
    if routed.origin != origin:
        reject("malformed", "the part names two origins")
    return routed


def overlay_key(number: bytes, hop_keys: Mapping[int, bytes]) -> bytes:
    """The key that a message of the overlay's agents names.

    Args:
        number: the key's epoch, 8 bytes.
        hop_keys: epoch -> the overlay's key, for epochs that may still be opened.

    Raises:
        RejectedError: `epoch`, where that key may be on its way to us; `epoch-retired`, where a
            newer one is held, so that it will never come (again); `malformed`.
    """
    if len(number) != 8:
        reject("malformed", "the message names no key")
    epoch = int.from_bytes(number, "big")
    key = hop_keys.get(epoch)
    if key is None and epoch < max(hop_keys, default=0):
        reject("epoch-retired", "the key of this epoch opens nothing any more")
    if key is None:
        reject("epoch", "no key of this epoch is held")
    return key


def _open(data: bytes, hop_keys: Mapping[int, bytes]) -> tuple[str, bytes, bytes]:
    if len(data) > MAX_MESSAGE:
        reject("malformed", "the message is too large")
    try:
        number, sealed = unpack(data, 2)
        key = overlay_key(number, hop_keys)
        origin, body, signature = unpack(aead.open_(key, sealed, aad=_aad(number)), 3)
        return origin.decode("ascii"), body, signature
    except (DecodeError, DecryptionError, UnicodeDecodeError) as error:
        raise RejectedError("malformed", "the message does not open") from error


def _check(public: bytes, signature: bytes, body: bytes) -> None:
    try:
        verify(public, signature, HOP, body)
    except SignatureError as error:
        raise RejectedError("signature", "the signature does not verify") from error


def _aad(number: bytes) -> bytes:
    return HOP + b"|" + number
