"""Bytes: round trips, versions, ranges, lengths."""

from __future__ import annotations

from hashlib import sha256

import pytest

from policyengine.attributes import ANY, Leaf, access_tree, parse
from policyengine.errors import DecodeError
from policyengine.sde import (
    BrokerKey,
    EncryptedEvent,
    EncryptedFilter,
    MasterKey,
    UserEvent,
    UserFilter,
    UserKey,
    encrypt_event,
    encrypt_filter,
)
from policyengine.sde.wire import write
from tests.unit.engine_sde.samples import GROUPS, SCHEMA, World

WORLDS = {name: World(name) for name in GROUPS}
TEXT = 'zone == "West" && (level > 3 || zone != "East")'


def things(world: World) -> list[tuple[type, object]]:
    """One of each kind."""
    tree = access_tree(parse(TEXT, SCHEMA), SCHEMA)
    asked = encrypt_filter(world.subscriber, tree, random=world.random).filter
    event = encrypt_event(world.publisher, {"on": True}, {}, padding=2, random=world.random).event
    return [
        (MasterKey, world.master),
        (UserKey, world.publisher),
        (BrokerKey, world.of_publisher),
        (UserEvent, event),
        (EncryptedEvent, world.broker.event(event)),
        (UserFilter, asked),
        (EncryptedFilter, world.broker.filter(asked)),
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_round_trips_and_confusion_of_kinds(group) -> None:
    every = things(WORLDS[group])
    for kind, thing in every:
        data = thing.encode()
        assert data[0] == 1
        assert kind.decode(data) == thing
        assert kind.decode(data).encode() == data
        for other, _ in every:
            if other is not kind:
                with pytest.raises(DecodeError):
                    other.decode(data)


@pytest.mark.parametrize("group", GROUPS)
def test_lengths_and_damage(group) -> None:
    for kind, thing in things(WORLDS[group]):
        data = thing.encode()
        for bad in (b"", data[:1], data[:-1], data + b"\0", b"\2" + data[1:], b"\0" + data[1:]):
            with pytest.raises(DecodeError):
                kind.decode(bad)
        for at in range(0, len(data), 7):
            damaged = bytearray(data)
            damaged[at] ^= 1
            with pytest.raises(DecodeError):
                kind.decode(bytes(damaged))


def test_keys_do_not_show_their_secrets() -> None:
    world = WORLDS["curve"]
    for key, secret in (
        (world.master, world.master.exponent),
        (world.publisher, world.publisher.share),
        (world.of_publisher, world.of_publisher.share),
    ):
        assert str(secret) not in repr(key)
        assert repr(world.master.secret) not in repr(key)


def test_fields_out_of_range() -> None:
    world = WORLDS["curve"]
    system, order = world.master.system, world.group.order
    scalar, point = bytes(31) + b"\5", world.publisher.public
    refused = [
        (BrokerKey, write("share", system, b"\1a", bytes(32))),
        (BrokerKey, write("share", system, b"\1a", order.to_bytes(32, "big"))),
        (BrokerKey, write("share", system, b"\0", scalar)),
        (BrokerKey, write("share", system, b"\1\xff", scalar)),
        (BrokerKey, write("share", system, b"\5a", b"bc")),
        (BrokerKey, write("share", system, b"\1a", scalar, b"\0")),
        (MasterKey, write("master", system, scalar, bytes(31))),
        (MasterKey, write("master", system, scalar, bytes(33))),
        (UserKey, write("user", system, b"\1a", b"\5" + bytes(32), scalar, bytes(32))),
        (UserKey, write("user", system, b"\1a", point, scalar, bytes(33))),
    ]
    for kind, data in refused:
        with pytest.raises(DecodeError):
            kind.decode(data)
    assert BrokerKey.decode(write("share", system, b"\1a", scalar)) == BrokerKey(system, "a", 5)


def test_groups_that_do_not_exist() -> None:
    body = bytes([1, 3, 9]) + bytes(16) + b"\1a" + bytes(32)
    check = sha256(b"portcullis sde bytes v1" + body).digest()[:16]
    with pytest.raises(DecodeError, match="group"):
        BrokerKey.decode(body + check)


def test_trapdoors_out_of_order_doubled_or_miscounted() -> None:
    world = WORLDS["curve"]
    system = world.master.system
    event = encrypt_event(world.publisher, {}, {}, padding=3, random=world.random).event
    pairs = list(event.trapdoors)
    for wrong in (pairs[::-1], [pairs[0], pairs[0], pairs[1]]):
        with pytest.raises(DecodeError, match="order"):
            UserEvent.decode(UserEvent(system, "pat", tuple(wrong)).encode())
    points = list(world.broker.event(event).trapdoors)
    twice = EncryptedEvent(system, (points[0], points[0]))
    with pytest.raises(DecodeError, match="twice"):
        EncryptedEvent.decode(twice.encode())
    assert EncryptedEvent.decode(EncryptedEvent(system, ()).encode()).trapdoors == ()
    for count, parts in ((2, points), (4, points), (65_537, points)):
        with pytest.raises(DecodeError):
            EncryptedEvent.decode(write("trapdoors", system, count.to_bytes(4, "big"), *parts))


def test_shapes_that_are_no_trees() -> None:
    world = WORLDS["curve"]
    system = world.master.system
    made = encrypt_filter(world.subscriber, Leaf(ANY), random=world.random).filter
    leaf = b"".join(world.broker.filter(made).leaves[0])

    def gate(need: int, terms: int) -> bytes:
        return b"\2" + need.to_bytes(4, "big") + terms.to_bytes(4, "big")

    def data(count: int, *nodes: bytes, leaves: int) -> bytes:
        return write("stored filter", system, count.to_bytes(4, "big"), *nodes, leaf * leaves)

    assert EncryptedFilter.decode(data(3, gate(1, 2), b"\0", b"\1", leaves=2))
    for bad in (
        data(0, leaves=0),
        data(131_073, leaves=0),
        data(2, b"\0", b"\0", leaves=2),
        data(2, gate(1, 2), b"\0", leaves=1),
        data(2, gate(1, 1), b"\0", leaves=1),
        data(3, gate(3, 2), b"\0", b"\0", leaves=2),
        data(3, gate(0, 2), b"\0", b"\0", leaves=2),
        data(1, b"\3", leaves=1),
        data(1, b"\0", leaves=2),
        data(1, b"\0", leaves=0),
    ):
        with pytest.raises(DecodeError):
            EncryptedFilter.decode(bad)
