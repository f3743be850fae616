"""Bytes of encodings: versioned, canonical, strictly read.

Header: version (1), kind (1), n (2), m (4), k (2), masks (1), big-endian. Then

- subject, bloom: salt (16), BF_t, BF_1 ... BF_n
- policy, bloom: BF_a, BF_a-m
- subject, tokens: n tokens of 8 bytes, ascending
- policy, tokens: count (2), so many tokens of 8 bytes, ascending

Bit i of a filter is bit i mod 8 (least significant first) of byte i div 8; bits
beyond m are zero.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from policyengine.anonset.parameters import Parameters, fill
from policyengine.errors import DecodeError

VERSION: Final = 1
SALT: Final = 16
TOKEN_BYTES: Final = 8
_KINDS: Final = {
    ("subject", "bloom"): 1,
    ("policy", "bloom"): 2,
    ("subject", "tokens"): 3,
    ("policy", "tokens"): 4,
}
_HEADER: Final = struct.Struct(">BBHIHB")
HEADER_BYTES: Final = _HEADER.size
_SIGMAS: Final = 8  # an honest filter is fuller than this once in more than 10^14


@dataclass(frozen=True, slots=True)
class BloomPolicy:
    """BF_a and BF_a-m as integers, bit i being 2^i."""

    attributes: int
    mask: int

    @property
    def required(self) -> int:
        """R = BF_a AND NOT BF_a-m: the bits that a subject must have."""
        return self.attributes & ~self.mask


@dataclass(frozen=True, slots=True)
class BloomSubject:
    """BF_t and BF_1 to BF_n as integers, and the salt of their order."""

    salt: bytes
    whole: int
    auxiliary: tuple[int, ...]


@lru_cache(maxsize=256)
def header(kind: str, parameters: Parameters) -> bytes:
    """Return the header that an encoding of this kind must have.

    Args:
        kind: `subject` or `policy`.
        parameters: the encoding.
    """
    number = _KINDS[kind, parameters.encoding]
    return _HEADER.pack(VERSION, number, parameters.n, parameters.m, parameters.k, parameters.masks)


def body_bytes(parameters: Parameters) -> int:
    """Return the length of a subject's encoding behind its header."""
    if parameters.encoding == "tokens":
        return parameters.n * TOKEN_BYTES
    return SALT + (parameters.n + 1) * parameters.filter_bytes


@lru_cache(maxsize=1024)
def most_bits(parameters: Parameters, elements: int) -> int:
    """Return how many set bits a filter of so many elements can honestly have.

    A filter of ones would match everything; nothing but tampering makes one, as
    long as m is large enough for its elements.
    """
    m = parameters.m
    share = fill(m, parameters.k, elements)
    spread = _SIGMAS * math.sqrt(m * share * (1 - share))
    return min(m, parameters.k * elements, math.ceil(m * share + spread) + 1)


def encode_bloom_policy(attributes: bytes, mask: bytes, parameters: Parameters) -> bytes:
    """Join BF_a and BF_a-m."""
    return header("policy", parameters) + attributes + mask


def encode_tokens(kind: str, tokens: Sequence[int], parameters: Parameters) -> bytes:
    """Join tokens in ascending order; for `kind` see `header`."""
    listed = b"".join(token.to_bytes(TOKEN_BYTES, "big") for token in sorted(tokens))
    count = struct.pack(">H", len(tokens)) if kind == "policy" else b""
    return header(kind, parameters) + count + listed


def decode_bloom_policy(data: bytes, parameters: Parameters) -> BloomPolicy:
    """Read a policy's filters.

    Raises:
        DecodeError: another version, size or length, bits beyond m, a mask that
            is not part of the policy, or a filter too full to be honest.
    """
    size = parameters.filter_bytes
    body = _body(data, "policy", parameters, 2 * size)
    mask = _filter(body[size:], parameters, parameters.masks)
    attributes = _filter(body[:size], parameters, parameters.n + parameters.masks)
    if mask & ~attributes:
        raise DecodeError("the mask is not part of the policy")
    return BloomPolicy(attributes, mask)


def decode_bloom_subject(data: bytes, parameters: Parameters) -> BloomSubject:
    """Read a subject's filters.

    Raises:
        DecodeError: as `decode_bloom_policy`.
    """
    size = parameters.filter_bytes
    body = _body(data, "subject", parameters, body_bytes(parameters))
    filters = [
        _filter(body[at : at + size], parameters, parameters.n + 1)
        for at in range(SALT, len(body), size)
    ]
    return BloomSubject(body[:SALT], filters[0], tuple(filters[1:]))


def decode_token_policy(data: bytes, parameters: Parameters) -> tuple[int, ...]:
    """Read a policy's tokens.

    Raises:
        DecodeError: another version, size or length, tokens out of order or doubled.
    """
    at = HEADER_BYTES + 2
    count = int.from_bytes(data[HEADER_BYTES:at], "big")
    if count > parameters.n:
        raise DecodeError("the encoding holds more tokens than its size allows")
    body = _body(data, "policy", parameters, 2 + count * TOKEN_BYTES)
    return _tokens(body[2:])


def decode_token_subject(data: bytes, parameters: Parameters) -> tuple[int, ...]:
    """Read a subject's tokens.

    Raises:
        DecodeError: as `decode_token_policy`.
    """
    return _tokens(_body(data, "subject", parameters, body_bytes(parameters)))


def _body(data: bytes, kind: str, parameters: Parameters, size: int) -> bytes:
    if data[:HEADER_BYTES] != header(kind, parameters):
        raise DecodeError(f"not an encoded {kind} of these parameters")
    if len(data) != HEADER_BYTES + size:
        raise DecodeError("the encoding has the wrong length")
    return data[HEADER_BYTES:]


def _filter(data: bytes, parameters: Parameters, elements: int) -> int:
    bits = int.from_bytes(data, "little")
    if bits >> parameters.m:
        raise DecodeError("a filter has bits beyond its size")
    if bits.bit_count() > most_bits(parameters, elements):
        raise DecodeError("a filter is too full")
    return bits


def _tokens(data: bytes) -> tuple[int, ...]:
    tokens = tuple(
        int.from_bytes(data[at : at + TOKEN_BYTES], "big")
        for at in range(0, len(data), TOKEN_BYTES)
    )
    if any(first >= second for first, second in pairwise(tokens)):
        raise DecodeError("the tokens are not in ascending order")
    return tokens
