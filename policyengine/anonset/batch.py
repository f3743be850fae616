"""Many at a time: encoding for the recompute, matching for agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, Protocol

import numpy as np
from bitarray import bitarray
from numpy.typing import NDArray

from policyengine.anonset.encoder import Encoder
from policyengine.anonset.parameters import Parameters
from policyengine.anonset.wire import (
    HEADER_BYTES,
    SALT,
    body_bytes,
    decode_bloom_policy,
    decode_token_policy,
    header,
    most_bits,
)
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.rand import RandomSource

_CHUNK: Final = 4096  # subjects read at a time; whole 64-bit words of columns
_LOOK: Final = 32  # columns between two looks whether anybody is left
_MERGE: Final = 1024  # appended subjects that are looked up apart from the sorted ones


def encode_many(
    kind: Literal["subject", "policy"],
    token_lists: Iterable[Sequence[str]],
    key: bytes,
    parameters: Parameters,
    *,
    random: RandomSource,
) -> list[bytes]:
    """Encode many conjunctions under one key; the same bytes as one by one.

    Args:
        kind: `subject` or `policy`.
        token_lists: the tokens of each conjunction.
        key: of one agent, domain and epoch.
        parameters: the encoding.
        random: source of masks, padding and random strings.

    Raises:
        InputError: `too-large` when a blinded conjunction has over n elements.
    """
    encoder = Encoder(key, parameters, random=random)
    if kind == "subject":
        return encoder.encode_subjects(token_lists)
    return encoder.encode_policies(token_lists)


class SubjectMatrix:
    """All encoded subjects of one epoch, laid out for matching.

    Each encoding has a slot, numbered from 0 in the order of entry. A removed slot
    stays empty and never grants; build a new matrix when many are.

    Args:
        encodings: subjects' encodings.
        parameters: their encoding.

    Raises:
        DecodeError: one of them is not an encoded subject of these parameters.
    """

    def __init__(self, encodings: Sequence[bytes], parameters: Parameters) -> None:
        self._parameters = parameters
        self._live = bitarray(endian="little")
        self._index: _Index = (
            _TokenIndex(parameters) if parameters.encoding == "tokens" else _BloomIndex(parameters)
        )
        self.extend(encodings)

    def __len__(self) -> int:
        """Return the number of slots, removed ones included."""
        return len(self._live)

    def append(self, encoding: bytes) -> int:
        """Enter one more subject and return its slot.

        Raises:
            DecodeError: it is not an encoded subject of these parameters.
        """
        self.extend([encoding])
        return len(self._live) - 1

    def extend(self, encodings: Sequence[bytes]) -> None:
        """Enter subjects in the next slots; all of them or, on an error, none.

        Raises:
            DecodeError: one of them is not an encoded subject of these parameters.
        """
        bodies = _bodies(encodings, self._parameters)
        self._index.check(bodies)
        self._index.add(bodies, len(self._live))
        self._live.extend([True] * len(encodings))

    def remove(self, slot: int) -> None:
        """Empty a slot; it never grants again.

        Raises:
            InputError: `unknown` when there is no such slot.
        """
        if not 0 <= slot < len(self._live):
            raise InputError("unknown", f"there is no slot `{slot}`", where="slot")
        self._live[slot] = False

    def authorised(self, policy: bytes) -> bitarray:
        """Return which subjects a policy's conjunction grants; bit i is slot i.

        The same answers as `match`, one by one.

        Args:
            policy: what `Encoder.encode_policy` made under the same key.

        Raises:
            DecodeError: it is not an encoded policy of these parameters.
        """
        return self._live & self._index.authorised(policy, len(self._live))


class _Index(Protocol):
    def check(self, bodies: NDArray[np.uint8]) -> None: ...

    def add(self, bodies: NDArray[np.uint8], start: int) -> None: ...

    def authorised(self, policy: bytes, slots: int) -> bitarray: ...


class _BloomIndex:
    """BF_t of all subjects, bit-sliced: one column of bits for each position."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._columns: NDArray[np.uint8] = np.zeros((parameters.m, 0), dtype=np.uint8)
        self._bits: list[bitarray] = []

    def check(self, bodies: NDArray[np.uint8]) -> None:
        n, size, m = self._parameters.n, self._parameters.filter_bytes, self._parameters.m
        most = most_bits(self._parameters, n + 1)
        stray = (0xFF << (m - 8 * (size - 1))) & 0xFF
        for start in range(0, len(bodies), _CHUNK):
            filters = bodies[start : start + _CHUNK, SALT:].reshape(-1, n + 1, size)
            if np.any(filters[:, :, -1] & np.uint8(stray)):
                raise DecodeError("a filter has bits beyond its size")
            if np.any(np.bitwise_count(filters).sum(axis=2, dtype=np.uint32) > most):
                raise DecodeError("a filter is too full")

    def add(self, bodies: NDArray[np.uint8], start: int) -> None:
        self._reserve(start + len(bodies))
        whole = bodies[:, SALT : SALT + self._parameters.filter_bytes]
        # begin at a whole byte of the columns: bits of earlier slots there are kept by the OR
        lead = start % 8
        for at in range(0, len(bodies), _CHUNK):
            bits = np.unpackbits(whole[at : at + _CHUNK], axis=1, bitorder="little")
            bits = np.pad(bits[:, : self._parameters.m], ((lead, 0), (0, 0)))
            packed = np.packbits(bits, axis=0, bitorder="little").T
            first = (start + at) // 8
            self._columns[:, first : first + packed.shape[1]] |= packed

    def authorised(self, policy: bytes, slots: int) -> bitarray:
        required = decode_bloom_policy(policy, self._parameters).required
        granted = self._all()
        for count, position in enumerate(_positions(required, self._parameters.filter_bytes)):
            if count % _LOOK == 0 and not granted.any():
                break  # nobody is left; the other columns change nothing
            granted &= self._bits[position]
        return granted[:slots]

    def _all(self) -> bitarray:
        if not self._bits:
            # bitarray's AND has half of numpy's cost a call; it reads the columns where they lie
            self._bits = [bitarray(endian="little", buffer=column) for column in self._columns]
        ones = bitarray(len(self._bits[0]), endian="little")
        ones.setall(1)
        return ones

    def _reserve(self, slots: int) -> None:
        have = self._columns.shape[1]
        need = -(-slots // 64) * 8
        if need > have:
            grown = np.zeros((self._parameters.m, max(need, have + have // 2 // 8 * 8)), np.uint8)
            grown[:, :have] = self._columns
            self._columns, self._bits = grown, []


class _TokenIndex:
    """Sorted pairs of token and slot; a few late ones beside them."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._tokens: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._slots: NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)
        self._late: dict[int, list[int]] = {}
        self._late_count = 0

    def check(self, bodies: NDArray[np.uint8]) -> None:
        tokens = bodies.view(">u8")
        if np.any(tokens[:, :-1] >= tokens[:, 1:]):
            raise DecodeError("the tokens are not in ascending order")

    def add(self, bodies: NDArray[np.uint8], start: int) -> None:
        tokens = bodies.view(">u8").astype(np.uint64)
        if len(bodies) <= _MERGE:
            for slot, row in enumerate(tokens.tolist(), start=start):
                for token in row:
                    self._late.setdefault(token, []).append(slot)
            self._late_count += len(bodies)
            if self._late_count > _MERGE:
                self._merge_late()
            return
        slots = np.repeat(np.arange(start, start + len(bodies), dtype=np.uint32), tokens.shape[1])
        self._merge(tokens.ravel(), slots)

    def authorised(self, policy: bytes, slots: int) -> bitarray:
        granted: NDArray[np.bool_] = np.ones(slots, dtype=np.bool_)
        for token in decode_token_policy(policy, self._parameters):
            has = np.zeros(slots, dtype=np.bool_)
            wanted = np.uint64(token)
            first = np.searchsorted(self._tokens, wanted, side="left")
            last = np.searchsorted(self._tokens, wanted, side="right")
            has[self._slots[first:last]] = True
            has[self._late.get(token, [])] = True
            granted &= has
        out = bitarray(endian="little")
        out.frombytes(np.packbits(granted, bitorder="little").tobytes())
        return out[:slots]

    def _merge_late(self) -> None:
        pairs = [(token, slot) for token, slots in self._late.items() for slot in slots]
        tokens = np.array([token for token, _ in pairs], dtype=np.uint64)
        slots = np.array([slot for _, slot in pairs], dtype=np.uint32)
        self._late, self._late_count = {}, 0
        self._merge(tokens, slots)

    def _merge(self, tokens: NDArray[np.uint64], slots: NDArray[np.uint32]) -> None:
        every = np.concatenate([self._tokens, tokens])
        order = np.argsort(every, kind="stable")
        self._tokens = every[order]
        self._slots = np.concatenate([self._slots, slots])[order]


def _positions(bits: int, size: int) -> list[int]:
    row = np.frombuffer(bits.to_bytes(size, "little"), dtype=np.uint8)
    places: list[int] = np.flatnonzero(np.unpackbits(row, bitorder="little")).tolist()
    return places


def _bodies(encodings: Sequence[bytes], parameters: Parameters) -> NDArray[np.uint8]:
    """Return (encodings, bytes behind the header), every header and length checked."""
    start, size = header("subject", parameters), body_bytes(parameters)
    for encoding in encodings:
        if not encoding.startswith(start) or len(encoding) != HEADER_BYTES + size:
            raise DecodeError("not an encoded subject of these parameters")
    joined = np.frombuffer(b"".join(encodings), dtype=np.uint8)
    return np.ascontiguousarray(joined.reshape(-1, HEADER_BYTES + size)[:, HEADER_BYTES:])
