"""Keys of order-preserving attributes: strict bytes, one purpose each, nothing across epochs."""

from dataclasses import replace

import pytest

from policyengine.attributes import AttributeType
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.ope import (
    ComparatorKey,
    KeyringComparator,
    Question,
    RangeKey,
    Slot,
    split_column,
)
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import SeededRandom

SLOT = Slot("flights", "Flight", "delay", 1)
NUMBER = AttributeType("int", minimum=0, maximum=1000)
WIDER = AttributeType("int", minimum=0, maximum=1001)
TEXT = AttributeType("string")
OTHER_SLOTS = [
    replace(SLOT, domain="trains"),
    replace(SLOT, type="Train"),
    replace(SLOT, attribute="late"),
    replace(SLOT, epoch=2),
]


def key(slot=SLOT, scheme="sbm2", seed=b"keys"):
    return RangeKey.generate(slot, scheme, random=SeededRandom(seed))


def cipher(one, value, declared=NUMBER):
    client = one.client(declared, random=SeededRandom(b"nonces"))
    return client.encrypt_event({one.slot.attribute: value}).values[0][1]


@pytest.mark.parametrize("scheme", ["sbm1", "sbm2"])
def test_keys_survive_their_bytes(scheme):
    one = key(scheme=scheme)
    assert RangeKey.from_bytes(one.to_bytes()) == one


def test_a_comparators_key_survives_its_bytes():
    one = key().comparator_key()
    assert ComparatorKey.from_bytes(one.to_bytes()) == one


def test_no_key_shows_itself():
    one = key()
    for shown in (repr(one), repr(one.comparator_key())):
        assert one.secret.hex() not in shown
        assert repr(one.secret)[2:-1] not in shown


@pytest.mark.parametrize("form", [RangeKey, ComparatorKey])
def test_other_bytes_are_no_key(form):
    one = key()
    right = one.to_bytes() if form is RangeKey else one.comparator_key().to_bytes()
    wrong = one.comparator_key().to_bytes() if form is RangeKey else one.to_bytes()
    slot = pack(b"flights", b"Flight", b"delay", bytes(8))
    short = pack(b"flights", b"Flight", b"delay", bytes(7))
    bad = [b"", right[:-1], right + b"x", wrong]
    if form is RangeKey:
        kind = b"portcullis/order-key/v1"
        bad += [
            pack(kind, slot, b"sbm3", bytes(32)),
            pack(kind, slot, b"\xff", bytes(32)),
            pack(kind, slot, b"sbm1", bytes(31)),
            pack(kind, short, b"sbm1", bytes(32)),
            pack(b"other", slot, b"sbm1", bytes(32)),
            pack(kind, pack(b"Not A Domain", b"T", b"a", bytes(8)), b"sbm1", bytes(32)),
            pack(kind, pack(b"flights", b"\xff", b"a", bytes(8)), b"sbm1", bytes(32)),
        ]
    else:
        kind = b"portcullis/comparator-key/v1"
        bad += [pack(kind, slot, bytes(31)), pack(kind, short, bytes(32))]
    for data in bad:
        with pytest.raises(DecodeError):
            form.from_bytes(data)


def test_a_key_is_of_a_known_scheme():
    with pytest.raises(InputError):
        RangeKey.generate(SLOT, "sbm3")


def test_sbm1_has_no_comparator():
    with pytest.raises(InputError):
        key(scheme="sbm1").comparator_key()


def test_the_comparator_places_values_of_its_slots():
    one = key()
    ring = KeyringComparator([one.comparator_key()])
    pivots = tuple(cipher(one, value) for value in (10, 20, 30))
    column = SLOT.column(NUMBER)
    asked = [Question(column, cipher(one, value), pivots) for value in (5, 10, 15, 30, 31)]
    assert ring.compare(asked) == [0, 1, 2, 5, 6]
    assert ring.slots == {SLOT.name: SLOT}


def test_the_comparator_places_texts_in_both_directions():
    one = key()
    ring = KeyringComparator([one.comparator_key()])
    client = one.client(TEXT)
    values = dict(client.encrypt_event({"delay": "ab"}).values)
    pivots = dict(client.encrypt_event({"delay": "ba"}).values)
    column = SLOT.column(TEXT)
    asked = [
        Question(column + end, values["delay" + end], (pivots["delay" + end],)) for end in "^$"
    ]
    assert ring.compare(asked) == [0, 2]


def test_a_comparator_refuses_a_column_without_a_key():
    ring = KeyringComparator([key().comparator_key()])
    for slot in OTHER_SLOTS:
        with pytest.raises(InputError) as refused:
            ring.compare([Question(slot.column(NUMBER), b"", ())])
        assert refused.value.kind == "unknown"


@pytest.mark.parametrize("slot", OTHER_SLOTS)
def test_nothing_of_two_slots_meets(slot):
    # the same secret even: the slot and the form are in what is compared
    one, other = key(), key(slot)
    assert one.slot.column(NUMBER) != other.slot.column(NUMBER)
    fresh = RangeKey.generate(slot, "sbm2", random=SeededRandom(b"another"))
    ring = KeyringComparator([one.comparator_key(), fresh.comparator_key()])
    with pytest.raises(DecryptionError):
        ring.compare([Question(SLOT.column(NUMBER), cipher(fresh, 5), ())])


def test_another_domain_of_values_is_another_column():
    one = key()
    ring = KeyringComparator([one.comparator_key()])
    assert SLOT.column(NUMBER) != SLOT.column(WIDER)
    with pytest.raises(DecryptionError):
        ring.compare([Question(SLOT.column(WIDER), cipher(one, 5), ())])
    sbm1 = key(scheme="sbm1")
    assert cipher(sbm1, 5) != cipher(sbm1, 5, WIDER)


def test_the_comparators_key_is_not_the_clients():
    one = key()
    assert one.comparator_key().secret != one.secret


def test_a_slot_has_one_key():
    with pytest.raises(InputError):
        KeyringComparator([key().comparator_key(), key(seed=b"other").comparator_key()])


@pytest.mark.parametrize(
    "column",
    [
        "",
        "c" + "f" * 47,
        "d" + "f" * 48,
        "c" + "g" * 48,
        "c" + "f" * 48 + "x",
        "c" + "f" * 48 + "^$",
    ],
)
def test_other_names_are_no_columns(column):
    with pytest.raises(InputError):
        split_column(column)
