"""What leaks, what ends, what breaks it: stated as attacks that run."""

from __future__ import annotations

import dataclasses

import pytest

from policyengine.attributes import AttributeType, Element, access_tree, elements_of, parse
from policyengine.errors import RejectedError
from policyengine.primitives import SYSTEM_RANDOM
from policyengine.sde import (
    BrokerKey,
    Matcher,
    UserEvent,
    UserFilter,
    encrypt_event,
    encrypt_filter,
    keygen,
    matches,
)
from policyengine.sde.group import draw_scalar
from tests.support.forks import forked
from tests.unit.engine_sde.samples import GROUPS, SCHEMA, World


def test_a_broker_never_holds_the_prf_key() -> None:
    """The correction: the paper gives (s1, x2) to the broker."""
    world = World()
    assert {field.name for field in dataclasses.fields(BrokerKey)} == {"system", "user", "share"}
    assert world.master.secret in world.publisher.encode()
    event = encrypt_event(world.publisher, {"on": True}, SCHEMA).event
    for seen in (world.of_publisher, event, world.broker.event(event), world.filter("on")):
        assert world.master.secret not in seen.encode()


def test_a_broker_cannot_test_guesses_without_the_prf_key() -> None:
    """With x2 and all messages, but another s, the trapdoors of guesses are not the event's."""
    world, stranger = World(), World("curve", b"stranger")
    event = world.event({"level": 9})
    group, h = world.group, world.group.load(world.publisher.public)
    guesses = [
        group.encode(group.power(h, stranger.publisher.sigma(element.token)))
        for level in range(16)
        for element in elements_of({"level": level}, SCHEMA)
    ]
    assert not set(guesses) & set(event.trapdoors)


@pytest.mark.parametrize("group", GROUPS)
def test_collusion_of_a_broker_and_any_user_recovers_x(group) -> None:
    """Broken by design: x = x1 + x2; then every trapdoor and every leaf can be made and read."""
    world = World(group)
    for user, share in (
        (world.publisher, world.of_publisher),
        (world.subscriber, world.of_subscriber),
    ):
        x = (user.share + share.share) % world.group.order
        assert x == world.master.exponent
        # they read the value of another publisher's event from its trapdoors
        victim, of_victim = keygen(world.master, "victim", random=world.random)
        world.broker.add(of_victim)
        values = {"level": 11}
        event = encrypt_event(victim, values, SCHEMA, random=world.random)
        seen = set(world.broker.event(event.event).trapdoors)
        read = [
            level
            for level in range(16)
            if world.group.encode(
                world.group.generated(x * user.sigma(Element("level==", str(level)).token))
            )
            in seen
        ]
        assert read == [11]


def test_a_user_alone_or_an_outsider_cannot_tell_trapdoors_apart() -> None:
    """Before the broker's part each trapdoor of the same element is another one."""
    world = World()
    events = [encrypt_event(world.publisher, {}, {}, padding=1).event for _ in range(5)]
    parts = [part for event in events for pair in event.trapdoors for part in pair]
    assert len(set(parts)) == len(parts)
    filters = [world.leaf(Element("a", "1")) for _ in range(5)]
    assert len({leaf for one in filters for leaf in one.leaves}) == 5


def test_leak_a_broker_links_equal_elements() -> None:
    """Exactly the common elements of two events are common trapdoors, no more."""
    world = World()
    one, two = {"zone": "West", "level": 9}, {"zone": "West", "level": 8}
    common = set(world.event(one).trapdoors) & set(world.event(two).trapdoors)
    shared = set(elements_of(one, SCHEMA)) & set(elements_of(two, SCHEMA))
    assert common == {world.trapdoor(element) for element in shared}


