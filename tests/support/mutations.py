"""Messages changed as an attacker would, from a seed: what must never be believed.

An attacker changes bytes on the way; or opens nothing but seals anew, as recipients' public keys
are no secret; or signs, with any key but the one that counts. A change that by chance gives what
the signer wrote is marked as `written`, and proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from policyengine.primitives import pack, sign
from policyengine.primitives.canonical import unpack_all
from policyengine.primitives.signatures import SigningKey
from tests.support.dice import Dice

_MOST_FIELDS = 128
_LENGTH = 4
# the order of the group of Ed25519: a scalar plus this is the same scalar to whoever forgets it
_ORDER = 2**252 + 27742317777372353535851937790883648493
_NUMBERS: tuple[Any, ...] = (0, -1, 1.5, 2**31, 2**64, 2**200, True, None, "1", 1e308)
_TEXTS: tuple[Any, ...] = ("", "é", "\u0000", "../..", "agent:beta", "p-" + "f" * 16, "a" * 300, 0)


@dataclass(frozen=True)
class Layer:
    """One wrapping of a message.

    Args:
        name: `wire` for the bytes that travel, `inside` for those within the seal.
        genuine: the bytes that signers wrote here; the first are those to change.
        wrap: gives the bytes that travel.
    """

    name: str
    genuine: tuple[bytes, ...]
    wrap: Callable[[bytes], bytes]


@dataclass(frozen=True)
class Signature:
    """Where a signature stands in a layer of packed fields.

    Args:
        layer: the layer's name.
        body: place of the field that is signed.
        at: place of the signature.
        context: what it is for.
        wrong: keys of others, and of other roles.
        payload: what is signed, by the body.
    """

    layer: str
    body: int
    at: int
    context: bytes
    wrong: tuple[SigningKey, ...]
    payload: Callable[[bytes], bytes] = lambda body: body


@dataclass(frozen=True)
class Target:
    """One kind of message, and who decides about it.

    Args:
        name: of the kind.
        layers: the wire first.
        judge: takes the bytes that travel; returns where it believes them, raises where not.
        refusals: what it may raise.
        signature: where it is signed, where fields are packed.
        foreign: bytes of other messages by the right signers, layer by layer: they are for
            somebody else, of another kind, or of another time.
        forge: changes of its own.
        same: whether bytes that travel say what a signer wrote, where that is not told by bytes.
        honest: whether what was believed is what a signer wrote, though other bytes stand by it.
        changed: says what changed at the judge since the beginning; empty for nothing.
    """

    name: str
    layers: tuple[Layer, ...]
    judge: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    signature: Signature | None = None
    foreign: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    forge: Callable[[Dice], bytes] | None = None
    same: Callable[[bytes], bool] = lambda wire: False
    honest: Callable[[object], bool] = lambda believed: False
    changed: Callable[[], str] = lambda: ""


@dataclass(frozen=True)
class Mutation:
    """A changed message.

    Args:
        how: what was done.
        wire: the bytes that travel.
        written: whether it says what a signer wrote after all.
    """

    how: str
    wire: bytes
    written: bool


def mutate(target: Target, dice: Dice) -> Mutation:
    """Change a message in one way."""
    if target.forge is not None and dice.below(4) == 0:
        wire = target.forge(dice)
        return Mutation("forged", wire, target.same(wire))
    layer = dice.pick(target.layers)
    before = dice.pick(layer.genuine)
    how, change = dice.pick(_CHANGES)
    try:
        after = change(before, layer, target, dice)
    except _NotHereError:
        how, after = "bytes", _bytes(before, layer, target, dice)
    wire = layer.wrap(after)
    return Mutation(f"{layer.name}: {how}", wire, after in layer.genuine or target.same(wire))


class _NotHereError(Exception):
    """There is nothing in the bytes that could be changed in this way."""


# -- bytes --------------------------------------------------------------------------------------


def change_bytes(data: bytes, dice: Dice, other: bytes) -> bytes:
    """Change, drop, add or exchange some bytes."""
    at = dice.below(len(data) + 1)
    to = min(len(data), at + 1 + dice.below(dice.pick((2, 9, 80, len(data) + 1))))
    kind = dice.below(10)
    if kind < 3:
        return _flipped(data, dice)
    if kind == 3:
        return data[:at] + dice.token(1 + dice.below(40)) + data[at:]
    if kind == 4:
        return data[:at] + data[to:]
    if kind == 5:
        return data[:at]
    if kind == 6:
        return data[:to] + data[at:to] + data[to:]
    if kind == 7:
        return data[:at] + bytes(to - at) + data[to:]
    if kind == 8:
        return data[:at] + data[at:to][::-1] + data[to:]
    return data[:at] + other[at:to] + data[to:]


def _flipped(data: bytes, dice: Dice) -> bytes:
    changed = bytearray(data)
    for _ in range(1 + dice.below(3)):
        if changed:
            changed[dice.below(len(changed))] ^= 1 << dice.below(8)
    return bytes(changed)


def _bytes(data: bytes, layer: Layer, target: Target, dice: Dice) -> bytes:
    return change_bytes(data, dice, _another(layer, target, dice))


def _spliced(data: bytes, layer: Layer, target: Target, dice: Dice) -> bytes:
    other = _another(layer, target, dice)
    at = dice.below(min(len(data), len(other)) + 1)
    return data[:at] + other[at:]


def _exchanged(data: bytes, layer: Layer, target: Target, dice: Dice) -> bytes:
    """Another message by a right signer, sealed for this place."""
    return _another(layer, target, dice)


def _another(layer: Layer, target: Target, dice: Dice) -> bytes:
    return dice.pick([*layer.genuine, *target.foreign.get(layer.name, ())])


# -- fields -------------------------------------------------------------------------------------


def _fields(data: bytes) -> list[bytes]:
    try:
        found = unpack_all(data, limit=_MOST_FIELDS)
    except Exception as error:
        raise _NotHereError from error
    if len(found) < 2:
        raise _NotHereError
    return [*found]


def _lengths(data: bytes, layer: Layer, target: Target, dice: Dice) -> bytes:
    """A field's length that says something else."""
    fields = _fields(data)
    place = dice.below(len(fields))
    at = sum(_LENGTH + len(each) for each in fields[:place])
    size = len(fields[place])
    wrong = dice.pick((size + 1, size - 1, 0, 2**31, 2**32 - 1, size ^ 1 << dice.below(32)))
    return data[:at] + (wrong % 2**32).to_bytes(_LENGTH, "big") + data[at + _LENGTH :]


