"""Who opens what: tokens, shares, epochs, and what agents and the broker are left with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policyengine.attributes import Value
from policyengine.blind import (
    NOBODY,
    BlindDelivery,
    BlindPart,
    Context,
    DeliveryOpener,
    EventSealer,
    ReadPolicy,
    RoutedBlind,
    Searchable,
    finish_part,
    predecrypt,
)
from policyengine.blind.parts import Sealed, Values
from policyengine.blind.sealing import CapsuleMaker, CapsuleOpener, open_value, seal_value
from policyengine.blind.wire import DELIVERED, PART, ROUTED, read, write
from policyengine.errors import DecodeError, DecryptionError, RejectedError
from policyengine.primitives import aead
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.unit.engine_blind.world import (
    CONTEXT,
    EVERY,
    POLICIES,
    SCHEMA,
    VALUES,
    Party,
    doctor,
    nurse,
    party,
    public,
    publisher,
    routed,
    sealed,
    split_nurse,
)


def opened(
    reader: Party, part: RoutedBlind, names=EVERY, context: Context = CONTEXT
) -> tuple[dict[str, Value], tuple[str, ...]]:
    delivery = predecrypt(reader.share, part, names)
    if delivery is None:
        return {}, ()
    arrived = BlindDelivery.from_bytes(delivery.to_bytes())
    return DeliveryOpener(reader.keys).open(arrived, context)


def test_everybody_reads_what_policies_let_their_tokens_read() -> None:
    part = RoutedBlind.from_bytes(routed().to_bytes())
    assert opened(doctor(), part) == (dict(VALUES), ())
    assert opened(nurse(), part) == ({"name": "Alice Ash", "age": 41, "unit": "b"}, ("ill",))
    assert opened(split_nurse(), part) == ({"unit": "b"}, ("age", "ill", "name"))
    assert opened(publisher(), part) == ({}, ("age", "ill", "name", "unit"))
    assert opened(doctor(), part, {"age"}) == ({"age": 41}, ())
    assert opened(doctor(), part, ()) == ({}, ())
    for value in ("", "x" * 500, 0, -3, 1.5, True):
        one = routed({"name": value}) if isinstance(value, str) else None
        assert one is None or opened(doctor(), one)[0] == {"name": value}


def test_nothing_opens_without_the_agents_share() -> None:
    part = routed()
    delivery = predecrypt(doctor().share, part, EVERY)
    assert delivery is not None
    opener = DeliveryOpener(doctor().keys)
    wrong = predecrypt(nurse().share, part, EVERY)
    for half in (wrong.half, delivery.values.lock, b"\2" + bytes(32), b""):
        found, failed = opener.open(replace(delivery, half=half), CONTEXT)
        assert found == {}
        assert len(failed) == 4
    # both halves cancel each other out: the product would be the identity
    group = public().group
    own = group.power(group.decode(delivery.values.lock), doctor().keys.share)
    assert opener.open(replace(delivery, half=group.encode(group.inverse(own))), CONTEXT)[0] == {}


def test_a_value_opens_nowhere_else() -> None:
    part = routed()
    for context in (
        Context("1" * 32, 0),
        Context("0" * 32, 1),
    ):
        assert opened(doctor(), part, EVERY, context)[0] == {}
    swapped = {"age": "ill", "ill": "age", "name": "name", "unit": "unit"}
    held = sorted(
        (replace(one, name=swapped[one.name]) for one in part.values.sealed),
        key=lambda one: one.name,
    )
    moved = replace(part, values=replace(part.values, sealed=tuple(held)))
    assert set(opened(doctor(), moved)[0]) == {"name", "unit"}


def test_nothing_of_two_epochs_meets() -> None:
    later = party("doctor", (frozenset({"doctor"}),), 8)
    with pytest.raises(RejectedError, match="epoch"):
        predecrypt(later.share, routed(), EVERY)
    delivery = predecrypt(doctor().share, routed(), EVERY)
    with pytest.raises(RejectedError, match="epoch"):
        DeliveryOpener(later.keys).open(delivery, CONTEXT)
    with pytest.raises(RejectedError, match="epoch"):
        EventSealer(public(8), doctor().keys)
    relabelled = replace(delivery, place=later.keys.place)
    assert DeliveryOpener(later.keys).open(relabelled, CONTEXT)[0] == {}


def agents_have() -> bytes:
    """Everything that agents have of an event."""
    part = sealed()
    finished = finish_part(publisher().share, part, EVERY)
    delivery = predecrypt(doctor().share, finished, EVERY)
    assert delivery is not None
    seen = part.to_bytes() + finished.to_bytes() + delivery.to_bytes() + public().to_bytes()
    return seen + publisher().share.to_bytes() + doctor().share.to_bytes()


def test_agents_hold_no_value_and_no_token() -> None:
    seen, again = agents_have(), agents_have()
    for secret in (b"Alice", b"Ash", b"ward 1", b"true", b"nurse"):
        # Three letters stand in a ciphertext by chance, and not in each of two.
        assert secret not in seen or secret not in again
    keys = doctor().keys
    for scalar in (keys.share, keys.search.share):
        assert scalar.to_bytes(32, "big") not in seen
    assert keys.policies.naming not in seen
    assert keys.search.secret not in seen


def test_no_value_travels_for_nobody_and_none_without_a_policy() -> None:
    part = sealed(policies={"name": NOBODY, "age": POLICIES["age"]})
    assert [one.name for one in part.values.sealed] == ["age"]
    assert part.names == ("age", "ill", "name", "unit")
    nothing = sealed(policies={})
    assert nothing.values == Values()
    assert predecrypt(doctor().share, finish_part(publisher().share, nothing, EVERY), EVERY) is None
    plain = EventSealer(public(), publisher().keys).seal(CONTEXT, VALUES, {}, POLICIES)
    assert plain.always is None
    finished = finish_part(publisher().share, plain, EVERY)
    assert finished.event(EVERY) is None
    assert finished.names == tuple(sorted(EVERY))
    assert opened(doctor(), RoutedBlind.from_bytes(finished.to_bytes()))[0] == dict(VALUES)
    assert BlindPart.from_bytes(plain.to_bytes()) == plain


def test_what_a_publisher_may_not_write_goes_on_as_absent() -> None:
    finished = finish_part(publisher().share, sealed(), {"age", "unit"})
    assert finished.names == ("age", "unit")
    assert opened(doctor(), finished)[0] == {"age": 41, "unit": "b"}


def test_capsules_are_used_again_but_not_for_ever() -> None:
    maker = CapsuleMaker(publisher().keys, uses=2)
    policy, other = POLICIES["name"], POLICIES["ill"]
    first = maker.capsule(policy)
    assert maker.capsule(other) != first
    assert maker.capsule(policy) == first
    third = maker.capsule(policy)
    assert third != first
    opener = CapsuleOpener(doctor().keys.readers)
    assert opener.secret(first[1]) == opener.secret(first[1]) == first[0]
    assert opener.secret(third[1]) == third[0]
    assert opener.secret(b"junk") is None
    assert CapsuleOpener(()).secret(first[1]) is None


def test_memories_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policyengine.blind.sealing.CAPSULES", 2)
    maker, opener = CapsuleMaker(publisher().keys), CapsuleOpener(doctor().keys.readers)
    policies = [ReadPolicy.of([["doctor", str(number)], ["doctor"]]) for number in range(2)]
    policies += [ReadPolicy.of([["nurse"]]), ReadPolicy.of([["x"]])]
    for policy in policies:
        opener.secret(maker.capsule(policy)[1])
    assert len(maker._made) <= 2
    assert len(opener._opened) == 2


def test_equal_events_share_no_ciphertext() -> None:
    first, second = sealed(), sealed()
    assert first.values.lock != second.values.lock
    pairs = zip(first.values.sealed, second.values.sealed, strict=True)
    assert all(one.data != other.data for one, other in pairs)
    lengths = {len(sealed({"name": "x" * size}).values.sealed[0].data) for size in (0, 5, 20)}
    assert len(lengths) == 1


def test_what_is_no_value_does_not_open() -> None:
    bound, lock, capsule = CONTEXT.bound(public().place, "x"), b"l" * 33, b"c" * 32
    from policyengine.blind.sealing import _key

    data = seal_value(5, bound, lock, capsule, SYSTEM_RANDOM)
    assert open_value(data, bound, lock, capsule) == 5
    for plain in (b"", b"5", b"5\x80x", b"[1]\x80", b" 5\x80"):
        wrong = aead.seal(_key(bound, lock, capsule), plain, aad=bound, random=SYSTEM_RANDOM)
        with pytest.raises(DecryptionError):
            open_value(wrong, bound, lock, capsule)


@pytest.mark.parametrize("kind", [PART, ROUTED, DELIVERED])
def test_parts_are_read_strictly(kind: int) -> None:
    finished = finish_part(publisher().share, sealed(), EVERY)
    things = {
        PART: sealed(),
        ROUTED: finished,
        DELIVERED: predecrypt(doctor().share, finished, EVERY),
    }
    thing = things[kind]
    data = thing.to_bytes()
    assert type(thing).from_bytes(data).to_bytes() == data
    place, fields = read(data, kind)
    lock, capsules, values = fields[-3:]
    head = fields[:-3]
    bad_tails = [
        (b"", capsules, values),
        (lock, b"", values),
        (lock, pack(b""), values),
        (lock, capsules, values[:-1]),
        (lock, capsules, pack(b"age", b"\0\0")),
        (lock, capsules, pack(b"age", b"\0", b"x")),
        (lock, capsules, pack(b"age", b"\0\0", b"")),
        (lock, pack(b"c"), pack(b"age", b"\0\0", b"")),
        (lock, pack(b"c"), pack(b"b", b"\0\0", b"x", b"a", b"\0\0", b"x")),
        (lock, pack(b"c"), pack(b"\xff", b"\0\0", b"x")),
        (lock, pack(b"c"), pack(b"", b"\0\0", b"x")),
        (lock, b"", b""),
    ]
    for tail in bad_tails:
        with pytest.raises(DecodeError):
            type(thing).from_bytes(write(kind, place, (*head, *tail)))
    if kind == DELIVERED:
        with pytest.raises(DecodeError, match="has values"):
            BlindDelivery.from_bytes(write(kind, place, (b"half", b"", b"", b"")))
        return
    always, search = head
    for wrong in [(b"", search), (always, b""), (b"junk", search), (always, pack(b"age"))]:
        with pytest.raises(DecodeError):
            type(thing).from_bytes(write(kind, place, (*wrong, lock, capsules, values)))


def test_trapdoors_of_two_makers_do_not_stand_in_one_part() -> None:
    mine = sealed({"age": 3})
    for other_public, other in ((public(), nurse()), (public(8), party("sender", (), 8))):
        theirs = EventSealer(other_public, other.keys).seal(CONTEXT, {"age": 3}, SCHEMA, {})
        mixed = replace(mine, searchable=(theirs.searchable[0], *mine.searchable[1:]))
        with pytest.raises(DecodeError, match="several publishers"):
            BlindPart.from_bytes(mixed.to_bytes())
    own = finish_part(publisher().share, mine, EVERY)
    other = finish_part(party("sender", (), 8).share, theirs, EVERY)
    mixed_routed = replace(own, searchable=(other.searchable[0], *own.searchable[1:]))
    with pytest.raises(DecodeError, match="several set-ups"):
        RoutedBlind.from_bytes(mixed_routed.to_bytes())


def test_parts_are_plain_values() -> None:
    assert Searchable("a", 1, None) == Searchable("a", 1, None)
    assert Values(b"l", (b"c", b"d"), (Sealed("a", 1, b"x"),)).only({"a"}) == Values(
        b"l", (b"d",), (Sealed("a", 0, b"x"),)
    )
