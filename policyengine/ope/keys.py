"""Keys of order-preserving attributes: one an attribute and epoch, for clients or comparator.

A *slot* is what one key is for: (domain, event type that declares the attribute, attribute,
epoch). Everything encrypted names its *column*: the slot, the form of the values and, for
texts, the direction. Two epochs, two attributes, two domains and two declarations of a
domain of values have different columns and unrelated keys, so that nothing of them meets.

Source: paper 003, Alg. 2 (initialisation); the schemes are SBM-I and SBM-II.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Literal, NoReturn, Self, TypeAlias, cast, get_args

from policyengine.attributes import AttributeType, check_name
from policyengine.errors import DecodeError, InputError
from policyengine.ope.clients import Client, sbm1_client, sbm2_client
from policyengine.ope.comparator import KeyedComparator, Question
from policyengine.ope.layout import BACKWARD, FORWARD
from policyengine.primitives.canonical import dumps, pack, unpack
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.primitives.records import IDENTIFIER, LABEL, UINT

OrderScheme: TypeAlias = Literal["sbm1", "sbm2"]
ORDER_SCHEMES: Final[tuple[OrderScheme, ...]] = get_args(OrderScheme)

_SECRET: Final = 32
_CLIENT_KEY: Final = b"portcullis/order-key/v1"
_COMPARATOR_KEY: Final = b"portcullis/comparator-key/v1"
_SLOT_DIGITS: Final = 32
_MARK: Final = "c"
_FORM_DIGITS: Final = 16
_COLUMN: Final = re.compile(
    f"{_MARK}([0-9a-f]{{{_SLOT_DIGITS}}})([0-9a-f]{{{_FORM_DIGITS}}})([{BACKWARD}{FORWARD}]?)"
)


@dataclass(frozen=True)
class Slot:
    """What one key is for.

    Args:
        domain: the domain.
        type: the event type that declares the attribute (`declaring_type`).
        attribute: the attribute.
        epoch: number of the key's epoch.
    """

    domain: str
    type: str
    attribute: str
    epoch: int

    def __post_init__(self) -> None:
        IDENTIFIER.clean(self.domain, "domain")
        LABEL.clean(self.type, "type")
        check_name(self.attribute)
        UINT.clean(self.epoch, "epoch")

    @property
    def name(self) -> str:
        """32 hexadecimal digits that stand for the slot."""
        return blake2b(self._packed(), digest_size=_SLOT_DIGITS // 2).hexdigest()

    def column(self, declared: AttributeType, direction: str = "") -> str:
        """The name of a column.

        Args:
            declared: the attribute's type; another domain of values is another column.
            direction: `^` or `$` for texts, else empty.
        """
        return _MARK + self.name + form_of(declared) + direction

    def _packed(self) -> bytes:
        number = self.epoch.to_bytes(8, "big")
        return pack(self.domain.encode(), self.type.encode(), self.attribute.encode(), number)

    @classmethod
    def _unpacked(cls, data: bytes) -> Self:
        domain, event_type, attribute, number = unpack(data, 4)
        if len(number) != 8:
            raise DecodeError("an epoch has 8 bytes")
        return cls(
            domain.decode(), event_type.decode(), attribute.decode(), int.from_bytes(number, "big")
        )


def form_of(declared: AttributeType) -> str:
    """Return 16 hexadecimal digits that stand for a domain of values."""
    return blake2b(dumps(declared.to_json()), digest_size=_FORM_DIGITS // 2).hexdigest()


@dataclass(frozen=True)
class RangeKey:
    """What publishers and subscribers encrypt one attribute with; secret from brokers.

    Args:
        slot: what it is for.
        scheme: `sbm1` (the broker compares) or `sbm2` (a comparator does).
        secret: 32 bytes, never shown.
    """

    slot: Slot
    scheme: OrderScheme
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.scheme not in ORDER_SCHEMES:
            raise InputError("unknown", "a key is of `sbm1` or `sbm2`", where="scheme")
        _check_secret(self.secret)

    @classmethod
    def generate(
        cls, slot: Slot, scheme: OrderScheme, *, random: RandomSource = SYSTEM_RANDOM
    ) -> Self:
        """Draw a key (paper 003, Alg. 2).

        Raises:
            InputError: `unknown` for another scheme.
        """
        return cls(slot, scheme, random.token(_SECRET))

    def comparator_key(self) -> ComparatorKey:
        """The comparator's half: it opens ciphertexts of SBM-II and makes nothing else.

        Raises:
            InputError: `invalid` for SBM-I, which has no comparator.
        """
        if self.scheme != "sbm2":
            raise InputError("invalid", "only `sbm2` has a comparator", where="scheme")
        return ComparatorKey(self.slot, derive(self.secret, info=_COMPARATOR_KEY))

    def client(self, declared: AttributeType, *, random: RandomSource = SYSTEM_RANDOM) -> Client:
        """The client that encrypts values and tests of this attribute.

        Args:
            declared: the attribute's type.
            random: source of nonces (SBM-II).
        """
        schema = {self.slot.attribute: declared}
        if self.scheme == "sbm1":
            info = b"portcullis ope 1 sbm1 attribute " + form_of(declared).encode()
            return sbm1_client(derive(self.secret, info=info), schema)
        key = self.comparator_key().form_key(form_of(declared))
        return sbm2_client(key, schema, random=random)

    def to_bytes(self) -> bytes:
        """Write the key: secret, for clients only."""
        return pack(_CLIENT_KEY, self.slot._packed(), self.scheme.encode(), self.secret)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            DecodeError: anything else.
        """
        slot, rest = _read(data, _CLIENT_KEY, 4)
        try:
            return cls(slot, cast(OrderScheme, rest[0].decode("ascii")), rest[1])
        except (InputError, UnicodeDecodeError) as error:
            raise DecodeError("not a key of an attribute") from error