def _one_field(data: bytes, layer: Layer, target: Target, dice: Dice) -> bytes:
    """Fields changed, dropped, repeated, exchanged, or taken from another message."""
    fields, others = _fields(data), _fields(_another(layer, target, dice))
    place, second = dice.below(len(fields)), dice.below(len(fields))
    other = others[min(place, len(others) - 1)]
    kind = dice.below(7)
    if kind == 0:
        fields[place] = change_bytes(fields[place], dice, other)
    elif kind == 1:
        del fields[place]
    elif kind == 2:
        fields.insert(second, fields[place])
    elif kind == 3:
        fields[place], fields[second] = fields[second], fields[place]
    elif kind == 4:
        fields[place] = other
    elif kind == 5:
        fields.insert(second, dice.token(dice.below(40)))
    else:
        fields = fields[:place] + others[place:]
    return pack(*fields)


def _scalar(data: bytes, layer: Layer, target: Target, dice: Dice) -> bytes:
    """The other ways to write a signature that a careless verifier takes for the same."""
    signature = _signature_of(layer, target)
    fields = _fields(data)
    written = fields[signature.at]
    number = int.from_bytes(written[32:], "little")
    kind = dice.below(4)
    if kind == 0:
        number += _ORDER
    elif kind == 1:
        number = _ORDER - number
    elif kind == 2:
        number ^= 1 << 255 - dice.below(4)
    first = bytes(32) if kind == 3 else written[:32]
    fields[signature.at] = first + (number % 2**256).to_bytes(32, "little")
    return pack(*fields)


