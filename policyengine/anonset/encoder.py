"""Encoding of conjunctions: the control plane's side (PS-ACF Def. 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

import numpy as np

from policyengine.anonset.blinding import Blinder
from policyengine.anonset.filters import (
    WORD,
    Rows,
    auxiliary,
    keyed_numbers,
    numbers,
    orders,
    padded_bytes,
    rows_from,
    union,
)
from policyengine.anonset.matching import Match
from policyengine.anonset.parameters import Parameters
from policyengine.anonset.wire import (
    SALT,
    TOKEN_BYTES,
    decode_bloom_subject,
    decode_token_subject,
    encode_bloom_policy,
    encode_tokens,
    header,
)
from policyengine.errors import InputError
from policyengine.primitives.rand import RandomSource

_CHUNK_BYTES: Final = 2**25  # unpacked bits in memory at a time
_BANK_ROWS: Final = 2**16  # elements remembered


class Encoder:
    """Encodes conjunctions for one agent, domain and epoch.

    Args:
        key: 16 to 64 bytes that no other agent, domain or epoch has.
        parameters: the encoding.
        random: source of masks, padding and random strings.
    """

    def __init__(self, key: bytes, parameters: Parameters, *, random: RandomSource) -> None:
        self._parameters = parameters
        self._random = random
        self._blinder = Blinder(key, parameters)
        self._bank = _Bank(self._blinder, parameters)

    def encode_subject(self, tokens: Sequence[str]) -> bytes:
        """Encode one conjunction of a subject.

        Args:
            tokens: everything that is true of the subject (`tokens_of`).

        Raises:
            InputError: `too-large` when the blinded conjunction has over n elements.
        """
        return self.encode_subjects([tokens])[0]

    def encode_policy(self, tokens: Sequence[str]) -> bytes:
        """Encode one conjunction of a policy.

        Args:
            tokens: tokens of its literals; none makes a policy that grants everyone.

        Raises:
            InputError: `too-large` when the blinded conjunction has over n elements.
        """
        elements = self._elements(tokens)
        if self._parameters.encoding == "tokens":
            return encode_tokens("policy", self._prf_tokens(elements), self._parameters)
        k, masks = self._parameters.k, self._parameters.masks
        # Def. 6, policies: Set_a is the attributes and some random strings, Set_a-m these alone
        drawn = numbers(self._random.token(WORD * k * masks), k)
        mask = union(rows_from(drawn, self._parameters))
        whole = mask | union(self._bank.rows(elements))
        size = self._parameters.filter_bytes
        return encode_bloom_policy(whole[:size].tobytes(), mask[:size].tobytes(), self._parameters)

    def encode_subjects(self, token_lists: Iterable[Sequence[str]]) -> list[bytes]:
        """Encode many conjunctions of subjects; the same bytes as one by one.

        Raises:
            InputError: as `encode_subject`.
        """
        if self._parameters.encoding == "tokens":
            return [self._token_subject(self._elements(tokens)) for tokens in token_lists]
        encoded: list[bytes] = []
        chunk: list[tuple[bytes, ...]] = []
        size = max(1, _CHUNK_BYTES // (padded_bytes(self._parameters) * 8 * self._parameters.n * 2))
        for tokens in token_lists:
            chunk.append(self._elements(tokens))
            if len(chunk) == size:
                encoded += self._bloom_subjects(chunk)
                chunk = []
        return encoded + (self._bloom_subjects(chunk) if chunk else [])

    def encode_policies(self, token_lists: Iterable[Sequence[str]]) -> list[bytes]:
        """Encode many conjunctions of policies; the same bytes as one by one.

        Raises:
            InputError: as `encode_policy`.
        """
        return [self.encode_policy(tokens) for tokens in token_lists]

    def matched_tokens(
        self, subject: bytes, tokens: Sequence[str], match: Match
    ) -> tuple[str, ...]:
        """Turn matched indices back into tokens; only the holder of the key can.

        Args:
            subject: the encoding that was matched.
            tokens: the tokens that it encodes.
            match: what `match` returned.

        Raises:
            DecodeError: the encoding is not of these parameters.
        """
        owners = self._blinder.conjunction(tokens)
        places = self._places(subject, tuple(owners))
        return tuple(sorted({owners[places[index]] for index in match.indices if index in places}))

    def _elements(self, tokens: Iterable[str]) -> tuple[bytes, ...]:
        elements = tuple(self._bank.conjunction(tokens))
        if len(elements) > self._parameters.n:
            raise InputError(
                "too-large",
                f"the conjunction has {len(elements)} elements after blinding; expected at most"
                f" {self._parameters.n} (a larger n holds it)",
            )
        return elements

    def _bloom_subjects(self, conjunctions: Sequence[tuple[bytes, ...]]) -> list[bytes]:
        n, k = self._parameters.n, self._parameters.k
        salts: list[bytes] = []
        pads: list[bytes] = []
        randoms: list[bytes] = []
        for elements in conjunctions:
            at = SALT + WORD * k * (n - len(elements))
            drawn = self._random.token(at + WORD * k * (n + 1))
            salts.append(drawn[:SALT])
            pads.append(drawn[SALT:at])
            randoms.append(drawn[at:])
        filled = self._filled(conjunctions, b"".join(pads))
        order = orders(self._blinder.order_key, salts, n)
        which = np.arange(len(conjunctions))[:, None]
        placed: Rows = filled.view(np.uint64)[which, order].view(np.uint8)
        own = rows_from(numbers(b"".join(randoms), k), self._parameters)
        filters = auxiliary(placed, own.reshape(len(conjunctions), n + 1, -1))
        start, size = header("subject", self._parameters), self._parameters.filter_bytes
        trimmed = np.ascontiguousarray(filters[:, :, :size])
        return [start + salt + row.tobytes() for salt, row in zip(salts, trimmed, strict=True)]

    def _filled(self, conjunctions: Sequence[tuple[bytes, ...]], pads: bytes) -> Rows:
        """Return (conjunctions, n, bytes): real elements first, padding behind them."""
        n = self._parameters.n
        lengths = np.array([len(elements) for elements in conjunctions])
        is_real = np.arange(n) < lengths[:, None]
        filled = np.zeros((len(conjunctions), n, padded_bytes(self._parameters)), dtype=np.uint8)
        filled[is_real] = self._bank.rows(
            [element for elements in conjunctions for element in elements]
        )
        filled[~is_real] = rows_from(numbers(pads, self._parameters.k), self._parameters)
        return filled

    def _token_subject(self, elements: tuple[bytes, ...]) -> bytes:
        tokens = set(self._prf_tokens(elements))
        while len(tokens) < self._parameters.n:  # padding; a collision is drawn again
            missing = self._parameters.n - len(tokens)
            drawn = self._random.token(TOKEN_BYTES * missing)
            tokens.update(
                int.from_bytes(drawn[at : at + TOKEN_BYTES], "big")
                for at in range(0, len(drawn), TOKEN_BYTES)
            )
        return encode_tokens("subject", tuple(tokens), self._parameters)

    def _prf_tokens(self, elements: Iterable[bytes]) -> tuple[int, ...]:
        return self._bank.tokens(elements)

    def _places(self, subject: bytes, elements: Sequence[bytes]) -> dict[int, bytes]:
        """Return which element stands at which index of a subject's encoding."""
        if self._parameters.encoding == "tokens":
            found = decode_token_subject(subject, self._parameters)
            tokens = dict(zip(self._prf_tokens(elements), elements, strict=True))
            return {index: tokens[token] for index, token in enumerate(found) if token in tokens}
        salt = decode_bloom_subject(subject, self._parameters).salt
        (order,) = orders(self._blinder.order_key, [salt], self._parameters.n)
        return {
            place: elements[number] for place, number in enumerate(order) if number < len(elements)
        }


