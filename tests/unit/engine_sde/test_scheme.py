"""The algebra of paper 001, section 5, with the corrections; both groups."""

from __future__ import annotations

import pytest

from policyengine.attributes import (
    ANY,
    And,
    Element,
    Leaf,
    Or,
    access_tree,
    elements_of,
    leaves,
    parse,
    value_text,
)
from policyengine.errors import DecryptionError, InputError, RejectedError
from policyengine.sde import (
    UserEvent,
    UserFilter,
    encrypt_event,
    encrypt_filter,
    init,
    keygen,
    matches,
    reencrypt_event,
    reencrypt_filter,
)
from policyengine.sde.filters import leaf_hash
from policyengine.sde.group import draw_scalar
from policyengine.sde.shape import LEAF, NEGATED
from tests.unit.engine_sde.samples import GROUPS, SCHEMA, Scripted, World

WEST = Element("zone==", value_text("West"))


@pytest.fixture(params=GROUPS)
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def test_shares_add_up_to_x(world: World) -> None:
    for user, broker in (
        (world.publisher, world.of_publisher),
        (world.subscriber, world.of_subscriber),
    ):
        assert (user.share + broker.share) % world.group.order == world.master.exponent
        assert user.user == broker.user
    assert world.publisher.share != world.subscriber.share
    generated = world.group.generated(world.master.exponent)
    assert world.publisher.public == world.group.encode(generated)


def test_trapdoor_algebra(world: World) -> None:
    group, key = world.group, world.publisher
    sigma = key.sigma(ANY.token)
    wide = group.scalar_bytes + 16
    blind = 1 + 77
    event = encrypt_event(key, {}, {}, padding=1, random=Scripted((77).to_bytes(wide, "big"))).event
    ((td1, td2),) = event.trapdoors
    # td1 = g^(sigma-r), td2 = (h g^-x1)^r g^(x1 sigma), as the paper writes them
    assert td1 == group.encode(group.generated(sigma - blind))
    h = group.load(key.public)
    left = group.power(group.product(h, group.generated(-key.share)), blind)
    assert td2 == group.encode(group.product(left, group.generated(key.share * sigma)))
    # TD = td1^x2 td2 = h^sigma
    finished = reencrypt_event(world.of_publisher, event)
    assert finished.trapdoors == (group.encode(group.power(h, sigma)),)


def test_filter_algebra(world: World) -> None:
    group, key = world.group, world.subscriber
    sigma, blind = key.sigma(WEST.token), 1 + 99
    wide = group.scalar_bytes + 16
    made = encrypt_filter(key, Leaf(WEST), random=Scripted((99).to_bytes(wide, "big"))).filter
    ((first, second, hashed),) = made.leaves
    h = group.load(key.public)
    assert first == group.encode(group.generated(blind + sigma))
    assert second == group.encode(group.power(group.load(first), key.share))
    assert hashed == leaf_hash(group.encode(group.power(h, blind)))
    # c1 = h^(r+sigma), c2 = H(h^r)
    stored = reencrypt_filter(world.of_subscriber, made)
    assert stored.leaves == ((group.encode(group.power(h, blind + sigma)), hashed),)
    # H(c1 / TD) = c2
    inverse = group.inverse(group.load(world.trapdoor(WEST)))
    assert leaf_hash(group.product_bytes(group.load(stored.leaves[0][0]), inverse)) == hashed


def test_blinding_is_drawn_again_where_it_would_cancel(world: World) -> None:
    group = world.group
    wide = group.scalar_bytes + 16

    def drawing(scalar: int) -> bytes:
        return (scalar % group.order - 1).to_bytes(wide, "big")

    sigma = world.publisher.sigma(ANY.token)
    drawn = Scripted(drawing(sigma), drawing(5))
    event = encrypt_event(world.publisher, {}, {}, padding=1, random=drawn).event
    assert event.trapdoors[0][0] == group.encode(group.generated(sigma - 5))
    drawn = Scripted(drawing(-sigma), drawing(5))
    made = encrypt_filter(world.subscriber, Leaf(ANY), random=drawn).filter
    assert made.leaves[0][0] == group.encode(group.generated(sigma + 5))
    x1 = Scripted(drawing(world.master.exponent), drawing(5))
    user, broker = keygen(world.master, "kim", random=x1)
    assert user.share == 5
    assert broker.share


