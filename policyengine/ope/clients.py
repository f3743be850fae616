"""Publishers and subscribers: encrypting events and subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from policyengine.attributes import Expression, Schema, Value
from policyengine.errors import DecryptionError
from policyengine.ope.ciphers import Cipher, cipher_of
from policyengine.ope.conjunctions import constraints_of, parse_conjunction
from policyengine.ope.layout import AFTER, Bound, Interval, Layout, Point
from policyengine.ope.wire import EncryptedEvent, EncryptedSubscription, Range, Scheme
from policyengine.primitives.aead import open_, seal
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

_PAD: Final = 32
_LENGTH: Final = 4


class Client:
    """Encrypts for one event type; made by `sbm1_client`, `sbm2_client` and `plain_client`.

    Safe for use by several threads, as far as its source of random bytes is.

    Args:
        scheme: what the ciphertexts are.
        layout: columns of the event type.
        order: bytes of a point of a column that compare as the broker will see it.
        conceal: the ciphertext of such bytes, in the column of that name.
    """

    def __init__(
        self,
        scheme: Scheme,
        layout: Layout,
        order: Callable[[str, Point], bytes],
        conceal: Callable[[str, bytes], bytes],
    ) -> None:
        self.scheme = scheme
        self.layout = layout
        self._order = order
        self._conceal = conceal

    def encrypt_event(self, values: Mapping[str, Value]) -> EncryptedEvent:
        """Encrypt an event.

        Args:
            values: checked values (`check_values`); attributes may be absent.
        """
        points = sorted(self.layout.points(values).items())
        return EncryptedEvent(
            self.scheme,
            tuple((name, self._conceal(name, self._order(name, point))) for name, point in points),
        )

    def encrypt_subscription(self, expression: Expression | str) -> EncryptedSubscription:
        """Encrypt a subscription.

        Args:
            expression: a conjunction, as text or typed.

        Raises:
            InputError: as `parse`, and `unsupported` for `||`, `!` and `atLeast`.
        """
        if isinstance(expression, str):
            expression = parse_conjunction(expression, self.layout.schema)
        constraints = constraints_of(expression, self.layout, self._order)
        if constraints is None:
            return EncryptedSubscription(self.scheme, (), never=True)
        ranges = (
            (name, tuple(self._range(name, interval) for interval in intervals))
            for name, intervals in constraints.items()
        )
        return EncryptedSubscription(self.scheme, tuple(ranges))

    def _range(self, name: str, interval: Interval) -> Range:
        low, high = interval.low, interval.high
        return Range(
            None if low is None else self._end(name, low),
            None if high is None else self._end(name, high),
            low is not None and low.open,
            high is not None and high.open,
        )

    def _end(self, name: str, bound: Bound) -> bytes:
        order = self._order(name, bound.point)
        return self._conceal(name, order + AFTER if bound.after else order)


def sbm1_client(key: bytes, schema: Schema) -> Client:
    """Make a client of SBM-I: order-preserving ciphertexts that the broker compares itself.

    Args:
        key: at least 16 bytes, shared by publishers and subscribers of the event type.
        schema: attributes of the event type.

    Raises:
        InputError: `invalid` for a short key.
    """
    layout = Layout(schema, derive(key, info=b"portcullis ope 1 sbm1 order"))
    ciphers: dict[str, Cipher] = {
        name: cipher_of(column, key) for name, column in layout.columns.items()
    }
    return Client("sbm1", layout, lambda name, point: ciphers[name].encrypt(point), _shown)


def sbm2_client(key: bytes, schema: Schema, *, random: RandomSource = SYSTEM_RANDOM) -> Client:
    """Make a client of SBM-II: ciphertexts that show nothing, compared by a comparator.

    Args:
        key: at least 16 bytes, shared by publishers, subscribers and the comparator
            (paper 003, Alg. 2).
        schema: attributes of the event type.
        random: source of nonces.

    Raises:
        InputError: `invalid` for a short key.
    """
    layout = Layout(schema, derive(key, info=b"portcullis ope 1 sbm2 order"))
    keys = {name: sbm2_key(key, name) for name in layout.columns}

    def conceal(name: str, data: bytes) -> bytes:
        return seal_point(keys[name], data, random=random)

    return Client("sbm2", layout, lambda name, point: layout.columns[name].plain(point), conceal)


def plain_client(schema: Schema) -> Client:
    """Make a client that encrypts nothing: the same index on points in clear."""
    layout = Layout(schema)
    return Client("plain", layout, lambda name, point: layout.columns[name].plain(point), _shown)


def sbm2_key(key: bytes, column: str) -> bytes:
    """Return the key of one column of SBM-II."""
    return derive(key, info=b"portcullis ope 1 sbm2 value " + column.encode())


def seal_point(key: bytes, data: bytes, *, random: RandomSource) -> bytes:
    """Encrypt the bytes of a point so that nothing shows but their length in 32s.

    Args:
        key: of the column (`sbm2_key`).
        data: bytes that compare as the points do.
        random: source of the nonce.
    """
    padded = len(data).to_bytes(_LENGTH, "big") + data
    return seal(key, padded + bytes(-len(padded) % _PAD), aad=b"", random=random)


def open_point(key: bytes, ciphertext: bytes) -> bytes:
    """Decrypt what `seal_point` made.

    Raises:
        DecryptionError: it does not open.
    """
    padded = open_(key, ciphertext, aad=b"")
    end = _LENGTH + int.from_bytes(padded[:_LENGTH], "big")
    if end > len(padded):
        raise DecryptionError("the ciphertext does not open")
    return padded[_LENGTH:end]


def _shown(name: str, data: bytes) -> bytes:
    return data
