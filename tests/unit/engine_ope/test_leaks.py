"""What the broker learns, stated exactly."""

from __future__ import annotations

import pytest

from policyengine.attributes import AttributeType
from policyengine.ope import (
    Broker,
    Client,
    EncryptedEvent,
    KeyedComparator,
    sbm1_broker,
    sbm1_client,
    sbm2_broker,
    sbm2_client,
)

KEY = bytes(range(32))
SCHEMA = {
    "level": AttributeType("int", 0, 99),
    "free": AttributeType("int"),
    "zone": AttributeType("string"),
    "unit": AttributeType("enum", values=tuple("abcdefgh")),
}


def parties(scheme: str) -> tuple[Client, Broker]:
    if scheme == "sbm1":
        return sbm1_client(KEY, SCHEMA), sbm1_broker()
    return sbm2_client(KEY, SCHEMA), sbm2_broker(KeyedComparator(KEY))


def value(event: EncryptedEvent, column: str) -> bytes:
    return dict(event.values)[column]


@pytest.mark.parametrize("scheme", ["sbm1", "sbm2"])
def test_on_a_densely_used_domain_the_rank_is_the_plaintext(scheme: str) -> None:
    client, broker = parties(scheme)
    for bound in range(1, 100):
        broker.add(f"s{bound}", client.encrypt_subscription(f"level >= {bound} && level <= 99"))
    for plaintext in range(100):
        # `level <= 99` says nothing and is left out, so all bounds are lower ones, from 1 on:
        # the number of bounds at or below the value is the value
        location = broker.index.locate(client.encrypt_event({"level": plaintext}))["level"]
        assert (location + 1) // 2 == plaintext


def test_sbm1_shows_order_and_equality_between_events_without_any_subscription() -> None:
    client = sbm1_client(KEY, SCHEMA)
    sent = [value(client.encrypt_event({"level": number}), "level") for number in range(100)]
    assert sent == sorted(set(sent))
    again = [value(client.encrypt_event({"level": number}), "level") for number in range(100)]
    assert sent == again


def test_sbm2_shows_neither_without_a_comparator() -> None:
    client = sbm2_client(KEY, SCHEMA)
    sent = [value(client.encrypt_event({"free": number}), "free") for number in (5, 5, 6, 2**40)]
    assert len(set(sent)) == 4
    assert len({len(one) for one in sent}) == 1


def test_sbm1_of_large_domains_shows_where_codes_part() -> None:
    client = sbm1_client(KEY, SCHEMA)
    near, other, far = (
        value(client.encrypt_event({"free": number}), "free")
        for number in (2**40, 2**40 + 1, 2**41 - 1)
    )
    assert near[:-4] == other[:-4]
    assert near[:4] == far[:4]
    assert near[:12] != far[:12]


def test_sbm1_of_texts_shows_length_and_agreement_but_not_the_order_of_letters() -> None:
    client = sbm1_client(KEY, SCHEMA)
    texts = [value(client.encrypt_event({"zone": text}), "zone^") for text in ("West", "Wall", "E")]
    assert [len(text) for text in texts] == [32, 32, 8]
    assert texts[0][:8] == texts[1][:8]
    assert texts[0][8:16] != texts[1][8:16]
    letters = [value(client.encrypt_event({"zone": chr(97 + i)}), "zone^") for i in range(26)]
    assert letters not in (sorted(letters), sorted(letters, reverse=True))


@pytest.mark.parametrize("scheme", ["sbm1", "sbm2"])
def test_words_stand_in_an_order_of_the_key(scheme: str) -> None:
    orders = set()
    for number in range(6):
        key = bytes((number,)) * 32
        client = sbm1_client(key, SCHEMA) if scheme == "sbm1" else sbm2_client(key, SCHEMA)
        orders.add(client.layout.columns["unit"].words)
    assert len(orders) > 1
    assert all(sorted(order) == list("abcdefgh") for order in orders)


def test_keys_of_attributes_are_unrelated() -> None:
    schema = {"a": AttributeType("int", 0, 99), "b": AttributeType("int", 0, 99)}
    event = sbm1_client(KEY, schema).encrypt_event({"a": 7, "b": 7})
    assert value(event, "a") != value(event, "b")


def test_the_broker_learns_that_two_events_fall_between_the_same_bounds_and_no_more() -> None:
    client, broker = parties("sbm2")
    broker.add("s", client.encrypt_subscription("level >= 10 && level <= 20"))
    places = [
        broker.index.locate(client.encrypt_event({"level": number}))["level"]
        for number in (0, 9, 10, 11, 19, 20, 21, 99)
    ]
    assert places == [0, 0, 1, 2, 2, 3, 4, 4]
