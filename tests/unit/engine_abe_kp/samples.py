"""A schema, keys and short ways that the tests of this folder share."""

from __future__ import annotations

from functools import lru_cache

import pytest

from policyengine.abe import (
    FilterKey,
    KpCiphertext,
    KpMasterKey,
    KpMode,
    PublicKey,
    decapsulate,
    encapsulate,
    keygen,
    public_key,
    setup,
)
from policyengine.attributes import (
    AttributeType,
    Element,
    Gate,
    Leaf,
    Node,
    Value,
    access_tree,
    elements_of,
    parse,
)
from policyengine.errors import DecryptionError

SCHEMA = {
    "zone": AttributeType("string"),
    "level": AttributeType("int", 0, 15),
    "unit": AttributeType("enum", values=("a", "b", "c")),
}
EVENT: dict[str, Value] = {"zone": "West", "level": 9, "unit": "b"}
MODES: tuple[KpMode, ...] = ("hash", "polynomial")

A, B, C, D, E = (Element(letter, "1") for letter in "abcde")


def leaf(element: Element) -> Leaf:
    return Leaf(element)


def both(*terms: Node) -> Gate:
    return Gate(len(terms), terms)


def either(*terms: Node) -> Gate:
    return Gate(1, terms)


@lru_cache
def _made(mode: KpMode) -> tuple[KpMasterKey, PublicKey]:
    made = setup(mode, elements=40)
    return made, public_key(made)


def master(mode: KpMode = "hash") -> KpMasterKey:
    return _made(mode)[0]


def public(mode: KpMode = "hash") -> PublicKey:
    return _made(mode)[1]


def filter_tree(text: str) -> Node:
    return access_tree(parse(text, SCHEMA), SCHEMA)


def key_for(text: str, mode: KpMode = "hash") -> FilterKey:
    return keygen(master(mode), filter_tree(text))


def event(values: dict[str, Value] = EVENT, mode: KpMode = "hash") -> tuple[bytes, KpCiphertext]:
    return encapsulate(public(mode), elements_of(values, SCHEMA))


def opens(key: FilterKey, sent: tuple[bytes, KpCiphertext]) -> bool:
    """Tell whether a key opens it; a wrong secret is an error of the scheme."""
    secret, ciphertext = sent
    try:
        found = decapsulate(key, ciphertext)
    except DecryptionError:
        return False
    assert found == secret
    return True


def refuse(key: FilterKey, ciphertext: KpCiphertext) -> None:
    with pytest.raises(DecryptionError, match=r"^the ciphertext does not open$"):
        decapsulate(key, ciphertext)
