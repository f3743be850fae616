"""Attribute keys: what travels sealed, and what cannot be exchanged."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.attributes import AttributeType
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.events import AttributeSpec, Protected, protect, reveal
from policyengine.primitives.aead import seal
from policyengine.primitives.canonical import b64, pack, unb64
from policyengine.primitives.rand import SYSTEM_RANDOM

TEXT = AttributeType("string")
SPECS = (
    AttributeSpec("location", TEXT, ("police", "fire")),
    AttributeSpec("suspect", TEXT, ("police",)),
    AttributeSpec("severity", AttributeType("int")),
)
POLICE, FIRE = b"p" * 32, b"f" * 32
KEYS = {"police": (3, POLICE), "fire": (1, FIRE)}
VALUES: dict[str, Any] = {"location": "West", "suspect": "Smith", "severity": 4}
AAD = b"domain|publication|part"


def protected() -> Protected:
    return protect(VALUES, SPECS, KEYS, aad=AAD, random=SYSTEM_RANDOM)


def forged(plain: bytes) -> Protected:
    bound = pack(b"portcullis/attribute/v1", AAD, b"suspect", b"police", b"3")
    text = b64(seal(POLICE, plain, aad=bound, random=SYSTEM_RANDOM))
    return Protected({}, {"suspect": {"police": f"3:{text}"}})


def test_an_attribute_is_carried_once_per_key_and_public_ones_clear() -> None:
    made = protected()
    assert made.clear == {"severity": 4}
    assert {name: sorted(entries) for name, entries in made.sealed.items()} == {
        "location": ["fire", "police"], "suspect": ["police"],
    }  # fmt: skip
    assert made.sealed["suspect"]["police"].startswith("3:")
    assert "Smith" not in repr(made)
    assert reveal(made, {("fire", 1): FIRE}, aad=AAD) == {"severity": 4, "location": "West"}
    assert reveal(made, {("police", 3): POLICE}, aad=AAD) == VALUES
    assert reveal(made, {}, aad=AAD) == {"severity": 4}


def test_without_any_of_its_keys_an_attribute_does_not_travel() -> None:
    made = protect(VALUES, SPECS, {"fire": KEYS["fire"]}, aad=AAD, random=SYSTEM_RANDOM)
    assert made.dropped == ("suspect",)
    assert set(made.sealed) == {"location"}
    assert "suspect" not in made.clear


def test_undeclared_attributes_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        protect({"locaton": "x"}, SPECS, KEYS, aad=AAD, random=SYSTEM_RANDOM)
    assert (caught.value.kind, caught.value.suggestion) == ("unknown", "location")


def test_lengths_of_ciphertexts_come_in_steps() -> None:
    lengths = {
        len(
            protect({"suspect": "x" * size}, SPECS, KEYS, aad=AAD, random=SYSTEM_RANDOM)
            .sealed["suspect"]["police"]
        )
        for size in range(28)
    }  # fmt: skip
    assert len(lengths) == 1


def test_a_ciphertext_belongs_to_its_event_attribute_key_and_epoch() -> None:
    made, keys = protected(), {("police", 3): POLICE, ("police", 4): POLICE, ("fire", 3): POLICE}
    sealed = made.sealed["suspect"]["police"]
    moved: list[dict[str, dict[str, str]]] = [
        {"location": {"police": sealed}},
        {"suspect": {"fire": sealed}},
        {"suspect": {"police": "4" + sealed[1:]}},
    ]
    for entries in moved:
        with pytest.raises(DecryptionError):
            reveal(Protected({}, entries), keys, aad=AAD)
    with pytest.raises(DecryptionError):
        reveal(made, keys, aad=AAD + b"x")


def test_every_flipped_bit_of_a_ciphertext_is_noticed() -> None:
    sealed = protected().sealed["suspect"]["police"]
    data = unb64(sealed[2:])
    for bit in range(0, len(data) * 8, 7):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecryptionError):
            reveal(
                Protected({}, {"suspect": {"police": f"3:{b64(bytes(broken))}"}}),
                {("police", 3): POLICE},
                aad=AAD,
            )


def test_copies_that_differ_are_refused() -> None:
    east = protect({"location": "East"}, SPECS, KEYS, aad=AAD, random=SYSTEM_RANDOM)
    mixed = Protected(
        {},
        {
            "location": {
                "fire": east.sealed["location"]["fire"],
                "police": protected().sealed["location"]["police"],
            }
        },
    )
    assert reveal(mixed, {("fire", 1): FIRE}, aad=AAD) == {"location": "East"}
    with pytest.raises(DecryptionError):
        reveal(mixed, {("fire", 1): FIRE, ("police", 3): POLICE}, aad=AAD)


def test_an_attribute_is_either_clear_or_sealed() -> None:
    made = protected()
    with pytest.raises(DecodeError):
        reveal(Protected({"suspect": "Jones"}, made.sealed), {}, aad=AAD)


@pytest.mark.parametrize(
    "text",
    ["", "3", "3:", ":AA", "03:AA", "-3:AA", "³:AA", "3 :AA", "9" * 11 + ":AA", "3:A=", "3:é"],
)
def test_entries_are_read_strictly(text: str) -> None:
    with pytest.raises((DecodeError, DecryptionError)):
        reveal(Protected({}, {"suspect": {"police": text}}), {("police", 3): POLICE}, aad=AAD)


@pytest.mark.parametrize(
    "plain", [b"", b'"Smith"', b'"Smith"\x80x', b"[1]\x80", b"null\x80", b"\xff\x80", b"{\x80\0"]
)
def test_what_the_key_opens_must_be_a_value(plain: bytes) -> None:
    with pytest.raises((DecryptionError, DecodeError)):
        reveal(forged(plain), {("police", 3): POLICE}, aad=AAD)
    assert reveal(forged(b'"Smith"\x80\0\0'), {("police", 3): POLICE}, aad=AAD) == {
        "suspect": "Smith"
    }
