"""The pairing group under the interface of Charm's `pairing` module.

Charm's own module is an extension on libpbc, which is not to be had here; its schemes need
nothing but its interface. `install` puts this module in its place, for those who ask for it,
and `PairingGroup("BLS12-381")` and the schemes of `charm.schemes` then run on BLS12-381.

What differs from Charm's module, on purpose: scalars come from a `RandomSource` (pymcl's own
generator draws the same in forked children), the inverse of zero raises, operands of wrong
types raise instead of giving a value, deserialisation is strict, and elements never change,
so threads may share them. Names and spellings are Charm's.
"""

from __future__ import annotations

import base64
import binascii
import sys
from functools import lru_cache
from hashlib import sha256
from threading import Lock
from types import ModuleType
from typing import Any, Final, TypeAlias

import pymcl

from policyengine.abe.charm_element import G1, G2, GT, ZR, Element, Kind
from policyengine.abe.group import (
    G1_BYTES,
    G2_BYTES,
    ORDER,
    SCALAR_BYTES,
    base_1,
    base_2,
    decode_g1,
    decode_g2,
    decode_scalar,
    encode_g1,
    encode_g2,
    encode_scalar,
    gt_power,
    random_scalar,
    scalar_of,
)
from policyengine.abe.group import pair as _pair
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

CURVE: Final = "BLS12-381"
"""The only name that `PairingGroup` accepts."""
GT_BYTES: Final = 576
_HASH: Final = b"portcullis/charm/hash/v1"
_PLACE: Final = "charm.core.math.pairing"
_NAMES: Final = (
    "ZR", "G1", "G2", "GT", "pairing", "pc_element", "init", "pair", "hashPair", "H", "random",
    "serialize", "deserialize", "ismember", "order",
)  # fmt: skip
_SIZES: Final = {ZR: SCALAR_BYTES, G1: G1_BYTES, G2: G2_BYTES, GT: GT_BYTES}
_installing: Final = Lock()

Hashed: TypeAlias = str | bytes | Element
pc_element = Element


class pairing:  # noqa: N801  Charm's name
    """A pairing, and where its random scalars come from.

    Args:
        string: the name of the curve.
        source: source of random scalars; `PairingGroup` cannot hand one over, so whoever
            wants another than the system's sets the attribute.

    Raises:
        InputError: `unsupported` for another curve.
    """

    def __init__(self, string: str = CURVE, *, source: RandomSource = SYSTEM_RANDOM) -> None:
        if string != CURVE:
            raise InputError("unsupported", f"the curve is `{CURVE}`")
        self.source = source


def init(group: pairing, kind: Kind, value: int | None = None) -> Element:
    """Make an element: a scalar of any value, or the neutral element of a group.

    Raises:
        ValueError: another value than 1 for a group.
    """
    if kind == ZR:
        return Element(ZR, (value or 0) % ORDER)
    if value not in (None, 1):
        raise ValueError("only a scalar is made of a number")
    return Element(kind, {G1: pymcl.G1, G2: pymcl.G2, GT: pymcl.GT}[kind]())


def pair(first: Any, second: Any, group: pairing | None = None) -> Element:
    """Return e(first, second), or the product over two lists of the same length.

    Args:
        first: an element of G1, or a list of them; G1 and G2 may be exchanged.
        second: an element of G2, or a list of them.
        group: as Charm hands it over with lists.

    Raises:
        TypeError: other groups.
        ValueError: lists of different lengths.
    """
    if isinstance(first, list | tuple):
        total = Element(GT, pymcl.GT())
        for one, other in zip(first, second, strict=True):
            total = total * pair(one, other, group)
        return total
    kinds = (first.type, second.type)
    if kinds == (G2, G1):
        first, second = second, first
    elif kinds != (G1, G2):
        raise TypeError("a pairing takes an element of G1 and one of G2")
    return Element(GT, _pair(first.value, second.value))


def hashPair(element: Element) -> bytes:  # noqa: N802  Charm's name
    """Return SHA-256 of an element's bytes, in hexadecimal."""
    return sha256(_bytes(element)).hexdigest().encode()


def H(group: pairing, args: Hashed | list[Hashed] | tuple[Hashed, ...], kind: Kind) -> Element:  # noqa: N802  Charm's name
    """Hash texts, bytes and elements to a scalar or a point.

    Args:
        group: the pairing.
        args: one thing or several; different lists never hash alike.
        kind: ZR, G1 or G2.

    Raises:
        TypeError: something else is hashed, or to another group.
    """
    if kind == G1 and isinstance(args, str):
        return Element(G1, point_of_text(args))
    listed = args if isinstance(args, list | tuple) else (args,)
    message = pack(_HASH, *(_field(one) for one in listed))
    if kind == ZR:
        wide = sha256(b"\x00" + message).digest() + sha256(b"\x01" + message).digest()
        return Element(ZR, scalar_of(wide))
    if kind == G1:
        return Element(G1, pymcl.G1.hash(message))
    if kind == G2:
        return Element(G2, pymcl.G2.hash(message))
    raise TypeError("one hashes to ZR, G1 or G2")


