"""Self-describing parts of a publication, and what a subscriber's proxy makes of them.

The publisher's proxy splits by the plan; each part says which publication and plan it
belongs to, which of how many it is, and holds what its overlay may see. The subscriber's
proxy needs no plan to put them together (paper 004, section 4.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from policyengine.attributes import Value, shown, unknown
from policyengine.attributes.types import check_size
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives.aead import KEY_SIZE, open_, seal
from policyengine.primitives.canonical import MAX_BYTES, b64, dumps, loads, pack, unb64
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.privacy.plan import SplitPlan
from policyengine.privacy.splitting import MAX_PARTS, Reassembler, split

MAX_DELIVERIES: Final = 10_000
"""Most arrivals of parts that `roundtrip` plays."""

_VERSION: Final = b"\x01"
_FIELDS: Final = {"publication", "part", "parts", "plan", "clear", "encrypted"}
_PURPOSE: Final = b"portcullis/split/v1"
_BLOCK: Final = 32  # ciphertexts come in steps, so that their length says little of the value
_END: Final = b"\x80"
_ID: Final = 16
_HEX: Final = frozenset("0123456789abcdef")


class Sealer(Protocol):
    """Encrypts the attributes that a plan wants encrypted, whatever the scheme."""

    def seal(self, name: str, value: Value, aad: bytes) -> bytes:
        """Encrypt a value of an attribute; `aad` is what it belongs to."""

    def open(self, name: str, data: bytes, aad: bytes) -> Value:
        """Decrypt what `seal` made.

        Raises:
            DecryptionError: it does not open.
        """


class KeySealer:
    """Encrypts under one key that publisher and subscriber share.

    Args:
        key: 32 bytes.
        random: source of nonces.
    """

    def __init__(self, key: bytes, random: RandomSource = SYSTEM_RANDOM) -> None:
        self._key, self._random = key, random

    def seal(self, name: str, value: Value, aad: bytes) -> bytes:
        """Encrypt a value, padded to full blocks."""
        plain = dumps(value) + _END
        padded = plain.ljust(-(-len(plain) // _BLOCK) * _BLOCK, b"\0")
        return seal(self._key, padded, aad=_bound(aad, name), random=self._random)

    def open(self, name: str, data: bytes, aad: bytes) -> Value:
        """Decrypt a value.

        Raises:
            DecryptionError: it does not open.
        """
        padded = open_(self._key, data, aad=_bound(aad, name))
        plain, end, rest = padded.rpartition(_END)
        if not end or rest.strip(b"\0"):
            raise DecryptionError("the ciphertext does not open")
        try:
            value = loads(plain)
        except DecodeError as error:
            raise DecryptionError("the ciphertext does not open") from error
        if not isinstance(value, str | int | float | bool):
            raise DecryptionError("the ciphertext does not open")
        return value


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a publication that travels over one overlay.

    Args:
        publication: id of the publication, the same in all its parts; 32 hexadecimal digits.
        part: number of the part and of its overlay, from 0.
        parts: how many there are.
        plan: digest of the plan by which it was split, 64 hexadecimal digits.
        clear: attributes that the overlay sees.
        encrypted: attribute -> ciphertext.

    Raises:
        InputError: `invalid` when the number does not fit, an id is none, or an attribute
            is both clear and encrypted.
    """

    publication: str
    part: int
    parts: int
    plan: str
    clear: Mapping[str, Value] = field(default_factory=dict)
    encrypted: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts <= MAX_PARTS:
            raise InputError(
                "invalid", f"there is no part {self.part} of {self.parts}", where="part"
            )
        for where, text, digits in (
            ("publication", self.publication, 2 * _ID),
            ("plan", self.plan, 64),
        ):
            if len(text) != digits or not _HEX.issuperset(text):
                raise InputError("invalid", f"an id has {digits} hexadecimal digits", where=where)
        if both := sorted(set(self.clear) & set(self.encrypted)):
            raise InputError(
                "invalid",
                f"attribute {shown(both[0])} is both clear and encrypted",
                where=both[0],
            )

    def encode(self) -> bytes:
        """Write the part: a version byte and canonical JSON.

        Raises:
            InputError: `invalid` for a value that has no canonical form, `too-large` for
                more than a part can hold.
        """
        data = dumps(
            {
                "publication": self.publication,
                "part": self.part,
                "parts": self.parts,
                "plan": self.plan,
                "clear": dict(self.clear),
                "encrypted": {name: b64(sealed) for name, sealed in self.encrypted.items()},
            }
        )
        if len(data) > MAX_BYTES:
            raise InputError("too-large", f"a part has at most {MAX_BYTES} bytes", where="part")
        return _VERSION + data

    @classmethod
    def decode(cls, data: bytes) -> Part:
        """Read what `encode` wrote and nothing else.

        Raises:
            DecodeError: whatever is wrong with the bytes.
        """
        if data[:1] != _VERSION:
            raise DecodeError("the part is of another version")
        obj = loads(data[1:])
        if not isinstance(obj, Mapping) or set(obj) != _FIELDS:
            raise DecodeError("a part has exactly the fields of its version")
        if not all(isinstance(obj[name], str) for name in ("publication", "plan")):
            raise DecodeError("a part names its publication and its plan")
        if type(obj["part"]) is not int or type(obj["parts"]) is not int:
            raise DecodeError("the parts of a publication are numbered")
        clear, encrypted = obj["clear"], obj["encrypted"]
        if not _all_of(clear, str | int | float | bool) or not _all_of(encrypted, str):
            raise DecodeError("attributes are names with their values")
        sealed = {name: unb64(text) for name, text in encrypted.items()}
        try:
            return cls(obj["publication"], obj["part"], obj["parts"], obj["plan"], clear, sealed)
        except InputError as error:
            raise DecodeError(error.message) from error