def test_every_publisher_gives_the_same_trapdoor(world: World) -> None:
    other, of_other = keygen(world.master, "ola", random=world.random)
    world.broker.add(of_other)
    values = {"zone": "West", "on": True}
    one = encrypt_event(world.publisher, values, SCHEMA, random=world.random, padding=1).event
    two = encrypt_event(other, values, SCHEMA, random=world.random, padding=1).event
    assert not {pair[0] for pair in one.trapdoors} & {pair[0] for pair in two.trapdoors}
    assert set(world.broker.event(one).trapdoors) == set(world.broker.event(two).trapdoors)
    expected = {world.trapdoor(element) for element in elements_of(values, SCHEMA)}
    assert set(world.broker.event(one).trapdoors) == expected


def test_prepared_event_tells_the_publisher_what_is_where(world: World) -> None:
    values = {"level": 9}
    prepared = encrypt_event(world.publisher, values, SCHEMA, random=world.random, padding=8)
    finished = world.broker.event(prepared.event)
    hidden = [element for element in prepared.elements if element is not None]
    assert sorted(hidden) == list(elements_of(values, SCHEMA))
    assert len(finished.trapdoors) % 8 == 0
    for element, trapdoor in zip(prepared.elements, finished.trapdoors, strict=True):
        if element is not None:
            assert trapdoor == world.trapdoor(element)


def test_prepared_filter_tells_the_subscriber_what_is_where(world: World) -> None:
    text = 'zone == "West" && (level > 3 || zone != "East") && atLeast(1, [on, level < 2])'
    tree = access_tree(parse(text, SCHEMA), SCHEMA)
    prepared = encrypt_filter(world.subscriber, tree, random=world.random)
    kept = list(leaves(prepared.tree))
    assert sorted(kept, key=str) == sorted(leaves(tree), key=str)
    assert [leaf.negated for leaf in kept] == [
        node == NEGATED for node in prepared.filter.shape if node in (LEAF, NEGATED)
    ]
    stored = world.broker.filter(prepared.filter)
    group, h = world.group, world.group.load(world.subscriber.public)
    for leaf, (first, hashed) in zip(kept, stored.leaves, strict=True):
        inverse = group.inverse(group.power(h, world.subscriber.sigma(leaf.element.token)))
        assert leaf_hash(group.product_bytes(group.load(first), inverse)) == hashed


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ('zone == "West"', {"zone": "West"}, True),
        ('zone == "West"', {"zone": "East"}, False),
        ('zone != "West"', {}, False),
        ('!(zone == "West")', {}, True),
        ('zone != "West"', {"zone": "East"}, True),
        ("level > 3 && level <= 9", {"level": 9}, True),
        ("level > 3 && level <= 9", {"level": 3}, False),
        ('atLeast(2, [on, level == 1, zone startsWith "We"])', {"on": True, "zone": "West"}, True),
        (
            'atLeast(2, [on, level == 1, zone startsWith "We"])',
            {"on": False, "zone": "West"},
            False,
        ),
        ("level >= 0 || !has(level)", {}, True),
        ("level > 15", {"level": 15}, False),
    ],
)
@pytest.mark.parametrize("ranges", ["dyadic", "bits"])
def test_matching(world: World, ranges, text, values, expected) -> None:
    event = world.event(values, ranges=ranges)
    assert matches(world.filter(text, ranges=ranges), event) is expected


def test_constants_look_like_any_leaf(world: World) -> None:
    always, never, plain = world.filter(And(())), world.filter(Or(())), world.filter("on")
    assert always.shape == never.shape == plain.shape == (LEAF,)
    assert len({len(one.encode()) for one in (always, never, plain)}) == 1
    for values in ({}, {"level": 15, "on": True}):
        assert matches(always, world.event(values))
        assert not matches(never, world.event(values, padding=16))