@lru_cache(maxsize=32_768)
def point_of_text(text: str) -> pymcl.G1:
    """Return what `H` makes of a text in G1; texts come back often, and hashing is slow."""
    return pymcl.G1.hash(pack(_HASH, _field(text)))


def random(group: pairing, kind: Kind) -> Element:
    """Draw an element of ZR, G1 or G2 other than the neutral one.

    Raises:
        TypeError: another group (`PairingGroup` draws from GT itself), or a seed.
    """
    scalar = random_scalar(group.source)
    if kind == ZR:
        return Element(ZR, scalar)
    if kind == G1:
        return Element(G1, base_1(scalar))
    if kind == G2:
        return Element(G2, base_2(scalar))
    raise TypeError("one draws from ZR, G1 or G2")


def serialize(element: Element, compression: bool = True) -> bytes:
    """Write an element as its group's number, a colon and base64.

    Raises:
        InputError: `unsupported` without compression, `invalid` for the identity of G1 or G2.
    """
    _check_compressed(compression)
    return b"%d:%s" % (element.type, base64.b64encode(_bytes(element)))


def deserialize(group: pairing, data: bytes, compression: bool = True) -> Element:
    """Read what `serialize` wrote.

    Raises:
        DecodeError: anything else: another length or spelling, a point that is not in the
            group, the identity of G1 or G2.
        InputError: `unsupported` without compression.
    """
    _check_compressed(compression)
    number, colon, text = data[:1], data[1:2], data[2:]
    try:
        kind, raw = int(number), base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise DecodeError("not an element") from None
    if kind not in _SIZES or colon != b":" or base64.b64encode(raw) != text:
        raise DecodeError("not an element")
    if kind == ZR:
        return Element(ZR, decode_scalar(raw))
    if kind == G1:
        return Element(G1, decode_g1(raw))
    if kind == G2:
        return Element(G2, decode_g2(raw))
    return Element(GT, decode_gt(raw))


def ismember(group: pairing, thing: object) -> bool:
    """Tell whether a thing is an element; there are no elements outside their groups."""
    return isinstance(thing, Element)


def order(group: pairing) -> int:
    """Return the prime order of all groups."""
    return ORDER


def encode_gt(element: pymcl.GT) -> bytes:
    """Write an element of GT as 576 bytes; only public keys hold such elements."""
    return bytes(element.serialize())


def decode_gt(data: bytes) -> pymcl.GT:
    """Read an element of GT.

    pymcl reads any blob. Powers of an element of order `ORDER` have exponents modulo it;
    those of other elements of the field do not, which is what is checked here.

    Raises:
        DecodeError: another length or spelling, not of that order, or the neutral element.
    """
    if len(data) != GT_BYTES:
        raise DecodeError("an element has the wrong length")
    try:
        element = pymcl.GT.deserialize(data)
    except ValueError:
        raise DecodeError("not an element of the group") from None
    first, second = ORDER - 2**200 - 1, 2**254 - 2**127 - 3
    parts = gt_power(element, first) * gt_power(element, second)
    if element.is_one() or element.is_zero() or element.serialize() != data:
        raise DecodeError("not an element of the group")
    if parts != gt_power(element, first + second) or not (element * ~element).is_one():
        raise DecodeError("not an element of the group")
    return element


def install() -> ModuleType:
    """Put this group in the place of Charm's pairing module; again does nothing.

    Returns:
        The module that Charm's schemes will see.

    Raises:
        InputError: `unsupported` when Charm's own pairing module is loaded already: those
            who use it keep it, and both cannot serve the same schemes.
    """
    with _installing:
        import charm.core.math

        there = sys.modules.get(_PLACE)
        # A folder of C sources looks like a package without a content to the import system.
        if there is not None and hasattr(there, "pairing"):
            if getattr(there, "pairing", None) is pairing:
                return there
            raise InputError("unsupported", "another pairing module of Charm is loaded already")
        module = ModuleType(_PLACE, "BLS12-381 under the interface of Charm's pairing module")
        for name in _NAMES:
            setattr(module, name, globals()[name])
        charm.core.math.pairing = module
        sys.modules[_PLACE] = module
        from charm.toolbox.pairingcurves import params

        params[CURVE] = CURVE
        return module


def charm_group(random: RandomSource = SYSTEM_RANDOM) -> Any:
    """Return Charm's `PairingGroup` on BLS12-381.

    Args:
        random: source of every random scalar that a scheme draws.
    """
    install()
    from charm.toolbox.pairinggroup import PairingGroup

    group = PairingGroup(CURVE)
    group.Pairing.source = random
    return group


def _check_compressed(compression: bool) -> None:
    if not compression:
        raise InputError("unsupported", "elements have a compressed form only")


def _field(thing: Hashed) -> bytes:
    if isinstance(thing, str):
        return b"s" + thing.encode()
    if isinstance(thing, bytes):
        return b"b" + thing
    if isinstance(thing, Element):
        return b"e" + thing.canonical()
    raise TypeError("one hashes texts, bytes and elements")


def _bytes(element: Element) -> bytes:
    if element.type == ZR:
        return encode_scalar(element.value)
    if element.type == GT:
        return encode_gt(element.value)
    return encode_g1(element.value) if element.type == G1 else encode_g2(element.value)