@dataclass(frozen=True, slots=True)
class Received:
    """A publication that is whole again.

    Args:
        publication: its id.
        plan: digest of the plan by which it was split.
        values: the attributes of all parts, decrypted, sorted by name.
    """

    publication: str
    plan: str
    values: dict[str, Value]


class Assembly:
    """The subscriber's proxy: puts parts together and decrypts.

    Args:
        sealer: opens the encrypted attributes.
        window: as of `Reassembler`.
    """

    def __init__(self, sealer: Sealer, window: int = 1_000) -> None:
        self._sealer = sealer
        self._reassembler = Reassembler(window)

    def add(self, part: Part, *, now: float | None = None) -> Received | None:
        """Take one part, in whatever order, however often.

        Parts that name another plan belong to another publication: they never mix.

        Returns:
            The publication once all its parts are there, else None.

        Raises:
            InputError: `invalid` when parts disagree about their number, or two of them
                hold one attribute.
            DecryptionError: an encrypted attribute does not open.
        """
        meta = (dict(part.clear), dict(part.encrypted))
        whole = self._reassembler.add(_key(part), part.part, part.parts, {}, meta, now=now)
        if whole is None:
            return None
        values: dict[str, Value] = {}
        aad = _belongs(part.publication, part.plan)
        for clear, encrypted in whole.meta:
            opened = {name: self._sealer.open(name, data, aad) for name, data in encrypted.items()}
            for name, value in (clear | opened).items():
                if name in values:
                    raise InputError(
                        "invalid", f"attribute {shown(name)} came in two parts", where=name
                    )
                values[name] = value
        return Received(part.publication, part.plan, dict(sorted(values.items())))

    def missing(self, part: Part) -> tuple[int, ...]:
        """Return what a part's publication still lacks; nothing when it is whole."""
        return self._reassembler.missing(_key(part))

    def expire(self, now: float, max_age: float) -> tuple[str, ...]:
        """Give up publications that wait for over `max_age` seconds; return their ids."""
        given_up = self._reassembler.expire(now, max_age)
        return tuple(key.partition("/")[0] for key in given_up)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What arrived of a publication.

    Args:
        publication: the publication, or None where parts are missing.
        missing: numbers of the parts that never came.
    """

    publication: dict[str, Value] | None
    missing: tuple[int, ...] = ()


def split_publication(
    plan: SplitPlan,
    values: Mapping[str, Value],
    *,
    sealer: Sealer,
    publication: str,
) -> tuple[Part, ...]:
    """Split a publication into the parts that travel over the plan's overlays.

    Args:
        plan: the plan.
        values: the publication; attributes of the plan may be absent.
        sealer: encrypts what the plan wants encrypted; it travels in part 0.
        publication: a fresh id (`new_id`).

    Returns:
        One part for each overlay of the plan, in its order; at least one.

    Raises:
        InputError: `unknown` for an attribute that the plan does not place (it would
            travel somewhere that nobody assessed); `invalid` or `too-large` for a value.
    """
    known = plan.attributes
    for name, value in values.items():
        if name not in known:
            raise unknown("attribute of the plan", name, known)
        _check_value(name, value)
    aad = _belongs(publication, plan.digest)
    clear = {name: value for name, value in values.items() if name not in plan.encrypted}
    sealed = {
        name: sealer.seal(name, values[name], aad)
        for name in sorted(plan.encrypted)
        if name in values
    }
    groups = split(clear, [tuple(group) for group in plan.overlays])
    return tuple(
        Part(publication, number, plan.parts, plan.digest, group, {} if number else sealed)
        for number, group in enumerate(groups)
    )


def new_id(random: RandomSource = SYSTEM_RANDOM) -> str:
    """Return a fresh id of a publication: 32 hexadecimal digits."""
    return random.token(_ID).hex()


def roundtrip(
    plan: SplitPlan,
    values: Mapping[str, Value],
    deliver: Collection[int],
    *,
    random: RandomSource = SYSTEM_RANDOM,
) -> Outcome:
    """Split, encrypt, encode, deliver some parts in some order, decode and put together.

    Args:
        plan: the plan.
        values: the publication.
        deliver: numbers of parts in order of arrival, with losses and repeats.
        random: source of the id, the key and nonces.

    Raises:
        InputError: as `split_publication`; `invalid` for a part that does not exist,
            `too-large` for too many arrivals.
    """
    if len(deliver) > MAX_DELIVERIES:
        raise InputError("too-large", f"over {MAX_DELIVERIES} arrivals", where="deliver")
    sealer = KeySealer(random.token(KEY_SIZE), random)
    parts = split_publication(plan, values, sealer=sealer, publication=new_id(random))
    arriving = [Part.decode(part.encode()) for part in parts]
    check_numbers(deliver, len(arriving), "deliver")
    assembly, whole = Assembly(sealer), None
    for number in deliver:
        whole = assembly.add(arriving[number]) or whole
    if whole is not None:
        return Outcome(whole.values)
    return Outcome(None, assembly.missing(parts[0]) if deliver else tuple(range(len(parts))))


def check_numbers(numbers: Iterable[int], count: int, where: str) -> None:
    """Refuse numbers of parts or overlays that do not exist.

    Raises:
        InputError: `invalid`.
    """
    for number in numbers:
        if not 0 <= number < count:
            raise InputError(
                "invalid",
                f"there is no {shown(number)}; the plan has {count}, numbered from 0",
                where=where,
            )


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, str | int | float | bool):
        raise InputError("invalid", f"the value of {shown(name)} is no value", where=name)
    check_size(value, where=name)


def _key(part: Part) -> str:
    return f"{part.publication}/{part.plan}"


def _belongs(publication: str, plan: str) -> bytes:
    return pack(publication.encode(), plan.encode())


def _bound(aad: bytes, name: str) -> bytes:
    return pack(_PURPOSE, aad, name.encode())


def _all_of(obj: Any, kind: Any) -> bool:
    return isinstance(obj, dict) and all(isinstance(value, kind) for value in obj.values())
