"""Events: a trapdoor for each element, made by the publisher, finished by the broker.

What a broker learns from an event: how many trapdoors there are (a multiple of the
padding), and which of them stood in earlier events, since TD(a) = h^sigma is the same
each time. Not the labels, not the values, and no order: trapdoors travel in the order of
td1, which is random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from policyengine.attributes import Element, Ranges, Schema, Value, elements_of
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.sde.group import GroupElement, draw_scalar
from policyengine.sde.keys import BrokerKey, UserKey
from policyengine.sde.wire import Reader, System, user_field, write

MAX_TRAPDOORS: Final = 65_536
"""Most trapdoors of an event."""
PADDING: Final = 16
"""Default: the number of trapdoors is a multiple of this."""
_COUNT: Final = 4
_DRAW: Final = 8


@dataclass(frozen=True, slots=True)
class UserEvent:
    """The trapdoors as a publisher sends them to its broker.

    Args:
        system: which set-up they belong to.
        user: the publisher.
        trapdoors: (td1, td2), encoded, in ascending order, all td1 different.
    """

    system: System
    user: str
    trapdoors: tuple[tuple[bytes, bytes], ...]

    def encode(self) -> bytes:
        """Write the event."""
        fields = [part for pair in self.trapdoors for part in pair]
        count = len(self.trapdoors).to_bytes(_COUNT, "big")
        return write("event", self.system, user_field(self.user), count, *fields)

    @classmethod
    def decode(cls, data: bytes) -> UserEvent:
        """Read an event; each element is proven to be in the group.

        Raises:
            DecodeError: the bytes are not canonical.
        """
        reader = Reader(data, "event")
        user = reader.user()
        count = _count(reader, 2)
        pairs = tuple((reader.element(), reader.element()) for _ in range(count))
        _check_ascending([first for first, _ in pairs])
        return cls(reader.system, user, pairs)


@dataclass(frozen=True, slots=True)
class EncryptedEvent:
    """The trapdoors after the broker's part: the same for all publishers.

    Args:
        system: which set-up they belong to.
        trapdoors: TD(a), encoded, all different, in the order of the user's event.
    """

    system: System
    trapdoors: tuple[bytes, ...]

    def encode(self) -> bytes:
        """Write the event."""
        count = len(self.trapdoors).to_bytes(_COUNT, "big")
        return write("trapdoors", self.system, count, *self.trapdoors)

    @classmethod
    def decode(cls, data: bytes) -> EncryptedEvent:
        """Read an event; each element is proven to be in the group.

        Raises:
            DecodeError: the bytes are not canonical.
        """
        reader = Reader(data, "trapdoors")
        found = tuple(reader.element() for _ in range(_count(reader, 1)))
        if len(set(found)) != len(found):
            raise DecodeError("a trapdoor stands twice")
        return cls(reader.system, found)


@dataclass(frozen=True, slots=True)
class PreparedEvent:
    """What a publisher has after encryption.

    Args:
        event: what it sends.
        elements: what each trapdoor hides, in the same order; None for padding. Stays here.
    """

    event: UserEvent
    elements: tuple[Element | None, ...]


def encrypt_event(
    key: UserKey,
    values: dict[str, Value],
    schema: Schema,
    *,
    ranges: Ranges = "dyadic",
    padding: int = PADDING,
    random: RandomSource = SYSTEM_RANDOM,
) -> PreparedEvent:
    """Make the trapdoors of everything that is true of an event (paper 001, section 5.2).

    Padding is taken from a fixed set of elements that no filter asks for, so that it looks
    like any other element to a broker that has seen all of it.

    Args:
        key: the publisher's.
        values: checked values; attributes may be absent.
        schema: all attributes of the event's type.
        ranges: `dyadic` prefixes or the paper's bag of `bits`; filters must agree.
        padding: the number of trapdoors becomes a multiple of this; 1 for none.
        random: source of the blinding and of the choice of padding.

    Raises:
        InputError: `too-large` beyond 65,536 trapdoors, `invalid` for a padding below 1 or
            beyond them, else as `elements_of`.
    """
    if not 1 <= padding <= MAX_TRAPDOORS:
        raise InputError("invalid", f"the padding is from 1 to {MAX_TRAPDOORS}", where="padding")
    elements = elements_of(values, schema, ranges=ranges)
    hidden: list[tuple[str, Element | None]] = [(element.token, element) for element in elements]
    hidden += [(token, None) for token in pads(-len(elements) % padding, padding, random)]
    if len(hidden) > MAX_TRAPDOORS:
        raise InputError("too-large", f"the event needs over {MAX_TRAPDOORS} trapdoors")
    group = key.system.arithmetic
    h_to = group.powers_of(group.load(key.public))
    made = sorted(
        ((*trapdoor(key, token, h_to, random), element) for token, element in hidden),
        key=lambda entry: entry[0],
    )
    event = UserEvent(key.system, key.user, tuple((first, second) for first, second, _ in made))
    return PreparedEvent(event, tuple(element for _, _, element in made))


def reencrypt_event(key: BrokerKey, event: UserEvent) -> EncryptedEvent:
    """Do the broker's part: TD = td1^x2 * td2 = h^sigma (paper 001, section 5.2, step 4).

    Args:
        key: the broker's share of the event's publisher.
        event: as it came from the publisher.

    Raises:
        RejectedError: `system` or `user` when the share is not the publisher's.
        DecryptionError: trapdoors that no honest publisher makes, two of one element included.
    """
    key.check_owner(event.system, event.user)
    group = event.system.arithmetic
    finished = tuple(
        group.encode(group.product(group.power(group.load(first), key.share), group.load(second)))
        for first, second in event.trapdoors
    )
    if len(set(finished)) != len(finished):
        raise DecryptionError("the ciphertext does not open")
    return EncryptedEvent(event.system, finished)


def trapdoor(
    key: UserKey, token: str, h_to: Callable[[int], GroupElement], random: RandomSource
) -> tuple[bytes, bytes]:
    """Return td1 = g^(sigma-r) and td2 = (h g^-x1)^r g^(x1 sigma) = h^r g^(x1 (sigma-r))."""
    group, sigma = key.system.arithmetic, key.sigma(token)
    blind = draw_scalar(group, random, sigma)
    rest = sigma - blind
    second = group.product(h_to(blind), group.generated(key.share * rest))
    return group.encode(group.generated(rest)), group.encode(second)


def pads(count: int, padding: int, random: RandomSource) -> Iterable[str]:
    """Choose so many of the padding's tokens; no element's token begins with a letter."""
    drawn = [(random.token(_DRAW), number) for number in range(padding)] if count else []
    return [f"pad {number}" for _, number in sorted(drawn)[:count]]


def _count(reader: Reader, elements: int) -> int:
    count = reader.number(_COUNT)
    if count > MAX_TRAPDOORS:
        raise DecodeError("the event has too many trapdoors")
    if reader.left != count * elements * reader.system.arithmetic.element_bytes:
        raise DecodeError("the event has the wrong length")
    return count


def _check_ascending(parts: list[bytes]) -> None:
    if any(first >= second for first, second in pairwise(parts)):
        raise DecodeError("the trapdoors are not in ascending order")
