"""Bytes of encrypted events and subscriptions: canonical, strictly read."""

from __future__ import annotations

import pytest

from policyengine.attributes import AttributeType
from policyengine.errors import DecodeError
from policyengine.ope import (
    EncryptedEvent,
    EncryptedSubscription,
    Range,
    plain_client,
    sbm1_client,
    sbm2_client,
)
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import SeededRandom

KEY = bytes(range(32))
SCHEMA = {
    "a": AttributeType("int"),
    "b.c": AttributeType("int", 0, 9),
    "zone": AttributeType("string"),
}
TEXT = "a != 5 && a > 1 && b.c in [1, 3] && zone.startsWith('x') && zone.endsWith('y')"
CLIENTS = [
    plain_client(SCHEMA),
    sbm1_client(KEY, SCHEMA),
    sbm2_client(KEY, SCHEMA, random=SeededRandom(b"nonces")),
]


def test_what_was_written_is_read() -> None:
    for one in CLIENTS:
        event = one.encrypt_event({"a": 3, "zone": "xy"})
        assert EncryptedEvent.from_bytes(event.to_bytes()) == event
        for text in (TEXT, "true", "false", "has(a)"):
            subscription = one.encrypt_subscription(text)
            assert EncryptedSubscription.from_bytes(subscription.to_bytes()) == subscription


def test_bytes_of_a_key_are_pinned() -> None:
    client = sbm1_client(KEY, {"a": AttributeType("int", 0, 9)})
    assert client.encrypt_event({"a": 3}).to_bytes()[:3] == b"\x01\x01\x01"
    assert plain_client(SCHEMA).encrypt_event({"b.c": 7}).to_bytes() == (
        b"\x01\x01\x03" + pack(b"b.c", b"\x00\x00\x00\x07")
    )
    assert plain_client(SCHEMA).encrypt_subscription("b.c >= 7").to_bytes() == (
        b"\x01\x02\x03\x00" + pack(b"b.c", b"\x01" + pack(b"\x00\x00\x00\x07"))
    )


def test_truncations_and_tails_are_refused() -> None:
    for one in CLIENTS:
        event = one.encrypt_event({"a": 3, "zone": "xy"}).to_bytes()
        subscription = one.encrypt_subscription(TEXT).to_bytes()
        for cut in (0, 1, 2, 4, 7, 9, 12, len(event) - 1):  # none is the end of a column
            with pytest.raises(DecodeError):
                EncryptedEvent.from_bytes(event[:cut])
        for cut in (0, 1, 2, 3, 5, 8, len(subscription) - 1):
            with pytest.raises(DecodeError):
                EncryptedSubscription.from_bytes(subscription[:cut])
        for data, kind in ((event, EncryptedEvent), (subscription, EncryptedSubscription)):
            with pytest.raises(DecodeError):
                kind.from_bytes(data + b"\x00")  # type: ignore[attr-defined]


def event(*fields: bytes) -> bytes:
    return b"\x01\x01\x01" + pack(*fields)


def subscription(body: bytes, *, scheme: int = 1, name: bytes = b"a") -> bytes:
    return bytes((1, 2, scheme, 0)) + pack(name, body)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02\x01\x01",
        b"\x01\x02\x01",
        b"\x01\x01\x04",
        event(b"a"),
        event(b"b", b"1", b"a", b"1"),
        event(b"a", b"1", b"a", b"1"),
        event(b"\xff", b"1"),
        event(b"", b"1"),
        event(b"a b", b"1"),
        event(b"true", b"1"),
        event(*(part for n in range(4097) for part in (b"a%05d" % n, b"1"))),
    ],
)
def test_wrong_events(data: bytes) -> None:
    with pytest.raises(DecodeError):
        EncryptedEvent.from_bytes(data)


LOW, HIGH, BOTH = b"\x01", b"\x04", b"\x05"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x10",
        b"\x02" + pack(b"1"),
        b"\x08" + pack(b"1"),
        LOW,
        LOW + b"\x00\x00",
        LOW + b"\x00\x00\x00\x02x",
        BOTH + pack(b"2", b"1"),
        b"\x07" + pack(b"1", b"1"),
        b"\x0d" + pack(b"1", b"1"),
        LOW + pack(b"1") + BOTH + pack(b"2", b"3"),
        HIGH + pack(b"1") + HIGH + pack(b"2"),
        BOTH + pack(b"1", b"2") + BOTH + pack(b"2", b"3"),
        BOTH + pack(b"1", b"3") + BOTH + pack(b"2", b"4"),
        b"\x0c" + pack(b"2") + b"\x01" + pack(b"2"),
        b"\x00" * 65_537,
    ],
)
def test_wrong_intervals(body: bytes) -> None:
    with pytest.raises(DecodeError):
        EncryptedSubscription.from_bytes(subscription(body))


def test_holes_and_sealed_ends_are_read() -> None:
    hole = b"\x0c" + pack(b"2") + b"\x03" + pack(b"2")
    for scheme in (1, 2, 3):
        read = EncryptedSubscription.from_bytes(subscription(hole, scheme=scheme))
        assert read.ranges == (
            ("a", (Range(None, b"2", high_open=True), Range(b"2", None, low_open=True))),
        )
    # SBM-II's ciphertexts show no order: the index checks it, not the reader
    EncryptedSubscription.from_bytes(subscription(BOTH + pack(b"2", b"1"), scheme=2))


@pytest.mark.parametrize("flag", [b"\x01" + pack(b"a", b"\x00"), b"\x02", b""])
def test_wrong_flags(flag: bytes) -> None:
    with pytest.raises(DecodeError):
        EncryptedSubscription.from_bytes(b"\x01\x02\x01" + flag)