@dataclass(frozen=True)
class ComparatorKey:
    """What the comparator opens one attribute's ciphertexts with.

    Args:
        slot: what it is for.
        secret: 32 bytes, never shown.
    """

    slot: Slot
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _check_secret(self.secret)

    def form_key(self, form: str) -> bytes:
        """The key of one form of values (`form_of`)."""
        return derive(self.secret, info=b"portcullis ope 1 sbm2 attribute " + form.encode())

    def to_bytes(self) -> bytes:
        """Write the key: secret, for the comparator only."""
        return pack(_COMPARATOR_KEY, self.slot._packed(), self.secret)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            DecodeError: anything else.
        """
        slot, rest = _read(data, _COMPARATOR_KEY, 3)
        try:
            return cls(slot, rest[0])
        except InputError as error:
            raise DecodeError("not a key of a comparator") from error


class KeyringComparator:
    """A comparator with the keys of many slots (`Comparator`); safe for several threads.

    Args:
        keys: one a slot.
        forms: most forms of values whose opened ciphertexts are remembered.

    Raises:
        InputError: `invalid` for two keys of one slot.
    """

    def __init__(self, keys: Iterable[ComparatorKey], *, forms: int = 1024) -> None:
        self._keys: dict[str, ComparatorKey] = {}
        for key in keys:
            if key.slot.name in self._keys:
                raise InputError("invalid", "a slot has one key", where="keys")
            self._keys[key.slot.name] = key
        self._keyed = lru_cache(maxsize=forms)(self._comparator)

    @property
    def slots(self) -> Mapping[str, Slot]:
        """Names of the slots that it has keys of."""
        return {name: key.slot for name, key in self._keys.items()}

    def compare(self, questions: Sequence[Question]) -> list[int]:
        """Place each needle among its pivots (`Comparator.compare`).

        Raises:
            InputError: `unknown` for a column of which there is no key.
            DecryptionError: a ciphertext does not open.
        """
        return [self._place(question) for question in questions]

    def _place(self, question: Question) -> int:
        slot, form, direction = split_column(question.column)
        key = self._keys.get(slot)
        if key is None:
            raise InputError("unknown", "there is no key of this column", where="column")
        asked = Question(key.slot.attribute + direction, question.needle, question.pivots)
        return self._keyed(slot, form).compare([asked])[0]

    def _comparator(self, slot: str, form: str) -> KeyedComparator:
        return KeyedComparator(self._keys[slot].form_key(form))


def split_column(column: str) -> tuple[str, str, str]:
    """Split a column's name into slot, form and direction.

    Raises:
        InputError: `invalid` for anything that `Slot.column` does not return.
    """
    found = _COLUMN.fullmatch(column)
    if found is None:
        raise InputError("invalid", "this is no column's name", where="column")
    return found[1], found[2], found[3]


def _check_secret(secret: bytes) -> None:
    if len(secret) != _SECRET:
        raise InputError("invalid", "a secret has 32 bytes", where="secret")


def _read(data: bytes, kind: bytes, fields: int) -> tuple[Slot, tuple[bytes, ...]]:
    found, slot, *rest = unpack(data, fields)
    if found != kind:
        _refuse()
    try:
        return Slot._unpacked(slot), tuple(rest)
    except (InputError, UnicodeDecodeError) as error:
        raise DecodeError("not a key of this kind") from error


def _refuse() -> NoReturn:
    raise DecodeError("not a key of this kind")