def _signature_of(layer: Layer, target: Target) -> Signature:
    if target.signature is None or target.signature.layer != layer.name:
        raise _NotHereError
    return target.signature


def _resigned(data: bytes, layer: Layer, target: Target, dice: Dice) -> bytes:
    """The body, mostly changed, signed by somebody whose word does not count here."""
    signature = _signature_of(layer, target)
    fields = _fields(data)
    if dice.below(3):
        fields[signature.body] = _edited(fields[signature.body], dice)
    key = dice.pick(signature.wrong)
    payload = signature.payload(fields[signature.body])
    fields[signature.at] = sign(key, signature.context, payload)
    return pack(*fields)


# -- JSON ---------------------------------------------------------------------------------------


def _json(data: bytes, layer: Layer, target: Target, dice: Dice) -> bytes:
    """JSON with a value changed, written again in its canonical form, where the signed body is
    JSON, or all of it."""
    signature = target.signature
    if signature is None or signature.layer != layer.name:
        return _edited(data, dice)
    fields = _fields(data)
    fields[signature.body] = _edited(fields[signature.body], dice)
    return pack(*fields)


def _edited(data: bytes, dice: Dice) -> bytes:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise _NotHereError from error
    return write_json(edit(document, dice), dice)


def write_json(document: object, dice: Dice) -> bytes:
    """Write JSON, in its canonical form or, seldom, as it must not be written."""
    style: dict[str, Any] = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": False}
    if dice.below(8) == 0:
        style |= dice.pick(
            ({"ensure_ascii": True}, {"separators": (", ", ":")}, {"indent": 1})  # type: ignore[arg-type]
        )
    return json.dumps(document, **style).encode("utf-8", "surrogatepass")


def edit(document: Any, dice: Dice) -> Any:
    """Change one value somewhere in a document; it is changed in place where it can be."""
    places = list(_places(document))
    if not places:
        return [document]
    holder, key = dice.pick(places)
    kind = dice.below(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and type(holder) is dict:
        holder[dice.pick(("", "zz", "format", "sealed"))] = holder[key]
    elif kind == 1:
        holder.append(holder[key])
    elif kind == 2:
        other, second = dice.pick(places)
        holder[key], other[second] = json.loads(json.dumps([other[second], holder[key]]))
    elif kind == 3:
        holder[key] = [holder[key]]
    else:
        holder[key] = _another_value(holder[key], dice)
    return document


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if type(document) is dict or type(document) is list:
        keys = list(document) if type(document) is dict else range(len(document))
        for key in keys:
            yield document, key
            yield from _places(document[key])


def _another_value(value: Any, dice: Dice) -> Any:
    if type(value) is bool:
        return not value
    if type(value) in (int, float):
        return dice.pick((value + 1, value - 1, value * 2, -value, *_NUMBERS))
    if type(value) is str:
        return dice.pick((*_base64(value, dice), value + "x", value[:-1], value[::-1], *_TEXTS))
    if type(value) is dict:
        return dice.pick(({}, None, [*value]))
    if type(value) is list:
        return dice.pick((value[::-1], value[1:], value * 2, {}))
    return dice.pick(_NUMBERS)


def _base64(text: str, dice: Dice) -> tuple[str, ...]:
    """Other texts that a forgiving reader of base64 takes for the same bytes, or nearly."""
    at = dice.below(len(text) + 1)
    last = chr(ord(text[-1]) ^ 1) if text else "A"
    return (
        text + "=",
        text + "==",
        text.replace("-", "+").replace("_", "/"),
        text[:-1] + last,
        text[:at] + "\n" + text[at:],
        text[:at] + dice.pick("AQgw-_") + text[at + 1 :],
    )


_CHANGES: tuple[tuple[str, Callable[..., bytes]], ...] = (
    ("bytes", _bytes),
    ("splice", _spliced),
    ("exchange", _exchanged),
    ("lengths", _lengths),
    ("fields", _one_field),
    ("fields", _one_field),
    ("signature", _scalar),
    ("resigned", _resigned),
    ("resigned", _resigned),
    ("json", _json),
    ("json", _json),
)
