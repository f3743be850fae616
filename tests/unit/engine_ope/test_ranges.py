"""Order-preserving values and filters on their way, and the index that matches them."""

import pytest

from policyengine.attributes import AttributeType, evaluate, parse, to_text
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec
from policyengine.ope import (
    EncryptedEvent,
    EncryptedSubscription,
    KeyringComparator,
    Range,
    RangeCipher,
    RangeFilter,
    RangeIndex,
    RangeKey,
    RangeValues,
    Slot,
    split_filter,
)
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import SeededRandom

NUMBER = AttributeType("int", minimum=0, maximum=100)
ORDERED = {"delay": NUMBER, "height": AttributeType("float"), "tail": AttributeType("string")}
TYPES = EventTypes(
    [
        TypeSpec(
            "Flight",
            None,
            (
                AttributeSpec("carrier", AttributeType("string")),
                *(AttributeSpec(name, kind, (), "confidential", "order-preserving")
                  for name, kind in ORDERED.items()),
            ),
        ),
        TypeSpec("Departure", "Flight", (
            AttributeSpec("wait", NUMBER, (), "confidential", "order-preserving"),
        )),
    ]
)  # fmt: skip
DECLARED = {"delay": "Flight", "height": "Flight", "tail": "Flight", "wait": "Departure"}


def keys(epoch=1, scheme="sbm2", domain="flights"):
    random = SeededRandom(f"{epoch}{scheme}{domain}".encode())
    return [
        RangeKey.generate(Slot(domain, declaring, name, epoch), scheme, random=random)
        for name, declaring in DECLARED.items()
    ]


def cipher(*held):
    return RangeCipher(TYPES, held or [(key, True) for key in keys()])


def ring(*epochs, domain="flights"):
    found = [key for epoch in epochs or (1,) for key in keys(epoch, domain=domain)]
    return KeyringComparator([key.comparator_key() for key in found])


def wanted(text, event_type="Flight", by=None):
    expression = parse(text, TYPES.schema(event_type))
    made = (by or cipher()).encrypt_filter(event_type, expression)
    return RangeFilter.from_bytes(made.to_bytes())


def values(event, event_type="Flight", by=None):
    made = (by or cipher()).encrypt_values(event_type, event)
    return RangeValues.from_bytes(made.to_bytes())


FILTERS = {
    "a": "delay > 10 && delay <= 50",
    "b": "delay == 7 || tail startsWith 'N1'",
    "c": "tail endsWith 'UA' && height >= 1.5",
    "d": "delay != 7 && (height < 0 || delay in [1, 7, 90])",
    "e": "delay > 10 && delay < 5",
    "f": "has(tail)",
}
EVENTS = [
    {"delay": 7},
    {"delay": 11, "tail": "N1UA", "height": 2.0},
    {"delay": 50, "tail": "N2", "height": -3.0},
    {"delay": 90, "tail": "XUA", "height": 1.5, "carrier": "UA"},
    {"carrier": "DL"},
]


@pytest.mark.parametrize("scheme", ["sbm1", "sbm2"])
def test_filters_meet_what_plain_filters_meet(scheme):
    by = cipher(*((key, True) for key in keys(scheme=scheme)))
    index = RangeIndex(ring() if scheme == "sbm2" else None)
    index.replace({name: wanted(text, by=by) for name, text in FILTERS.items()})
    for event in EVENTS:
        expected = {
            name
            for name, text in FILTERS.items()
            if evaluate(parse(text, TYPES.schema("Flight")), event)
        }
        assert index.match(values(event, by=by)) == expected
    assert len(index) == len(FILTERS)
    assert index.broken == frozenset()


def test_a_subscription_to_a_type_meets_events_of_its_sub_types():
    index = RangeIndex(ring())
    index.replace({"above": wanted("delay > 10"), "below": wanted("wait < 3", "Departure")})
    assert index.match(values({"delay": 11, "wait": 2}, "Departure")) == {"above", "below"}
    assert index.match(values({"delay": 11})) == {"above"}


def test_filters_are_replaced_one_by_one():
    index = RangeIndex(ring())
    first, second = wanted("delay > 10"), wanted("delay > 20")
    index.replace({"a": first, "b": first})
    assert index.match(values({"delay": 15})) == {"a", "b"}
    index.replace({"a": second, "b": first})
    assert index.match(values({"delay": 15})) == {"b"}
    index.replace({"c": wanted("height > 1.0")})
    index.replace({})
    assert len(index) == 0
    assert index.match(values({"delay": 15, "height": 2.0})) == frozenset()