def test_leak_counts() -> None:
    """The number of trapdoors is that of the elements, rounded up to the padding."""
    world = World()
    for zone in ("", "a", "abc", "a" * 40):
        true = len(elements_of({"zone": zone}, SCHEMA))
        assert len(world.event({"zone": zone}).trapdoors) == true
        assert len(world.event({"zone": zone}, padding=16).trapdoors) == -(-true // 16) * 16
    # so texts of two and of four characters look alike with padding and not without
    lengths = [len(world.event({"zone": zone}).trapdoors) for zone in ("ab", "abcd")]
    padded = [len(world.event({"zone": zone}, padding=16).trapdoors) for zone in ("ab", "abcd")]
    assert lengths[0] < lengths[1]
    assert padded[0] == padded[1]


def test_padding_recurs_and_matches_nothing() -> None:
    """Padding is drawn from a fixed set: a broker cannot tell it by its novelty."""
    world = World()
    true = {world.trapdoor(element) for element in elements_of({}, SCHEMA)}
    seen = [set(world.event({}, padding=16).trapdoors) - true for _ in range(40)]
    assert all(len(pads) == 16 - len(true) % 16 for pads in seen)
    assert len(set().union(*seen)) == 16
    assert len({frozenset(pads) for pads in seen}) > 20
    assert matches(world.filter("!has(zone)"), world.event({}, padding=16))


def test_the_order_of_trapdoors_says_nothing() -> None:
    """An element's place in the event varies over all places."""
    world = World()
    wanted = world.trapdoor(Element("on==", "true"))
    places = [world.event({"on": True}).trapdoors.index(wanted) for _ in range(60)]
    size = len(world.event({"on": True}).trapdoors)
    assert set(places) == set(range(size))


def test_leak_the_shape_of_a_filter() -> None:
    """Gates, thresholds and the number of leaves are plain; labels and lengths are not."""
    world = World()
    one, two = world.filter('zone == "a"'), world.filter('zone == "a long one"')
    assert one.shape == two.shape
    assert len(one.encode()) == len(two.encode())
    assert world.filter('zone == "a" && on').shape != one.shape
    names = ("zone", "level", "long", "West")
    for text in ('zone == "West"', 'zone != "a long one"', "level > 3"):
        assert not any(name.encode() in world.filter(text).encode() for name in names)


def test_deleting_a_share_ends_what_its_user_can_do() -> None:
    world = World()
    schema = {"on": AttributeType("bool")}
    matcher = Matcher(world.master.system)
    matcher.add("sam", world.filter("on", schema))
    event = encrypt_event(world.publisher, {"on": True}, schema, random=world.random).event
    assert matcher.match(world.broker.event(event)) == {"sam"}
    # the publisher is revoked: neither new nor recorded events pass
    world.broker.delete("pat")
    assert len(world.broker) == 1
    for attempt in (event, encrypt_event(world.publisher, {"on": True}, schema).event):
        with pytest.raises(RejectedError) as caught:
            world.broker.event(attempt)
        assert caught.value.reason == "user"
    # nor with somebody else's share: the event is finished, but to noise
    claimed = UserEvent(event.system, "sam", event.trapdoors)
    assert matcher.match(world.broker.event(claimed)) == set()
    # others go on, with the keys that they have
    other, of_other = keygen(world.master, "ola", random=world.random)
    world.broker.add(of_other)
    going = encrypt_event(other, {"on": True}, schema, random=world.random).event
    assert matcher.match(world.broker.event(going)) == {"sam"}
    # the subscriber is revoked: no new filter, and the old one goes with `remove`
    world.broker.delete("sam")
    world.broker.delete("sam")
    tree = encrypt_filter(
        world.subscriber, access_tree(parse("on", schema), schema), random=world.random
    ).filter
    with pytest.raises(RejectedError):
        world.broker.filter(tree)
    with pytest.raises(RejectedError):
        world.broker.filter(UserFilter(tree.system, "pat", tree.shape, tree.leaves))
    matcher.remove("sam")
    assert matcher.match(world.broker.event(going)) == set()


def test_forked_children_draw_different_scalars() -> None:
    group = World().group
    draw_scalar(group, SYSTEM_RANDOM)
    drawn = {forked(lambda: draw_scalar(group, SYSTEM_RANDOM)) for _ in range(4)}
    assert len(drawn) == 4