class _Bank:
    """Remembers elements and their filters: subjects share most of their attributes."""

    def __init__(self, blinder: Blinder, parameters: Parameters) -> None:
        self._blinder = blinder
        self._parameters = parameters
        self._elements: dict[str, tuple[bytes, ...]] = {}
        self._tokens: dict[bytes, int] = {}
        self._index: dict[bytes, int] = {}
        self._lock = Lock()
        # Rows in use come first; there is room behind them, so that adding one copies little.
        self._rows: Rows = np.zeros((0, padded_bytes(parameters)), dtype=np.uint8)

    def conjunction(self, tokens: Iterable[str]) -> list[bytes]:
        """Return the elements of a conjunction in their order, without doubles."""
        found: set[bytes] = set()
        for token in tokens:
            elements = self._elements.get(token)
            if elements is None:
                elements = self._remember(token)
            found.update(elements)
        return sorted(found)

    def rows(self, elements: Sequence[bytes]) -> Rows:
        """Return the filter of each element; safe from several threads."""
        with self._lock:
            if len(self._index) > _BANK_ROWS:
                self._index = {}
            new = [element for element in dict.fromkeys(elements) if element not in self._index]
            if new:
                self._add(new)
            return self._rows[[self._index[element] for element in elements]]

    def tokens(self, elements: Iterable[bytes]) -> tuple[int, ...]:
        """Return the 64-bit token of each element."""
        return tuple(self._tokens.get(element) or self._token(element) for element in elements)

    def _token(self, element: bytes) -> int:
        if len(self._tokens) > _BANK_ROWS:
            self._tokens.clear()
        self._tokens[element] = token = _token(self._blinder.position_key, element)
        return token

    def _remember(self, token: str) -> tuple[bytes, ...]:
        if len(self._elements) > _BANK_ROWS:
            self._elements.clear()
        elements = self._blinder.elements(token)
        self._elements[token] = elements
        return elements

    def _add(self, elements: Sequence[bytes]) -> None:
        k = self._parameters.k
        drawn = b"".join(
            keyed_numbers(self._blinder.position_key, element, k) for element in elements
        )
        start, end = len(self._index), len(self._index) + len(elements)
        self._index.update({element: start + at for at, element in enumerate(elements)})
        if end > len(self._rows):
            room = np.zeros((max(end, 2 * len(self._rows)), self._rows.shape[1]), dtype=np.uint8)
            room[:start] = self._rows[:start]
            self._rows = room
        self._rows[start:end] = rows_from(numbers(drawn, k), self._parameters)


def _token(key: bytes, element: bytes) -> int:
    return int.from_bytes(keyed_numbers(key, element, 2), "big")