def test_schemes_of_two_epochs_match_together():
    # an attribute has moved from SBM-I to SBM-II while the others have not
    held = [(key, True) for key in keys(2, "sbm2") if key.slot.attribute == "delay"]
    held += [(key, True) for key in keys(1, "sbm1") if key.slot.attribute != "delay"]
    by, index = cipher(*held), RangeIndex(ring(2))
    index.replace({"both": wanted("delay > 10 && height > 1.0", by=by)})
    assert index.match(values({"delay": 11, "height": 2.0}, by=by)) == {"both"}
    assert index.match(values({"delay": 11, "height": 1.0}, by=by)) == frozenset()
    assert index.match(values({"delay": 9, "height": 2.0}, by=by)) == frozenset()


def test_nothing_of_two_epochs_meets_and_nothing_is_missed_while_keys_change():
    old, new = [(key, True) for key in keys(1)], [(key, True) for key in keys(2)]
    changing = cipher(*((key, False) for key, _ in old), *new)
    index = RangeIndex(ring(1, 2))
    index.replace(
        {
            "old": wanted("delay > 10", by=cipher(*old)),
            "new": wanted("delay > 10", by=cipher(*new)),
            "both": wanted("delay > 10 && height > 0.0", by=changing),
        }
    )
    event = {"delay": 11, "height": 1.0}
    assert index.match(values(event, by=cipher(*old))) == {"old", "both"}
    assert index.match(values(event, by=cipher(*new))) == {"new", "both"}
    assert set(values(event, by=changing).columns) == set(values(event, by=cipher(*new)).columns)


def test_nothing_of_two_domains_meets():
    index = RangeIndex(ring())
    index.replace({"a": wanted("delay > 10")})
    other = cipher(*((key, True) for key in keys(domain="trains")))
    assert index.match(values({"delay": 11}, by=other)) == frozenset()


def test_without_a_comparator_nothing_of_sbm2_is_met():
    index = RangeIndex()
    index.replace({"a": wanted("delay > 10")})
    assert index.match(values({"delay": 11})) == frozenset()
    index.replace({})
    assert len(index) == 0


class Away(Exception):
    pass


class Flaky:
    """A comparator that can go away, and need not have every key."""

    def __init__(self, inner):
        self.inner, self.away = inner, False

    def compare(self, questions):
        if self.away:
            raise Away
        return self.inner.compare(questions)


def test_a_comparator_that_is_away_loses_nothing():
    comparator = Flaky(ring())
    index = RangeIndex(comparator)
    comparator.away = True
    index.replace({"a": wanted("delay > 10"), "b": wanted("delay > 20")})
    with pytest.raises(Away):
        index.match(values({"delay": 15}))
    # what needs no comparison goes on
    assert index.match(values({"height": 1.0})) == frozenset()
    comparator.away = False
    assert index.match(values({"delay": 15})) == {"a"}
    comparator.away = True
    with pytest.raises(Away):
        index.match(values({"delay": 15}))


def test_a_key_that_the_comparator_lacks_holds_up_its_own_events_only():
    new = cipher(*((key, True) for key in keys(2)))
    index = RangeIndex(Flaky(ring(1)))
    index.replace({"old": wanted("delay > 10"), "new": wanted("delay > 10", by=new)})
    assert index.match(values({"delay": 11})) == {"old"}
    for _ in range(2):
        with pytest.raises(InputError) as refused:
            index.match(values({"delay": 11}, by=new))
        assert refused.value.kind == "unknown"
    # one of several that wait leaves the others waiting
    index.replace({name: wanted("delay > 10", by=new) for name in ("new", "newer")})
    index.replace({"new": wanted("delay > 10", by=new)})
    with pytest.raises(InputError):
        index.match(values({"delay": 11}, by=new))


def test_a_damaged_filter_is_never_met_and_the_others_are():
    good = wanted("delay > 10")
    ((subscription,),) = good.alternatives
    ((column, (one,)),) = subscription.ranges
    damaged = Range(one.low[:-1] + bytes((one.low[-1] ^ 1,)), None, True, False)
    (((_, (two,)),),) = (each.ranges for each in wanted("delay <= 5").alternatives[0])
    backwards = (Range(one.low, two.high),)
    bad = {
        name: RangeFilter(((EncryptedSubscription("sbm2", ((column, ranges),)),),))
        for name, ranges in (("damaged", (damaged,)), ("backwards", backwards))
    }
    index = RangeIndex(ring())
    index.replace({**bad, "good": good})
    assert index.match(values({"delay": 11})) == {"good"}
    assert index.broken == {"damaged", "backwards"}
    index.replace({"good": good})
    assert index.broken == frozenset()


def test_a_damaged_event_is_refused():
    index = RangeIndex(ring())
    index.replace({"a": wanted("delay > 10")})
    (event,) = values({"delay": 11}).events
    ((column, ciphertext),) = event.values
    spoiled = ciphertext[:-1] + bytes([ciphertext[-1] ^ 1])
    broken = EncryptedEvent("sbm2", ((column, spoiled),))
    with pytest.raises(DecryptionError):
        index.match(RangeValues((broken,)))