def test_two_systems_do_not_mix(world: World) -> None:
    other = World("curve", b"other")
    event, asked = world.event({"on": True}), other.filter("on")
    with pytest.raises(RejectedError) as caught:
        matches(asked, event)
    assert caught.value.reason == "system"
    foreign = encrypt_event(other.publisher, {}, {}, random=other.random).event
    with pytest.raises(RejectedError, match="another system"):
        world.broker.event(foreign)


def test_a_share_serves_its_user_only(world: World) -> None:
    event = encrypt_event(world.publisher, {}, {}, random=world.random).event
    asked = encrypt_filter(world.subscriber, Leaf(ANY), random=world.random).filter
    with pytest.raises(RejectedError) as caught:
        reencrypt_event(world.of_subscriber, event)
    assert caught.value.reason == "user"
    with pytest.raises(RejectedError):
        reencrypt_filter(world.of_publisher, asked)


def test_the_wrong_share_opens_nothing(world: World) -> None:
    """Under another user's name the algebra fails without a word: nothing matches."""
    event = encrypt_event(world.publisher, {}, {}, padding=1, random=world.random).event
    claimed = UserEvent(event.system, "sam", event.trapdoors)
    assert world.broker.event(claimed).trapdoors != (world.trapdoor(ANY),)
    assert not matches(world.leaf(ANY), world.broker.event(claimed))


def test_the_identity_is_not_finished(world: World) -> None:
    group, system, x2 = world.group, world.master.system, world.of_publisher.share
    first = group.generated(3)
    second = group.encode(group.inverse(group.power(first, x2)))
    event = UserEvent(system, "pat", ((group.encode(first), second),))
    with pytest.raises(DecryptionError):
        world.broker.event(event)
    asked = UserFilter(system, "pat", (LEAF,), ((group.encode(first), second, bytes(32)),))
    with pytest.raises(DecryptionError):
        world.broker.filter(asked)


def test_one_element_twice_is_not_finished(world: World) -> None:
    one = encrypt_event(world.publisher, {}, {}, padding=1, random=world.random).event
    two = encrypt_event(world.publisher, {}, {}, padding=1, random=world.random).event
    both = tuple(sorted(one.trapdoors + two.trapdoors))
    with pytest.raises(DecryptionError):
        world.broker.event(UserEvent(one.system, "pat", both))


def test_the_same_randomness_gives_the_same_bytes(world: World) -> None:
    made = [
        encrypt_event(world.publisher, {"on": True}, SCHEMA, random=Scripted()).event.encode()
        for _ in range(2)
    ]
    assert made[0] == made[1]
    name = world.master.system.group
    assert init(name, random=Scripted(b"\7")) == init(name, random=Scripted(b"\7"))


def test_scalars_come_from_a_prf_keyed_apart(world: World) -> None:
    other = World(world.master.system.group, b"other")
    assert world.publisher.sigma("a") == world.subscriber.sigma("a")
    assert len({world.publisher.sigma(token) for token in "abc"}) == 3
    assert world.publisher.sigma("a") != other.publisher.sigma("a")
    drawn = draw_scalar(world.group, world.random)
    assert 0 < drawn < world.group.order


@pytest.mark.parametrize("user", ["", "a" * 256, "é" * 128, "\ud800"])
def test_names_that_bytes_cannot_hold(user: str) -> None:
    with pytest.raises(InputError) as caught:
        keygen(World().master, user)
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize("padding", [0, -1, 65_537])
def test_impossible_padding(padding: int) -> None:
    with pytest.raises(InputError) as caught:
        encrypt_event(World().publisher, {}, {}, padding=padding)
    assert caught.value.where == "padding"


def test_too_many_trapdoors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policyengine.sde.events.MAX_TRAPDOORS", 4)
    with pytest.raises(InputError) as caught:
        encrypt_event(World().publisher, {"level": 3}, SCHEMA, padding=1)
    assert caught.value.kind == "too-large"
