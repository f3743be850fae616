"""Attribute keys: a protected attribute travels once per key, a public one in clear.

Agents hold the keys, clients never (Bacon et al., section 3). A ciphertext is
bound to its event (the caller's `aad`), attribute, key and epoch, so that none of
them can be exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from policyengine.attributes import Value, unknown
from policyengine.errors import DecodeError, DecryptionError
from policyengine.events.types import AttributeSpec
from policyengine.primitives.aead import open_, seal
from policyengine.primitives.canonical import b64, dumps, loads, pack, unb64
from policyengine.primitives.rand import RandomSource

_PURPOSE: Final = b"portcullis/attribute/v1"
_BLOCK: Final = 32  # ciphertexts come in steps, so that their length says little of the value
_END: Final = b"\x80"
_MAX_EPOCH_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class Protected:
    """An event's attributes as they travel between agents.

    Args:
        clear: public attributes.
        sealed: attribute -> key name -> `<epoch>:<base64 ciphertext>`.
        dropped: attributes that could not be carried, as the caller holds none of
            their keys, or as its client should have hidden it.
    """

    clear: dict[str, Value]
    sealed: dict[str, dict[str, str]]
    dropped: tuple[str, ...] = field(default=())


def protect(
    values: Mapping[str, Value],
    specs: Iterable[AttributeSpec],
    keys: Mapping[str, tuple[int, bytes]],
    *,
    aad: bytes,
    random: RandomSource,
) -> Protected:
    """Seal protected attributes under each of their keys that the caller holds.

    Args:
        values: the event's attributes.
        specs: attributes of its type (`EventTypes.attributes`).
        keys: key name -> epoch and 32 bytes.
        aad: what the ciphertexts belong to: domain, publication, part, type.
        random: source of nonces.

    Raises:
        InputError: `unknown` for a value whose attribute is not among the specs.
    """
    declared = {spec.name: spec for spec in specs}
    clear: dict[str, Value] = {}
    sealed: dict[str, dict[str, str]] = {}
    dropped: list[str] = []
    for name, value in values.items():
        if name not in declared:
            raise unknown("attribute", name, declared)
        wanted = declared[name].keys
        if declared[name].blind:  # INVARIANT: what clients hide is never passed on as it came
            dropped.append(name)
            continue
        if not wanted:
            clear[name] = value
            continue
        held = {key: keys[key] for key in wanted if key in keys}
        if not held:  # INVARIANT: without a key the value never travels, least of all in clear
            dropped.append(name)
            continue
        sealed[name] = {
            key: _seal(value, name, key, epoch, secret, aad=aad, random=random)
            for key, (epoch, secret) in held.items()
        }
    return Protected(clear, sealed, tuple(dropped))


def reveal(
    protected: Protected, keys: Mapping[tuple[str, int], bytes], *, aad: bytes
) -> dict[str, Value]:
    """Open what these keys open, beside what is clear.

    Args:
        protected: what `protect` made.
        keys: key name and epoch -> 32 bytes.
        aad: the same as when it was sealed.

    Returns:
        Clear attributes and those of which one ciphertext is under a held key;
        the others are left out.

    Raises:
        DecryptionError: a ciphertext under a held key does not open, or several
            of one attribute hold different values.
        DecodeError: an entry is not `<epoch>:<base64>`, or an attribute is both
            clear and sealed.
    """
    revealed = dict(protected.clear)
    for name, entries in protected.sealed.items():
        if name in protected.clear:
            raise DecodeError("an attribute is either clear or sealed")
        opened = [
            _open(data, name, key, epoch, keys[key, epoch], aad=aad)
            for key, (epoch, data) in sorted(_entries(entries).items())
            if (key, epoch) in keys
        ]
        if any(value != opened[0] or type(value) is not type(opened[0]) for value in opened):
            raise DecryptionError("the ciphertext does not open")
        if opened:
            revealed[name] = opened[0]
    return revealed


def _seal(
    value: Value,
    name: str,
    key: str,
    epoch: int,
    secret: bytes,
    *,
    aad: bytes,
    random: RandomSource,
) -> str:
    plain = dumps(value) + _END
    padded = plain.ljust(-(-len(plain) // _BLOCK) * _BLOCK, b"\0")
    data = seal(secret, padded, aad=_bound(aad, name, key, epoch), random=random)
    return f"{epoch}:{b64(data)}"


def _open(data: bytes, name: str, key: str, epoch: int, secret: bytes, *, aad: bytes) -> Value:
    padded = open_(secret, data, aad=_bound(aad, name, key, epoch))
    plain, end, rest = padded.rpartition(_END)
    if not end or rest.strip(b"\0"):
        raise DecryptionError("the ciphertext does not open")
    value = loads(plain)
    if not isinstance(value, str | int | float | bool):
        raise DecryptionError("the ciphertext does not open")
    return value


def _bound(aad: bytes, name: str, key: str, epoch: int) -> bytes:
    return pack(_PURPOSE, aad, name.encode(), key.encode(), str(epoch).encode())


def _entries(entries: Mapping[str, str]) -> dict[str, tuple[int, bytes]]:
    return {key: _entry(text) for key, text in entries.items()}


def _entry(text: str) -> tuple[int, bytes]:
    number, colon, data = text.partition(":")
    plain = number.isascii() and number.isdigit() and len(number) <= _MAX_EPOCH_DIGITS
    if not colon or not plain or str(int(number)) != number:
        raise DecodeError("a sealed attribute is `<epoch>:<base64>`")
    return int(number), unb64(data)