def test_an_attribute_without_a_key_is_neither_published_nor_filtered():
    by = RangeCipher(TYPES, [(key, False) for key in keys()])
    with pytest.raises(InputError):
        by.encrypt_values("Flight", {"delay": 1})
    assert RangeCipher(TYPES, ()).encrypt_values("Flight", {"carrier": "UA"}).events == ()
    with pytest.raises(InputError):
        RangeCipher(TYPES, ()).encrypt_filter("Flight", parse("delay > 1", ORDERED))


@pytest.mark.parametrize("text", ["!(delay > 1)", "atLeast(1, [delay > 1, delay > 2])"])
def test_a_filter_of_another_form_is_refused(text):
    with pytest.raises(InputError) as refused:
        wanted(text)
    assert refused.value.kind == "unsupported"


def test_a_filter_with_too_many_alternatives_is_refused():
    either = " && ".join("(delay == 1 || delay > 5)" for _ in range(7))
    many = " || ".join(f"delay == {number}" for number in range(65))
    for text in (either, many):
        with pytest.raises(InputError):
            wanted(text)
    every = [key for epoch in range(10) for key in keys(epoch)]
    by = cipher(*((key, False) for key in every))
    with pytest.raises(InputError):
        wanted("delay > 1 && height > 1.0", by=by)


def test_columns_can_be_left_out():
    both = values({"delay": 1, "height": 1.0})
    one = values({"delay": 1}).columns
    assert both.only(one).columns == one
    assert both.only(()).to_bytes() == b""
    assert wanted("delay > 1 && height > 0.0").columns == set(both.columns)


def test_other_bytes_are_no_values():
    event = values({"delay": 1}).events[0].to_bytes()
    sbm1 = cipher(*((key, True) for key in keys(scheme="sbm1")))
    first = values({"delay": 1}, by=sbm1).events[0].to_bytes()
    plain = EncryptedEvent("plain", (("x", b"x"),)).to_bytes()
    empty = EncryptedEvent("sbm2", ()).to_bytes()
    magic = b"portcullis/ordered-values/v1"
    assert RangeValues.from_bytes(b"") == RangeValues(())
    assert RangeValues.from_bytes(pack(magic, first, event)).columns
    for fields in (
        (magic,), (b"x", event), (magic, event, event), (magic, event, first),
        (magic, plain), (magic, empty), (magic, b""), (magic, first, event, event),
    ):  # fmt: skip
        with pytest.raises(DecodeError):
            RangeValues.from_bytes(pack(*fields))


def test_other_bytes_are_no_filter():
    ((one,),) = wanted("delay > 1").alternatives
    asked = one.to_bytes()
    never = EncryptedSubscription("sbm2", (), never=True).to_bytes()
    plain = EncryptedSubscription("plain", (("x", (Range(None, b"x"),)),)).to_bytes()
    magic = b"portcullis/ordered-filter/v1"
    assert RangeFilter.from_bytes(pack(magic)) == RangeFilter(())
    for data in (
        b"", pack(b"x"), pack(magic, b""), pack(magic, pack(asked, asked)),
        pack(magic, pack(never)), pack(magic, pack(plain)), pack(magic, pack()),
        pack(magic, *([pack(asked)] * 65)),
    ):  # fmt: skip
        with pytest.raises(DecodeError):
            RangeFilter.from_bytes(data)


def test_a_filter_is_parted_where_both_parts_must_hold():
    schema = TYPES.schema("Flight")
    inside, outside = split_filter(
        parse("delay > 1 && carrier == 'UA' && (tail == 'x' || height > 1.0)", schema), ORDERED
    )
    assert to_text(outside) == "carrier == 'UA'".replace("'", '"')
    assert set(parse(to_text(inside), schema).terms) == set(inside.terms)
    assert split_filter(parse("carrier == 'UA'", schema), ORDERED)[0] is None
    assert split_filter(parse("delay > 1", schema), ORDERED)[1] is None
    with pytest.raises(InputError) as refused:
        split_filter(parse("carrier == 'UA' || delay > 1", schema), ORDERED)
    assert "`carrier`, `delay`" in refused.value.message


def test_slots_tell_which_keys_count_for_a_type():
    held = keys()
    by = cipher(*((key, True) for key in held))
    inherited = sorted(key.slot.name for key in held if key.slot.type == "Flight")
    assert by.slots("Flight") == tuple(inherited)
    assert by.slots("Departure") == tuple(sorted(key.slot.name for key in held))
    with pytest.raises(InputError):
        by.slots("Nothing")
